//===- ExamplesTest.cpp - The examples' kernels as GPU machine code -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every kernel that any example needs, assembled for every GPU: ptxas must find
// nothing slow, which is a register kept in memory or a serialised instruction.
// Examples share most kernels, so each is compiled once. All GPUs, element
// types and encodings of lists together take ptxas many minutes: Gpus has each
// of them, and --gtest_also_run_disabled_tests adds what it leaves out.
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Pipelines/Compiler.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Target/Codegen/CompileApart.h"
#include "heddle/Target/NVPTX/CudaTarget.h"
#include "heddle/Target/NVPTX/Ptxas.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

namespace {

using Encodings = std::vector<bundle::Encoding>;
const Encodings bitmap = {bundle::Encoding::Bitmap},
                uint16 = {bundle::Encoding::Uint16},
                each = {bundle::Encoding::Int32, bundle::Encoding::Uint16,
                        bundle::Encoding::Bitmap};

/// A GPU, an element type and how lists of keys are written.
using Case = std::tuple<const char *, const char *, Encodings>;

class Examples : public testing::TestWithParam<Case> {
protected:
  Examples() {
    DialectRegistry registry;
    registerCompilerDialects(registry);
    context.appendDialectRegistry(registry);
  }

  OwningOpRef<ModuleOp> kernelsOfAll(const Backend &backend);
  void addKernelsOf(StringRef path, const Backend &backend, ModuleOp all);
  bool isCopy(Operation &op) const;
  void run(ModuleOp module, function_ref<void(OpPassManager &)> populate) {
    PassManager pm(&context);
    populate(pm);
    ASSERT_TRUE(succeeded(pm.run(module)));
  }

  MLIRContext context;
  int schedules = 0; ///< whose kernels were taken
};

} // namespace

/// Lists of blocks are Int32 whatever the encoding of lists of keys, so kernels
/// that have no others are the same code in each.
bool Examples::isCopy(Operation &op) const {
  auto kernel = dyn_cast<shed::KernelOp>(op);
  if (!kernel || !kernel.getEncoding() ||
      *kernel.getEncoding() == std::get<2>(GetParam()).front())
    return false;
  auto readsKeys = [](Attribute set) {
    std::optional<shed::KeyEntries> entries = shed::entriesOf(set);
    return entries && !entries->blockKeys;
  };
  return !kernel
              .walk([&](Operation *inner) {
                auto choice = dyn_cast<shed::TopKOp>(inner);
                auto loop = dyn_cast<shed::ForKeysOp>(inner);
                bool keys = (choice && !choice.getBlocks()) ||
                            (loop && (readsKeys(loop.getOver()) ||
                                      llvm::any_of(loop.getSkip(), readsKeys)));
                return keys ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
}

void Examples::addKernelsOf(StringRef path, const Backend &backend,
                            ModuleOp all) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  ASSERT_TRUE(static_cast<bool>(buffer)) << path.str();
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSchedule(sources, "", &context);
  ASSERT_TRUE(module) << path.str();
  run(*module, [](OpPassManager &pm) {
    populateSchedulePipeline(pm);
    populatePlanPipeline(pm);
  });
  PlanOp plan = *module->getOps<PlanOp>().begin();
  ++schedules;
  const auto &[gpu, type, encodings] = GetParam();
  KernelForms forms{{type}, {64, 128}, llvm::to_vector(encodings)};
  run(*module,
      [&](OpPassManager &pm) { backend.populateTilePasses(pm, forms); });
  plan.erase();
  for (Operation &op : llvm::make_early_inc_range(*module->getBody())) {
    // Kernels that compute some of the rows have the same name and other forms.
    if (auto kernel = dyn_cast<shed::KernelOp>(op);
        kernel && kernel.getTilingAs<shed::WgmmaTilingAttr>())
      kernel.setSymName((kernel.getSymName() + "_wgmma").str());
    if (auto symbol = dyn_cast<SymbolOpInterface>(op);
        symbol && !all.lookupSymbol(symbol.getName()) && !isCopy(op)) {
      op.remove();
      all.push_back(&op);
    }
  }
}

/// The kernels of all examples at the tile level, each form once.
OwningOpRef<ModuleOp> Examples::kernelsOfAll(const Backend &backend) {
  OwningOpRef<ModuleOp> all(ModuleOp::create(UnknownLoc::get(&context)));
  std::error_code error;
  std::vector<std::string> paths;
  for (llvm::sys::fs::directory_iterator file(HEDDLE_EXAMPLES, error), end;
       file != end && !error; file.increment(error))
    if (llvm::sys::path::extension(file->path()) == ".mlir")
      paths.push_back(file->path());
  EXPECT_FALSE(error);
  llvm::sort(paths);
  for (const std::string &path : paths)
    addKernelsOf(path, backend, *all);
  EXPECT_EQ(static_cast<size_t>(schedules), paths.size());
  return all;
}

TEST_P(Examples, AssembleWithNothingSlow) {
  std::optional<std::string> ptxas = ::heddle::findPtxas();
  if (!ptxas)
    GTEST_SKIP() << "there is no ptxas here";
  auto backend = createBackend(std::get<0>(GetParam()), {Assembler::None});
  ASSERT_TRUE(static_cast<bool>(backend));
  OwningOpRef<ModuleOp> module = kernelsOfAll(**backend);
  ASSERT_FALSE(HasFailure());
  run(*module, [&](OpPassManager &pm) {
    (*backend)->populatePipelinePasses(pm);
    (*backend)->populateMachinePasses(pm);
  });
  ASSERT_FALSE(HasFailure());
  auto sections = (*backend)->generateCode(*module, /*cache=*/nullptr);
  ASSERT_TRUE(succeeded(sections));
  ASSERT_EQ(sections->size(), 1u);
  StringRef ptx = sections->front().contents;
  // Code for sm_80 is that of bundles for every GPU.
  auto least = ::heddle::CudaTarget::get("sm_86");
  ASSERT_TRUE(static_cast<bool>(least));
  int64_t mostShared = (*backend)->name() == "sm_80"
                           ? least->sharedBytesPerBlock()
                           : bundle::maxSharedBytes;
  SmallVector<KernelRecord> records = collectKernels(*module);
  for (const KernelRecord &kernel : records) {
    SCOPED_TRACE(kernel.symbol);
    EXPECT_TRUE(ptx.contains(".visible .entry " + kernel.symbol + "("));
    EXPECT_EQ(kernel.threads % bundle::warpThreads, 0);
    EXPECT_GT(kernel.threads, 0);
    EXPECT_LE(kernel.threads, bundle::maxThreads);
    EXPECT_LE(kernel.sharedBytes, mostShared);
  }

  std::string why;
  auto assembled = ::heddle::assemble(*ptxas, (*backend)->name(), ptx, why);
  ASSERT_TRUE(static_cast<bool>(assembled))
      << llvm::toString(assembled.takeError());
  if (!*assembled)
    GTEST_SKIP() << why;
  EXPECT_EQ((*assembled)->kernels.size(), records.size());
  for (const ::heddle::PtxasKernel &kernel : (*assembled)->kernels)
    EXPECT_EQ(kernel.stackBytes, 0)
        << kernel.symbol << ": " << kernel.registers << " registers, "
        << kernel.spillBytes << " bytes spilled";
  for (const std::string &complaint : (*assembled)->complaints)
    ADD_FAILURE() << complaint;
}

static std::string nameOf(const testing::TestParamInfo<Case> &info) {
  return StringRef(std::get<0>(info.param)).drop_front(5).str() + "_" +
         std::get<1>(info.param);
}

// One encoding: which heddlec chooses for most of the examples.
INSTANTIATE_TEST_SUITE_P(Gpus, Examples,
                         testing::Values(Case{"cuda:sm_80", "bf16", each},
                                         Case{"cuda:sm_80", "f16", bitmap},
                                         Case{"cuda:sm_80", "f32", bitmap},
                                         Case{"cuda:sm_86", "bf16", bitmap},
                                         Case{"cuda:sm_89", "bf16", bitmap},
                                         Case{"cuda:sm_90a", "bf16", each},
                                         Case{"cuda:sm_90a", "f16", uint16},
                                         Case{"cuda:sm_100", "bf16", bitmap},
                                         Case{"cuda:sm_120", "bf16", bitmap}),
                         nameOf);

INSTANTIATE_TEST_SUITE_P(
    DISABLED_All, Examples,
    testing::Combine(testing::Values("cuda:sm_80", "cuda:sm_86", "cuda:sm_89",
                                     "cuda:sm_90a", "cuda:sm_100",
                                     "cuda:sm_120"),
                     testing::Values("bf16", "f16", "f32"),
                     testing::Values(each)),
    nameOf);
