//===- RewireTest.cpp - Kernels changed at random mean what they say ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels as the compiler writes them get other operands, attributes, orders
// and operations. What the verifier lets pass must compute, on the host, what a
// float64 evaluation of the operands says; and the GPU's lowering, which can't
// be run here, must take it.
//
//===----------------------------------------------------------------------===//

#include "ShedEvaluator.h"

#include "bundle/test/RandomTerm.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"
#include "heddle/Target/Host/HostCodegen.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using namespace mlir;

namespace {

constexpr const char *plan = R"(
heddle.plan @plan {
  heddle.selection @s columns(keep = 0.2, group = 32) by mean_probability on every(8)
  heddle.kernel @near attention [window(24), sinks(3)]
  heddle.kernel @mixed attention [columns(@s, group = 32), window(9), sinks(3)] writes_lse
  heddle.kernel @scored attention [sinks(6), window(20)] scores(%l, %q, %k) {
    %d = arith.subi %k, %q : i32
    %f = arith.sitofp %d : i32 to f32
    %c = arith.constant 0.03125 : f32
    %t = arith.mulf %f, %c : f32
    %s = arith.addf %l, %t : f32
    heddle.yield %s
  }
  heddle.kernel @pick select(blocks = 32) by mean_probability
  heddle.rule default { heddle.phase otherwise { heddle.attend_with @near } }
}
)";

class Rewirer {
public:
  Rewirer(shed::KernelOp kernel, std::mt19937 &random)
      : kernel(kernel), random(random) {
    kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      // What is inside of scores is another dialect's.
      if (op->getParentOfType<shed::ScoresOp>())
        return;
      ops.push_back(op);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          if (!isa<shed::ScoresOp>(op))
            llvm::append_range(values, block.getArguments());
      llvm::append_range(values, op->getResults());
    });
  }

  void change() {
    Operation *op = pick(ops);
    switch (random() % 6) {
    case 0:
    case 1:
      return changeOperand(op);
    case 2:
      if (Operation *next = op->getNextNode();
          next && !next->hasTrait<OpTrait::IsTerminator>())
        op->moveAfter(next);
      return;
    case 3:
      if (!op->hasTrait<OpTrait::IsTerminator>()) {
        // Another one, whose result somebody may take.
        Operation *copy = op->clone();
        op->getBlock()->getOperations().insertAfter(op->getIterator(), copy);
        if (op->getNumResults() && random() % 2)
          op->getResult(0).replaceUsesWithIf(
              copy->getResult(0), [&](OpOperand &) { return random() % 2; });
      }
      return;
    case 4:
      // Left out: who took its result takes what it took.
      // (Of a loop, others may hold what is inside by now.)
      if (op->getNumResults() == 1 && op->getNumOperands() > 0 &&
          !isa<shed::ForKeysOp, shed::ForQueriesOp>(op) &&
          op->getOperand(0).getType() == op->getResult(0).getType()) {
        op->getResult(0).replaceAllUsesWith(op->getOperand(0));
        op->erase();
      }
      return;
    default:
      return changeAttributes(op);
    }
  }

private:
  template <typename T> T pick(const std::vector<T> &from) {
    return from[random() % from.size()];
  }

  void changeOperand(Operation *op) {
    if (!op->getNumOperands())
      return;
    unsigned i = random() % op->getNumOperands();
    std::vector<Value> others;
    for (Value value : values)
      if (value.getType() == op->getOperand(i).getType() &&
          value != op->getOperand(i))
        others.push_back(value);
    if (!others.empty())
      op->setOperand(i, pick(others));
  }

  void changeAttributes(Operation *op) {
    MLIRContext *context = op->getContext();
    // A set of which each row has its own keys.
    auto masked = [&] {
      while (true) {
        bundle::Term term = randomTerm(random, 40);
        if (random() % 2)
          term = {.kind = bundle::Term::Kind::Window,
                  .size = pick(std::vector<int64_t>{5, 9, 20, 24, 40})};
        shed::KeySet set = shed::keySetOf(context, term, 0, 0);
        if (!set.isUniform())
          return set;
      }
    };
    Attribute sets[] = {masked(), shed::AllAttr::get(context),
                        shed::SinksAttr::get(context, 7),
                        shed::ListAttr::get(context, 0, 32)};
    if (auto loop = dyn_cast<shed::ForKeysOp>(op)) {
      if (random() % 2)
        loop.setOverAttr(sets[random() % 4]);
      else
        loop.setSkipAttr(random() % 2
                             ? ArrayAttr::get(context, {})
                             : ArrayAttr::get(context, sets[2 + random() % 2]));
    } else if (auto mask = dyn_cast<shed::MaskOp>(op)) {
      if (random() % 2)
        mask.setWithinAttr(random() % 2 ? masked() : shed::KeySet());
      else
        mask.setOutsideAttr(ArrayAttr::get(
            context, random() % 2 ? ArrayRef<Attribute>()
                                  : ArrayRef<Attribute>(sets[0])));
    } else if (auto choice = dyn_cast<shed::TopKOp>(op)) {
      choice.setBlocks(!choice.getBlocks());
    } else if (auto lse = dyn_cast<shed::LoadLseOp>(op)) {
      lse.setSpan(!lse.getSpan());
    } else if (auto queries = dyn_cast<shed::ForQueriesOp>(op)) {
      queries.setSpan(!queries.getSpan());
    }
  }

  shed::KernelOp kernel;
  std::mt19937 &random;
  std::vector<Operation *> ops;
  std::vector<Value> values;
};

class Rewired : public testing::TestWithParam<std::string> {};

TEST_P(Rewired, MeansTheSameEverywhere) {
  std::mt19937 random(testSeed());
  DialectRegistry registry;
  registry.insert<mlir::heddle::HeddleDialect, shed::ShedDialect>();
  mlir::heddle::registerHostCodegenDialects(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(plan, &context);
  ASSERT_TRUE(module);
  PassManager written(&context);
  mlir::heddle::ConvertHeddleToShedOptions options;
  options.dtypes = {"f32"};
  options.headDims = {32};
  written.addPass(mlir::heddle::createConvertHeddleToShed(options));
  ASSERT_TRUE(succeeded(written.run(*module)));
  std::vector<shed::KernelOp> originals(
      module->getOps<shed::KernelOp>().begin(),
      module->getOps<shed::KernelOp>().end());

  // Only errors of the verifier, which are expected, are not shown.
  OwningOpRef<ModuleOp> accepted = ModuleOp::create(UnknownLoc::get(&context));
  int tried = 0, refused = 0, kept = 0;
  for (shed::KernelOp original : originals)
    accepted->push_back(original->clone());
  while (tried++ < 2000 && kept < 24) {
    shed::KernelOp original = originals[random() % originals.size()];
    Operation *copy = original->clone();
    auto kernel = cast<shed::KernelOp>(copy);
    for (size_t changes = 1 + random() % 3; changes > 0; --changes)
      Rewirer(kernel, random).change();
    bool good = false;
    {
      ScopedDiagnosticHandler quiet(&context,
                                    [](Diagnostic &) { return success(); });
      good = succeeded(verify(copy));
    }
    const bool same = OperationEquivalence::isEquivalentTo(
        copy, original, OperationEquivalence::IgnoreLocations);
    refused += !good;
    if (!good || same) {
      copy->destroy();
      continue;
    }
    ++kept;
    kernel.setSymName("k" + std::to_string(tried));
    accepted->push_back(copy);
  }
  EXPECT_GE(kept, 12) << "of " << tried << ", " << refused << " refused";
  EXPECT_GT(refused, kept / 4) << "the changes make nothing wrong";

  // The GPU's lowering takes what the verifier takes.
  OwningOpRef<ModuleOp> forGpus(accepted->clone());
  PassManager gpu(&context);
  gpu.addPass(shed::createShedChooseMmaTiles());
  gpu.addPass(mlir::heddle::createConvertShedToNVVM());
  std::string text;
  llvm::raw_string_ostream(text) << *accepted;
  EXPECT_TRUE(succeeded(gpu.run(*forGpus))) << text;

  // The host's computes what the operands say.
  OwningOpRef<ModuleOp> forHost(accepted->clone());
  KernelSet set(GetParam(), *forHost);
  int64_t n = 45;
  Sequence sequence(random, false, n, 2, 1, 32);
  test::Pattern pattern;
  pattern.lists.emplace_back(random, n, 2, 32, 11);
  for (auto kernel : accepted->getOps<shed::KernelOp>()) {
    if (kernel.getKind() != shed::KernelKind::Attention)
      continue;
    std::string ir;
    llvm::raw_string_ostream(ir) << kernel;
    SCOPED_TRACE(ir);
    AttentionResult want = evaluateShed(kernel, sequence, pattern);
    AttentionResult got =
        runAttention(set[kernel.getSymName().str()], sequence, pattern, random);
    EXPECT_LT(relativeError(got.output, want.output, 1e-3), 1e-4);
    if (kernel.getWritesLse())
      EXPECT_LT(relativeError(got.lse, want.lse, 1), 1e-4);
    if (HasFailure())
      return;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Rewired, testing::Values("x86-64-v3"),
                         [](const auto &) { return "x86_64_v3"; });

} // namespace
