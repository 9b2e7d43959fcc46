//===- ChooseWgmmaTiles.cpp - Give kernels the warpgroup tilings of a table
//-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Shed/Transforms/Passes.h"
#include "heddle/Dialect/Shed/Transforms/Tuning.h"

#include "llvm/Support/MemoryBuffer.h"

#include <map>
#include <numeric>

namespace mlir::shed {
#define GEN_PASS_DEF_SHEDCHOOSEWGMMATILES
#include "heddle/Dialect/Shed/Transforms/Passes.h.inc"
} // namespace mlir::shed

using namespace mlir;
using namespace mlir::shed;
using ::heddle::bundle::LaunchForm;

int64_t mlir::shed::sharedTaskRows(int64_t group, int64_t blockRows) {
  constexpr int64_t together = 64;
  const int64_t rows = group <= blockRows ? group : std::gcd(group, together);
  const bool whole = rows % together == 0;
  return whole || (rows >= 16 && together % rows == 0) ? rows : 0;
}

bool mlir::shed::dividesRows(const WgmmaRule &rule, int64_t rows) {
  const int64_t block = 64 * rule.consumers;
  return block > 0 &&
         (rule.shared ? sharedTaskRows(rows, block) > 0 : rows % block == 0);
}

StringRef mlir::shed::builtInTuning() {
  return
#include "BuiltInTuning.inc"
      ;
}

/// Whether these are some of the keys, by their positions.
static bool goesByRange(Attribute set) {
  return isa<KeySet>(set) && !isa<AllAttr>(set) && !entriesOf(set);
}

/// What a rule calls the keys of these loops. More than two ranges take as many
/// registers as lists and ranges do.
static StringRef nameOf(ArrayRef<ForKeysOp> loops) {
  if (loops.size() <= 2 && llvm::all_of(loops, [](ForKeysOp loop) {
        return goesByRange(loop.getOver());
      }))
    return "range";
  if (loops.size() > 1)
    return "union";
  ForKeysOp loop = loops.front();
  Attribute over = loop.getOver();
  if (isa<AllAttr>(over))
    return "all";
  std::optional<KeyEntries> entries = entriesOf(over);
  return entries && !entries->blockKeys ? "list" : "blocks";
}

using Loops = SmallVector<ForKeysOp>;

static Loops loopsOf(KernelOp kernel) {
  return llvm::to_vector(kernel.getBody().getOps<ForKeysOp>());
}

/// The set of a loop if it differs by row, else null.
static KeySet maskedSet(ForKeysOp loop) {
  auto set = dyn_cast<KeySet>(loop.getOver());
  return set && !set.isUniform() ? set : KeySet();
}

/// The sets before a loop of a union: those that are the same for all rows of a
/// tile, and those that differ.
struct SetsBefore {
  void add(ForKeysOp loop) {
    (maskedSet(loop) ? masked : uniform).push_back(loop.getOver());
  }
  SmallVector<Attribute> uniform, masked;
};

/// Whether each loop leaves out just what those before it had, so that they may
/// come in any order.
static bool countsOnce(ArrayRef<ForKeysOp> loops) {
  SetsBefore before;
  for (ForKeysOp loop : loops) {
    auto masks = llvm::to_vector(loop.getBody().getOps<MaskOp>());
    KeySet own = maskedSet(loop);
    const bool masked = own || !before.masked.empty();
    if (loop.getSkip().getValue() != ArrayRef(before.uniform) ||
        masks.size() != masked ||
        (masked &&
         (masks[0].getWithinAttr() != own ||
          masks[0].getOutside().getValue() != ArrayRef(before.masked))))
      return false;
    before.add(loop);
  }
  return true;
}

/// Has lists come behind sets that go by positions. Whether a key is in one of
/// these is arithmetic, whether it is in a list a search.
static void moveListsBack(KernelOp kernel) {
  Loops loops = loopsOf(kernel);
  Value init = loops.front().getInit();
  Operation *end = loops.back()->getNextNode();
  SmallVector<OpOperand *> users;
  for (OpOperand &use : loops.back().getResult().getUses())
    users.push_back(&use);
  Loops ordered, lists;
  for (ForKeysOp loop : loops)
    (entriesOf(loop.getOver()) ? lists : ordered).push_back(loop);
  llvm::append_range(ordered, lists);
  OpBuilder b(kernel.getContext());
  SetsBefore before;
  for (ForKeysOp loop : ordered) {
    loop->moveBefore(end);
    loop.getInitMutable().assign(init);
    init = loop.getResult();
    loop.setSkipAttr(b.getArrayAttr(before.uniform));
    Block &body = loop.getBody().front();
    for (MaskOp mask : llvm::make_early_inc_range(body.getOps<MaskOp>())) {
      mask.replaceAllUsesWith(mask.getLogits());
      mask.erase();
    }
    KeySet own = maskedSet(loop);
    for (SoftmaxUpdateOp update : body.getOps<SoftmaxUpdateOp>()) {
      if (!own && before.masked.empty())
        break;
      b.setInsertionPoint(update);
      update.getLogitsMutable().assign(MaskOp::create(
          b, update.getLoc(), update.getLogits().getType(), update.getLogits(),
          body.getArgument(0), own, b.getArrayAttr(before.masked)));
    }
    before.add(loop);
  }
  for (OpOperand *use : users)
    use->set(init);
}

/// Whether loops skip the keys of lists, which warpgroups do not search.
static bool skipsLists(ArrayRef<ForKeysOp> loops) {
  return llvm::any_of(loops, [](ForKeysOp loop) {
    return llvm::any_of(loop.getSkip(), entriesOf);
  });
}

/// Whether the rule fits a loop of its kernel.
static bool suits(const WgmmaRule &rule, ForKeysOp loop, KernelOp kernel) {
  Attribute over = loop.getOver();
  if (isa<AllAttr>(over))
    return true;
  if (goesByRange(over)) {
    // Where every pair of a long sequence is asked for, registers run short.
    KeySet set = cast<KeySet>(over);
    return !set.isSparse() && (!set.hasGaps() || set.isShort()) &&
           (rule.cluster == 1 || rule.queryStages);
  }
  if (rule.cluster > 1)
    return false;
  std::optional<KeyEntries> entries = entriesOf(over);
  if (!entries || !dividesRows(rule, kernel.getRowsInStep()))
    return false;
  if (!entries->blockKeys)
    return !rule.tma && kernel.getEncoding() != Encoding::Bitmap;
  return rule.keys > 0 && entries->blockKeys % rule.keys == 0;
}

/// Whether pairs of a loop are asked for by more than one range of keys beside
/// its own.
static bool asksForPairs(ForKeysOp loop) {
  auto hasGaps = [](Attribute set) { return cast<KeySet>(set).hasGaps(); };
  return llvm::any_of(loop.getBody().getOps<MaskOp>(), [&](MaskOp mask) {
    SmallVector<Attribute> asked(mask.getOutside().getValue());
    if (KeySet within = mask.getWithinAttr();
        within && (within != loop.getOver() || within.hasGaps()))
      asked.push_back(within);
    return asked.size() > 1 || llvm::any_of(asked, hasGaps);
  });
}

/// The same for a kernel that selects. Those by other logits, or by mean ones,
/// have none.
static bool suitsSelection(const WgmmaRule &rule, KernelOp kernel) {
  const auto group = static_cast<int64_t>(*kernel.getGroup());
  return rule.over == "scores" && !kernel.getElement().isF32() &&
         kernel.getHeadDim() % 64 == 0 && group >= 16 && group <= 128 &&
         llvm::isPowerOf2_64(group) && rule.cluster == 1 &&
         rule.keyShares == 1 && !rule.queryStages && rule.keys % 64 == 0 &&
         llvm::isPowerOf2_64(rule.consumers) &&
         !kernel.getBody()
              .walk([](Operation *op) {
                return isa<ScoresOp, LogitMassOp>(op) ? WalkResult::interrupt()
                                                      : WalkResult::advance();
              })
              .wasInterrupted();
}

bool mlir::shed::hasSumsToCheck(KernelOp kernel) {
  return !kernel.getWritesLse() &&
         !kernel.getBody()
              .walk([](ScoresOp) { return WalkResult::interrupt(); })
              .wasInterrupted();
}

/// Whether the way by warpgroups has a form for the kernel and all of its ops,
/// with this rule.
static bool suits(const WgmmaRule &rule, KernelOp kernel) {
  if (rule.headDim != static_cast<int64_t>(kernel.getHeadDim()) ||
      (rule.element == "bf16") != kernel.getElement().isBF16())
    return false;
  if (kernel.getKind() == KernelKind::Select)
    return suitsSelection(rule, kernel);
  if (rule.over == "scores" || kernel.getElement().isF32() ||
      rule.shared != kernel.getSharedLists() || kernel.getPerLayer() ||
      kernel.getHeadDim() % 64 ||
      (rule.keyShares > 1 && (!kernel.getSomeRows() || kernel.hasLists())) ||
      (kernel.scoresPositions() && !rule.positions) ||
      (rule.checkSums && !hasSumsToCheck(kernel)))
    return false;
  Loops loops = loopsOf(kernel);
  auto fromList = [](ForKeysOp loop) {
    return entriesOf(loop.getOver()).has_value();
  };
  if (skipsLists(loops) &&
      (llvm::count_if(loops, fromList) > 1 || !countsOnce(loops)))
    return false;
  if (loops.empty() || rule.over != nameOf(loops) ||
      (rule.masked && llvm::none_of(loops, asksForPairs)) ||
      !llvm::all_of(loops,
                    [&](ForKeysOp loop) { return suits(rule, loop, kernel); }))
    return false;
  return !kernel.getBody()
              .walk([&](Operation *op) {
                if (isa<ScoresOp>(op) || op->getParentOfType<ScoresOp>())
                  return WalkResult::advance();
                return isa<LoadQueriesOp, SoftmaxInitOp, ForKeysOp, LoadKeysOp,
                           LoadValuesOp, DotOp, MaskOp, SoftmaxUpdateOp,
                           YieldOp, StoreOp>(op)
                           ? WalkResult::advance()
                           : WalkResult::interrupt();
              })
              .wasInterrupted();
}

/// Of few rows most warpgroups would have none: a kernel that steps of some
/// rows run, too, stays as it is and gets others beside it.
static KernelOp formBeside(KernelOp kernel, LaunchForm form) {
  if (!kernel.getSomeRows())
    return kernel;
  OpBuilder b(kernel->getContext());
  b.setInsertionPointAfter(kernel);
  auto made = cast<KernelOp>(b.clone(*kernel));
  made.setSymName(::heddle::bundle::formSymbol(kernel.getSymName(), form));
  made.setSomeRows(form != LaunchForm::All);
  return made;
}

namespace {
struct ChooseWgmmaTiles
    : shed::impl::ShedChooseWgmmaTilesBase<ChooseWgmmaTiles> {
  using ShedChooseWgmmaTilesBase::ShedChooseWgmmaTilesBase;
  ChooseWgmmaTiles(ArrayRef<WgmmaRule> rules, StringRef source)
      : rules(rules.begin(), rules.end()), source(source) {}

  LogicalResult initialize(MLIRContext *context) override {
    if (table.empty())
      return success();
    auto file = llvm::MemoryBuffer::getFile(table);
    if (!file)
      return emitError(UnknownLoc::get(context))
             << "cannot read '" << table << "': " << file.getError().message();
    auto parsed = ::heddle::bundle::tilingsFromJson((*file)->getBuffer());
    if (!parsed)
      return emitError(UnknownLoc::get(context))
             << table << ": " << parsed.error().text();
    rules.assign(parsed->begin(), parsed->end());
    source = table;
    return success();
  }

  void runOnOperation() override {
    SmallVector<KernelOp> kernels;
    getOperation()->walk([&](KernelOp kernel) {
      if (!kernel.getTilingAttr())
        kernels.push_back(kernel);
    });
    for (KernelOp kernel : kernels) {
      std::map<LaunchForm, const WgmmaRule *> chosen;
      for (const WgmmaRule &rule : rules)
        if (!chosen.count(rule.form()) && suits(rule, kernel))
          chosen[rule.form()] = &rule;
      // All clone the kernel as it is without a tiling.
      for (LaunchForm form :
           {LaunchForm::Packed, LaunchForm::Long, LaunchForm::All})
        if (const WgmmaRule *rule = chosen[form];
            rule && failed(setTiling(formBeside(kernel, form), *rule)))
          return signalPassFailure();
    }
  }

  LogicalResult setTiling(KernelOp kernel, const WgmmaRule &rule) {
    auto tiling = WgmmaTilingAttr::getChecked(
        [&] { return kernel.emitError("the table of tilings: "); },
        &getContext(), rule.consumers, rule.keys, rule.stages, rule.parts,
        rule.producerRegisters, rule.consumerRegisters, rule.blocks, rule.tma,
        rule.cluster, rule.keyShares,
        rule.keyShares > 1 ? std::max<int64_t>(rule.leastKeys, 1)
                           : rule.leastKeys,
        rule.queryStages, rule.packed, rule.checkSums, rule.pingPong,
        rule.tailKeys, rule.oneRing);
    if (!tiling)
      return failure();
    kernel.setTilingAttr(tiling);
    if (!source.empty())
      kernel->setLoc(FusedLoc::get(
          {FileLineColLoc::get(&getContext(), source,
                               static_cast<unsigned>(rule.line),
                               static_cast<unsigned>(rule.column)),
           kernel.getLoc()},
          /*metadata=*/nullptr, &getContext()));
    if (kernel.getKind() == KernelKind::Attention &&
        skipsLists(loopsOf(kernel)))
      moveListsBack(kernel);
    return success();
  }

  SmallVector<WgmmaRule> rules;
  std::string source; ///< that they are from, if any
};
} // namespace

std::unique_ptr<Pass>
mlir::shed::createShedChooseWgmmaTiles(ArrayRef<WgmmaRule> rules,
                                       StringRef file) {
  return std::make_unique<ChooseWgmmaTiles>(rules, file);
}
