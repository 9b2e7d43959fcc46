//===- Words.cpp - What of the language schedules say ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Words.h"

#include "bundle/program/Scores.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"

#include "mlir/IR/MLIRContext.h"

using namespace mlir;
using namespace mlir::heddle;
namespace test = ::heddle::test;

/// Ops that stand in schedules.
static bool isOfSchedules(RegisteredOperationName name) {
  return name.hasTrait<OpTrait::HasParent<ScheduleOp>::Impl>() ||
         name.hasTrait<OpTrait::HasParent<ScheduleOp, PlanOp>::Impl>();
}

/// The sizes of groups of operands, which attributes of this name hold, say
/// which optional operands are there.
static bool isSegments(StringRef name) { return name == "operandSegmentSizes"; }

static std::string word(StringRef first, StringRef second) {
  return (first + " " + second).str();
}

namespace {
/// Calls `visit` with each enumeration that schedules use: the attribute's
/// class, the kind's name, the largest value that they can say, and the
/// function that spells a value.
template <typename Visit> void forEachEnum(Visit visit) {
  visit.template operator()<KeepRuleAttr>("keep_rule",
                                          getMaxEnumValForKeepRule());
  visit.template operator()<ScorerAttr>("scorer", getMaxEnumValForScorer());
  visit.template operator()<SelectionKindAttr>("selection_kind",
                                               getMaxEnumValForSelectionKind());
  visit.template operator()<IsolationAttr>("isolation",
                                           getMaxEnumValForIsolation());
  visit.template operator()<ScaleAttr>("scale", getMaxEnumValForScale());
  // What follows are the plan's names of sets that ops of their own make.
  visit.template operator()<PositionsKindAttr>(
      "positions_kind", static_cast<uint32_t>(PositionsKind::Next));
  visit.template operator()<ExactAttr>("exact", getMaxEnumValForExact());
  visit.template operator()<ReusedAttentionAttr>(
      "reused_attention", getMaxEnumValForReusedAttention());
  visit.template operator()<CommitKindAttr>("commit_kind",
                                            getMaxEnumValForCommitKind());
}

template <typename Enum> std::string spelt(uint32_t value) {
  return stringifyEnum(static_cast<Enum>(value)).str();
}
} // namespace

std::set<std::string> test::wordsOfLanguage(MLIRContext *context) {
  std::set<std::string> words;
  for (RegisteredOperationName name :
       context->getRegisteredOperationsByDialect("heddle")) {
    if (!isOfSchedules(name))
      continue;
    words.insert(name.getStringRef().str());
    for (StringAttr attribute : name.getAttributeNames())
      if (!isSegments(attribute))
        words.insert(word(name.getStringRef(), attribute));
  }
  forEachEnum([&]<typename Attr>(StringRef kind, uint32_t most) {
    for (uint32_t value = 0; value <= most; ++value)
      words.insert(word(kind, spelt<decltype(Attr().getValue())>(value)));
  });
  for (uint32_t value = 0; value <= getMaxEnumValForCadenceKind(); ++value)
    words.insert(word("cadence", spelt<CadenceKind>(value)));
  for (const char *part : {"fraction", "step", "seed", "from of every",
                           "plus of at", "in_block", "after_eos", "two"})
    words.insert(word("cadence", part));
  for (const char *of :
       {"positions since", "recompute among", "commit within", "visible all_on",
        "attend until", "attend pairs", "attend scores"})
    words.insert(of);
#define HEDDLE_SCORE_OP(kind, dialect, name, signature)                        \
  words.insert(std::string(dialect) + "." + (name));
  HEDDLE_SCORE_OPS(HEDDLE_SCORE_OP)
#undef HEDDLE_SCORE_OP
  return words;
}

static void countCadence(CadenceAttr cadence,
                         std::map<std::string, int> &words) {
  const bool isAt = cadence.getKind() == CadenceKind::At;
  ++words[word("cadence", stringifyEnum(cadence.getKind()))];
  words["cadence fraction"] += bool(cadence.getFraction());
  words["cadence step"] += cadence.getStep() != 0;
  words["cadence seed"] += cadence.getSeed() != 0;
  words["cadence from of every"] += !isAt && cadence.getFrom() != 1;
  words["cadence plus of at"] += isAt && cadence.getFrom() != 1;
  words["cadence in_block"] += cadence.getInBlock();
  words["cadence after_eos"] += cadence.getAfterEos();
}

/// The value of an enumeration, the parts of a cadence, or what isn't known.
static void countValue(Attribute value, std::map<std::string, int> &words) {
  bool known =
      isa<RatioAttr>(value) || value.getDialect().getNamespace() == "builtin";
  if (auto cadence = dyn_cast<CadenceAttr>(value)) {
    known = true;
    countCadence(cadence, words);
  }
  forEachEnum([&]<typename Attr>(StringRef kind, uint32_t) {
    if (auto one = dyn_cast<Attr>(value)) {
      known = true;
      ++words[word(kind, stringifyEnum(one.getValue()))];
    }
  });
  if (!known)
    ++words[word("?", value.getAbstractAttribute().getName())];
}

void test::countWords(ModuleOp module, std::map<std::string, int> &words) {
  module.walk([&](Operation *op) {
    ++words[op->getName().getStringRef().str()];
    auto name = op->getName().getRegisteredInfo();
    if (!name || !isOfSchedules(*name))
      return;
    for (StringAttr attribute : name->getAttributeNames())
      if (std::optional<Attribute> value = op->getInherentAttr(attribute);
          value && *value && !isSegments(attribute)) {
        ++words[word(name->getStringRef(), attribute)];
        countValue(*value, words);
      }
    if (auto positions = dyn_cast<PositionsOp>(op))
      words["positions since"] += bool(positions.getSince());
    if (auto visible = dyn_cast<VisibleOp>(op))
      words["visible all_on"] += bool(visible.getAllOn());
    if (auto recompute = dyn_cast<RecomputeOp>(op)) {
      words["recompute among"] += bool(recompute.getAmong());
      words["cadence two"] += recompute.getOn().size() > 1;
    }
    if (auto commit = dyn_cast<CommitOp>(op))
      words["commit within"] += bool(commit.getWithin());
    if (auto attend = dyn_cast<AttendOp>(op)) {
      words["attend until"] += bool(attend.getUntil());
      words["attend pairs"] += bool(attend.getPairs());
      words["attend scores"] += !attend.getScores().empty();
    }
  });
}
