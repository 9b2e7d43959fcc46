//===- RewireTest.cpp - Kernels changed at random mean what they say ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels as the compiler writes them get other operands, attributes, orders
// and operations. What the verifier lets pass must compute what a float64
// evaluation of the operands says: on the host; on GPUs the portable way; and
// by warpgroups where that has a form for it. The code for GPUs is run by an
// interpreter.
//
//===----------------------------------------------------------------------===//

#include "CudaKernels.h"
#include "SelectEvaluator.h"
#include "ShedEvaluator.h"

#include "bundle/test/RandomTerm.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"
#include "heddle/Target/Host/HostCodegen.h"
#include "heddle/Target/NVPTX/PtxCodegen.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using namespace mlir;

namespace {

constexpr const char *plan = R"(
heddle.plan @plan {
  heddle.selection @s columns(keep = 0.2, group = GROUP) by mean_probability on every(8)
  heddle.kernel @near attention [window(24), sinks(3)]
  heddle.kernel @mixed attention [columns(@s, group = GROUP), window(9), sinks(3)] writes_lse
  heddle.kernel @listed attention [columns(@s, group = GROUP)]
  heddle.kernel @scored attention [sinks(6), window(20)] scores(%l, %q, %k) {
    %d = arith.subi %k, %q : i32
    %f = arith.sitofp %d : i32 to f32
    %c = arith.constant 0.03125 : f32
    %t = arith.mulf %f, %c : f32
    %s = arith.addf %l, %t : f32
    heddle.yield %s
  }
  heddle.kernel @pick select(blocks = 32) by mean_probability
  heddle.kernel @keys select(group = GROUP) by mean_probability
  heddle.rule default { heddle.phase otherwise { heddle.attend_with @near } }
}
)";

/// What a select kernel is asked for.
struct Asked {
  Asked(shed::KernelOp kernel, const Sequence &s, std::mt19937 &random)
      : blocks(
            cast<shed::TopKOp>(kernel.getBody().front().back()).getBlocks()) {
    const auto size = static_cast<int64_t>(*kernel.getGroup());
    const int64_t all = blocks ? blocksOf(s.n, size, 0) : s.n;
    auto upTo = [&](int64_t most) {
      return 1 + static_cast<int64_t>(random() % most);
    };
    choice = {.group = size, .keep = upTo(all), .headsPerList = 1};
    lse = evaluate(s, {}).lse;
    if (!blocks || random() % 2)
      return;
    // The blocks behind the first are scored by themselves.
    choice.boundary = 1;
    choice.spanKeep = upTo(all);
    choice.keep = choice.spanKeep + upTo(all - 1);
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.n; ++i) {
        double sum = 0;
        for (int64_t j = size; j < s.n; ++j)
          sum += std::exp2(s.logit(i, j, h));
        spanLse.push_back(static_cast<float>(std::log2(sum)));
      }
    choice.spanLse = spanLse.data();
  }
  Asked(const Asked &) = delete; // what `choice` points to stays

  bool blocks;
  Choice choice;
  std::vector<float> lse, spanLse;
};

/// Element type, head dim and the rows that have a list together.
struct Form {
  const char *type;
  int64_t headDim, group;
};

class Rewirer {
public:
  Rewirer(shed::KernelOp kernel, int64_t group, std::mt19937 &random)
      : group(group), random(random) {
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
      // (Of a loop, others may hold what is inside by now; an op may take its
      // own result.)
      if (op->getNumResults() == 1 && op->getNumOperands() > 0 &&
          op->getOperand(0) != op->getResult(0) &&
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
                        shed::ListAttr::get(context, 0, group)};
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

  const int64_t group;
  std::mt19937 &random;
  std::vector<Operation *> ops;
  std::vector<Value> values;
};

class Rewired : public testing::TestWithParam<Form> {
protected:
  /// What one lowering made of a kernel beside what its operands say.
  static void expectSame(shed::KernelOp kernel, const AttentionResult &got,
                         const AttentionResult &want, const char *where) {
    const bool bf16 = kernel.getElement().isBF16();
    EXPECT_LT(relativeError(got.output, want.output, bf16 ? 0.1 : 1e-3),
              bf16 ? 1e-2 : 1e-4)
        << where;
    if (kernel.getWritesLse())
      EXPECT_LT(relativeError(got.lse, want.lse, 1), 1e-4) << where;
  }

  /// Scores beside what they are, lists beside the best by these scores.
  static void expectSelected(const Sequence &s, const Asked &asked,
                             const SelectResult &got, const char *where) {
    const Choice &choice = asked.choice;
    const std::vector<float> want = evaluateScores(s, asked.lse, choice.group);
    if (!asked.blocks) {
      EXPECT_LT(relativeError(got.scores, want), 1e-4) << where;
      EXPECT_EQ(got.indices, bruteForce(got.scores, s.n, choice.keep)) << where;
      return;
    }
    const bool span = choice.spanLse != nullptr;
    const std::vector<float> wantSpan =
        span ? evaluateScores(s, asked.spanLse, choice.group)
             : std::vector<float>();
    const int64_t blocks = blocksOf(s.n, choice.group, 0);
    for (size_t list = 0; list < want.size() / s.n; ++list) {
      const float *row = &got.scores[list * s.n];
      const std::vector<float> scores(row, row + blocks);
      std::vector<float> spanScores;
      EXPECT_LT(relativeError(scores, pool(&want[list * s.n], s.n, choice.group,
                                           0, span)),
                1e-4)
          << where;
      if (span) {
        spanScores.assign(row + blocks, row + 2 * blocks - choice.boundary);
        EXPECT_LT(relativeError(spanScores,
                                pool(&wantSpan[list * s.n], s.n, choice.group,
                                     0, true, choice.boundary)),
                  1e-4)
            << where;
      }
      auto first = got.indices.begin() + list * choice.keep;
      EXPECT_EQ(std::vector<int32_t>(first, first + choice.keep),
                chooseBlocks(scores, spanScores, choice))
          << where;
    }
  }
};

TEST_P(Rewired, MeansTheSameEverywhere) {
  std::mt19937 random(testSeed());
  DialectRegistry registry;
  registry.insert<mlir::heddle::HeddleDialect, shed::ShedDialect>();
  mlir::heddle::registerBackendDialects(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  const Form form = GetParam();
  std::string text = plan;
  for (size_t at; (at = text.find("GROUP")) != std::string::npos;)
    text.replace(at, 5, std::to_string(form.group));
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  PassManager written(&context);
  mlir::heddle::ConvertHeddleToShedOptions options;
  options.dtypes = {form.type};
  options.headDims = {form.headDim};
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
      Rewirer(kernel, form.group, random).change();
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

  OwningOpRef<ModuleOp> forHost(accepted->clone());
  KernelSet set("x86-64-v3", *forHost);
  const int64_t n = 75;
  int byWarpgroups = 0;
  for (auto kernel : accepted->getOps<shed::KernelOp>()) {
    std::string ir;
    llvm::raw_string_ostream(ir) << kernel;
    SCOPED_TRACE(ir);
    const std::optional<CudaKernel> portable = compilePortable(kernel);
    const std::optional<CudaKernel> own =
        form.headDim % 64 ? std::nullopt : compileForWarpgroups(kernel, random);
    if (!portable)
      return;
    byWarpgroups += own.has_value();
    const KernelSet::Entry &host = set[kernel.getSymName().str()];
    Sequence sequence(random, kernel.getElement().isBF16(), n, 2, 1,
                      form.headDim);
    if (kernel.getKind() == shed::KernelKind::Select) {
      const Asked asked(kernel, sequence, random);
      auto check = [&](const SelectResult &got, const char *where) {
        expectSelected(sequence, asked, got, where);
      };
      check(runSelect(host, sequence, asked.lse, asked.choice), "on the host");
      check(runSelect(*portable, sequence, asked.lse, asked.choice, random),
            "on GPUs");
      if (own)
        check(runSelect(*own, sequence, asked.lse, asked.choice, random),
              "by warpgroups");
      if (HasFailure())
        return;
      continue;
    }
    if (random() % 2)
      sequence.thinOut(random);
    test::Pattern pattern;
    pattern.lists.emplace_back(random, n, 2, form.group, 11);
    const AttentionResult want = evaluateShed(kernel, sequence, pattern);
    expectSame(kernel, runAttention(host, sequence, pattern, random), want,
               "on the host");
    expectSame(kernel, runAttention(*portable, sequence, pattern, random), want,
               "on GPUs");
    if (own)
      expectSame(kernel, runAttention(*own, sequence, pattern, random), want,
                 "by warpgroups");
    if (HasFailure())
      return;
  }
  // Those that are not changed, and others.
  if (form.headDim % 64 == 0)
    EXPECT_GT(byWarpgroups, std::ssize(originals));
  RecordProperty("by_warpgroups", byWarpgroups);
}

INSTANTIATE_TEST_SUITE_P(, Rewired,
                         testing::Values(Form{"f32", 32, 32},
                                         Form{"bf16", 64, 64}),
                         [](const auto &info) { return info.param.type; });

} // namespace
