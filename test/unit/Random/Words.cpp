//===- Words.cpp - What of the language schedules say ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Words.h"

#include "bundle/format/ManifestFields.h"
#include "bundle/program/Scores.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"

#include "mlir/IR/MLIRContext.h"

#include <functional>

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;
namespace test = ::heddle::test;

/// The sizes of groups of operands, which attributes of this name hold, say
/// which optional operands are there.
static bool isSegments(StringRef name) { return name == "operandSegmentSizes"; }

static std::string word(StringRef first, StringRef second) {
  return (first + " " + second).str();
}

/// "window dilation"
static std::string wordOfTerm(const bundle::Term &term, StringRef number) {
  return word(bundle::setNames()[static_cast<size_t>(term.kind)], number);
}

namespace {
using Found = std::function<void(const std::string &word)>;

/// Hears the fields of a struct of the bundle and finds the words that say it:
/// of enumerations, of flags that are true, of numbers that may be left out.
class Finder {
public:
  static constexpr bool writes = true;
  Finder(std::string of, Found found)
      : of(std::move(of)), found(std::move(found)) {}

  template <typename T, typename R = bundle::detail::Any>
  void operator()(const char *name, const T &value, R = {}) {
    if constexpr (std::is_enum_v<T>)
      found(word(of, (name + (" " + spelled(value))).str()));
    else if constexpr (std::is_same_v<T, bool>)
      value ? found(word(of, name)) : void();
  }
  template <typename R>
  void operator()(const char *name, const int64_t &value,
                  bundle::detail::Or<R> option) {
    value != option.value ? found(word(of, name)) : void();
  }
  bool has(const char *name, bool needed, const char * = "") {
    needed ? found(word(of, name)) : void();
    return needed;
  }

private:
  std::string of;
  Found found;
};

/// The same of all that a struct may say: of the kind with the number `kind`,
/// and the first or the second of two fields.
class Lister {
public:
  static constexpr bool writes = false;
  Lister(std::string of, int kind, bool first, std::set<std::string> &words)
      : of(std::move(of)), kind(kind), first(first), words(words) {}

  template <typename T, typename R = bundle::detail::Any>
  void operator()(const char *name, T &value, R = {}) {
    if constexpr (std::is_enum_v<T>) {
      int index = 0;
      for (std::string_view each : namesOf(value))
        if (bool own = index++ == kind % int(namesOf(value).size());
            own || !std::is_same_v<R, bundle::detail::Kind>) {
          value = own ? T(index - 1) : value;
          words.insert(word(of, (name + (" " + StringRef(each))).str()));
        }
    } else if constexpr (std::is_same_v<T, bool>) {
      words.insert(word(of, name));
    }
  }
  template <typename R>
  void operator()(const char *name, int64_t &, bundle::detail::Or<R>) {
    words.insert(word(of, name));
  }
  bool has(const char *name, bool, const char * = "") {
    words.insert(word(of, name));
    return first;
  }

private:
  std::string of;
  int kind;
  bool first;
  std::set<std::string> &words;
};

template <typename T>
void listFields(const char *of, std::set<std::string> &words) {
  for (int kind = 0; kind < int(namesOf(decltype(T::kind)()).size()); ++kind)
    for (bool first : {false, true}) {
      T value;
      Lister lister(of, kind, first, words);
      bundle::detail::fields(lister, value);
    }
}

template <typename E>
void listWords(StringRef of, std::set<std::string> &words, E end) {
  for (int i = 0; i < int(end); ++i)
    words.insert(word(of, spelled(E(i))));
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
  // What follows are sets that ops of their own make.
  listWords("positions_kind", words, PositionsKind::Union);
  listWords("exact", words, Exact(namesOf(Exact()).size()));
  listWords("reused_attention", words,
            ReusedAttention(namesOf(ReusedAttention()).size()));
  listFields<bundle::Cadence>("cadence", words);
  listFields<bundle::Selection>("selection", words);
  listFields<bundle::CommitRule>("commit", words);
  words.insert("cadence two");
  words.insert("commit passes");
  words.insert("commit renoise");
  words.insert("commit verify");
  for (const char *each :
       {"commit revoke_by row", "commit revoke_fewer_than step"})
    words.erase(each); // goes without saying
  for (size_t kind = 0; kind < bundle::setNames().size(); ++kind)
    if (bundle::Term term = {.kind = static_cast<bundle::Term::Kind>(kind)};
        !bundle::goesByPlaces(term))
      for (const bundle::SetNumber &number : bundle::numbersOf(term.kind)) {
        words.insert(wordOfTerm(term, number.name));
        if (number.orShare)
          words.insert(wordOfTerm(term, "share"));
      }
  for (const char *of :
       {"positions since", "positions count", "recompute among",
        "recompute confidence", "recompute alone", "recompute unseen",
        "reuse kv", "reuse ffn", "reuse keep", "commit within",
        "visible all_on", "intersect pairs", "intersect selections",
        "attend until", "attend pairs", "attend pairs until", "attend scores"})
    words.insert(of);
#define HEDDLE_SCORE_OP(kind, dialect, name, signature)                        \
  words.insert(std::string(dialect) + "." + (name));
  HEDDLE_SCORE_OPS(HEDDLE_SCORE_OP)
#undef HEDDLE_SCORE_OP
  return words;
}

/// The words of an attribute, or what isn't known.
static void countValue(Attribute value, std::map<std::string, int> &words) {
  auto count = [&](const std::string &word) { ++words[word]; };
  bool known =
      isa<RatioAttr>(value) || value.getDialect().getNamespace() == "builtin";
  auto countFields = [&](const char *of, const auto &fields) {
    known = true;
    Finder finder(of, count);
    bundle::detail::fields(finder, fields);
  };
  if (auto cadence = dyn_cast<CadenceAttr>(value))
    countFields("cadence", cadence.getValue());
  if (auto rule = dyn_cast<SelectionRuleAttr>(value))
    countFields("selection", rule.getValue());
  if (auto rule = dyn_cast<CommitRuleAttr>(value)) {
    countFields("commit", rule.getValue());
    words["commit passes"] += rule.getValue().leastPasses != 1;
    words["commit renoise"] += rule.getValue().renoises;
    words["commit verify"] += rule.getValue().verifies();
  }
  if (auto term = dyn_cast<TermAttr>(value)) {
    known = true;
    const bundle::Term set = term.getSet();
    for (const bundle::SetNumber &number : bundle::numbersOf(set.kind)) {
      const bool share = number.orShare && set.share.num > 0;
      if (!number.isLeftOut(set))
        ++words[wordOfTerm(set, share ? "share" : number.name)];
    }
  }
  if (auto set = dyn_cast<PositionSetAttr>(value)) {
    known = true;
    count(word("positions_kind", spelled(set.getValue().kind)));
    words["positions count"] += set.getValue().count != 0;
  }
  if (auto rule = dyn_cast<RowRuleAttr>(value)) {
    known = true;
    const bundle::Pass pass = rule.getValue();
    count(word("exact", spelled(pass.exact)));
    words["recompute confidence"] += pass.confidence.num > 0;
    words["recompute alone"] += pass.alone;
    words["recompute unseen"] += pass.unseen;
  }
  if (auto rule = dyn_cast<ReuseRuleAttr>(value)) {
    known = true;
    const bundle::Reuse reuse = rule.getValue();
    count(word("reused_attention", spelled(reuse.attention)));
    words["reuse kv"] += reuse.kv;
    words["reuse ffn"] += reuse.ffn;
    words["reuse keep"] += reuse.keep != bundle::Reuse().keep;
  }
  if (!known)
    count(word("?", value.getAbstractAttribute().getName()));
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
    if (auto select = dyn_cast<SelectOp>(op)) {
      words["selection rows"] += bool(select.getRows());
      words["selection always"] += bool(select.getAlways());
      words["selection within"] += bool(select.getWithin());
    }
    if (auto both = dyn_cast<IntersectOp>(op)) {
      words["intersect pairs"] += isa<PairsType>(both.getType());
      words["intersect selections"] +=
          llvm::any_of(both.getOperands(), [](Value operand) {
            return operand.getDefiningOp<SelectOp>();
          });
    }
    if (auto visible = dyn_cast<VisibleOp>(op))
      words["visible all_on"] += bool(visible.getAllOn());
    if (auto recompute = dyn_cast<RecomputeOp>(op)) {
      words["recompute among"] += bool(recompute.getAmong());
      words["cadence two"] += recompute.getOn().size() > 1;
    }
    if (auto commit = dyn_cast<CommitOp>(op))
      words["commit within"] += bool(commit.getWithin());
    if (auto attend = dyn_cast<AttendOp>(op)) {
      words["attend until"] += !attend.getUntil().empty();
      words["attend pairs"] += !attend.getPairs().empty();
      words["attend pairs until"] += attend.getPairs().size() > 1;
      words["attend scores"] += !attend.getScores().empty();
    }
  });
}
