//===- ChooseWgmmaTiles.cpp - Give kernels the warpgroup tilings of a table
//-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Shed/Transforms/Passes.h"
#include "heddle/Dialect/Shed/Transforms/Tuning.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mlir::shed {
#define GEN_PASS_DEF_SHEDCHOOSEWGMMATILES
#include "heddle/Dialect/Shed/Transforms/Passes.h.inc"
} // namespace mlir::shed

using namespace mlir;
using namespace mlir::shed;

llvm::Expected<llvm::SmallVector<WgmmaRule>>
mlir::shed::parseTuning(llvm::StringRef text) {
  // The parser calls itself at each bracket; a table has three inside of one
  // another.
  int64_t depth = 0;
  for (char c : text) {
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (depth > 3)
      return llvm::createStringError(
          "a table of tilings is an object with a list 'wgmma' of objects; "
          "brackets are nested deeper here");
  }
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed)
    return llvm::createStringError("a table of tilings is no JSON: " +
                                   llvm::toString(parsed.takeError()));
  const llvm::json::Object *table = parsed->getAsObject();
  const llvm::json::Array *list = table ? table->getArray("wgmma") : nullptr;
  if (!list || table->size() != 1)
    return llvm::createStringError(
        "a table of tilings is an object with a list 'wgmma' and nothing else");
  llvm::SmallVector<WgmmaRule> rules;
  for (auto [i, value] : llvm::enumerate(*list)) {
    WgmmaRule rule;
    const llvm::json::Object *fields = value.getAsObject();
    auto problem = [&, i = i](const llvm::Twine &what) {
      return llvm::createStringError(
          llvm::formatv("wgmma[{0}]: {1}", i, what.str()).str());
    };
    if (!fields)
      return problem("expected an object");
    std::optional<llvm::StringRef> element = fields->getString("element");
    if (!element || (*element != "bf16" && *element != "f16"))
      return problem("'element' is \"bf16\" or \"f16\"");
    rule.element = element->str();
    std::pair<const char *, int64_t *> numbers[] = {
        {"head_dim", &rule.headDim},
        {"consumers", &rule.consumers},
        {"keys", &rule.keys},
        {"stages", &rule.stages},
        {"parts", &rule.parts},
        {"producer_registers", &rule.producerRegisters},
        {"consumer_registers", &rule.consumerRegisters}};
    for (auto [name, into] : numbers) {
      std::optional<int64_t> number = fields->getInteger(name);
      if (!number)
        return problem(llvm::Twine("'") + name +
                       "' is not there or no integer");
      *into = *number;
    }
    size_t known = std::size(numbers) + 1;
    if (fields->get("over")) {
      std::optional<llvm::StringRef> over = fields->getString("over");
      if (!over || (*over != "all" && *over != "list" && *over != "blocks"))
        return problem("'over' is \"all\", \"list\" or \"blocks\"");
      rule.over = over->str();
      ++known;
    }
    if (fields->get("copies")) {
      std::optional<llvm::StringRef> copies = fields->getString("copies");
      if (!copies || (*copies != "threads" && *copies != "tma"))
        return problem("'copies' is \"threads\" or \"tma\"");
      rule.tma = *copies == "tma";
      ++known;
    }
    std::pair<const char *, int64_t *> optional[] = {
        {"blocks", &rule.blocks}, {"cluster", &rule.cluster}};
    for (auto [name, into] : optional) {
      if (!fields->get(name))
        continue;
      std::optional<int64_t> number = fields->getInteger(name);
      if (!number)
        return problem(llvm::Twine("'") + name + "' is no integer");
      *into = *number;
      ++known;
    }
    if (fields->size() != known)
      return problem("there are fields beside 'element', 'over', 'blocks', "
                     "'copies', 'cluster', 'head_dim', "
                     "'consumers', 'keys', 'stages', 'parts', "
                     "'producer_registers' and 'consumer_registers'");
    rules.push_back(rule);
  }
  return rules;
}

StringRef mlir::shed::builtInTuning() {
  return
#include "BuiltInTuning.inc"
      ;
}

/// Whether the rule speaks of this set of keys and fits its kernel.
static bool suits(const WgmmaRule &rule, Attribute over, KernelOp kernel) {
  if (isa<AllAttr>(over))
    return rule.over == "all";
  if (rule.cluster > 1 || (rule.tma && isa<ListAttr>(over)))
    return false;
  if (!rule.dividesRows(kernel.getRowsInStep()))
    return false;
  if (isa<ListAttr>(over))
    return rule.over == "list" && kernel.getEncoding() != Encoding::Bitmap;
  auto blocks = dyn_cast<BlocksAttr>(over);
  return blocks && rule.over == "blocks" && rule.keys > 0 &&
         blocks.getSize() % rule.keys == 0;
}

/// Whether the way by warpgroups has a form for the kernel and all of its ops,
/// with this rule. Of few rows most warpgroups would have none.
static bool suits(const WgmmaRule &rule, KernelOp kernel) {
  if (kernel.getSomeRows() || kernel.getKind() != KernelKind::Attention ||
      kernel.getElement().isF32() || kernel.getHeadDim() % 64)
    return false;
  // One loop makes one pipeline.
  if (llvm::range_size(kernel.getBody().getOps<ForKeysOp>()) != 1)
    return false;
  return !kernel.getBody()
              .walk([&](Operation *op) {
                if (auto loop = dyn_cast<ForKeysOp>(op);
                    loop && (!suits(rule, loop.getOver(), kernel) ||
                             !loop.getSkip().empty()))
                  return WalkResult::interrupt();
                // Elements know their numbers in a tile, not where they stand.
                if (isa<ScoresOp>(op) || op->getParentOfType<ScoresOp>())
                  return kernel.scoresPositions() ? WalkResult::interrupt()
                                                  : WalkResult::advance();
                return isa<LoadQueriesOp, SoftmaxInitOp, ForKeysOp, LoadKeysOp,
                           LoadValuesOp, DotOp, SoftmaxUpdateOp, YieldOp,
                           StoreOp>(op)
                           ? WalkResult::advance()
                           : WalkResult::interrupt();
              })
              .wasInterrupted();
}

namespace {
struct ChooseWgmmaTiles
    : shed::impl::ShedChooseWgmmaTilesBase<ChooseWgmmaTiles> {
  using ShedChooseWgmmaTilesBase::ShedChooseWgmmaTilesBase;
  explicit ChooseWgmmaTiles(ArrayRef<WgmmaRule> rules)
      : rules(rules.begin(), rules.end()) {}

  LogicalResult initialize(MLIRContext *context) override {
    if (table.empty())
      return success();
    auto file = llvm::MemoryBuffer::getFile(table);
    if (!file)
      return emitError(UnknownLoc::get(context))
             << "cannot read '" << table << "': " << file.getError().message();
    auto parsed = parseTuning((*file)->getBuffer());
    if (!parsed)
      return emitError(UnknownLoc::get(context))
             << table << ": " << llvm::toString(parsed.takeError());
    rules = std::move(*parsed);
    return success();
  }

  void runOnOperation() override {
    WalkResult walked = getOperation()->walk([&](KernelOp kernel) {
      if (kernel.getTilingAttr())
        return WalkResult::advance();
      for (const WgmmaRule &rule : rules) {
        if (rule.headDim != static_cast<int64_t>(kernel.getHeadDim()) ||
            (rule.element == "bf16") != kernel.getElement().isBF16() ||
            !suits(rule, kernel))
          continue;
        auto tiling = WgmmaTilingAttr::getChecked(
            [&] { return kernel.emitError("the table of tilings: "); },
            &getContext(), rule.consumers, rule.keys, rule.stages, rule.parts,
            rule.producerRegisters, rule.consumerRegisters, rule.blocks,
            rule.tma, rule.cluster);
        if (!tiling)
          return WalkResult::interrupt();
        kernel.setTilingAttr(tiling);
        break;
      }
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      signalPassFailure();
  }

  SmallVector<WgmmaRule> rules;
};
} // namespace

std::unique_ptr<Pass>
mlir::shed::createShedChooseWgmmaTiles(ArrayRef<WgmmaRule> rules) {
  return std::make_unique<ChooseWgmmaTiles>(rules);
}
