//===- PtxTest.cpp - From kernels in LLVM's terms to PTX and machine code -===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/NVPTX/PtxCodegen.h"
#include "heddle/Target/NVPTX/Ptxas.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace heddle;

namespace {

/// Every GPU that code is made for.
constexpr const char *chips[] = {"sm_80",  "sm_86",  "sm_89",
                                 "sm_90a", "sm_100", "sm_120"};

/// Two kernels that use the block's shared memory, each with a function of the
/// same name of its own making.
constexpr const char *twoKernels = R"mlir(
llvm.mlir.global external @heddle_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
llvm.func internal @twice(%x: f32) -> f32 attributes {no_inline} {
  %y = arith.addf %x, %x : f32
  llvm.return %y : f32
}
llvm.func @first(%p: !llvm.ptr<1>, %n: i64) attributes {nvvm.kernel, nvvm.maxntid = array<i32: 128>, nvvm.minctasm = 2 : i32} {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant 0.0 : f32
  %shared = llvm.mlir.addressof @heddle_shared : !llvm.ptr<3>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 : i64 {
    %a = llvm.getelementptr %p[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %x = llvm.load %a : !llvm.ptr<1> -> f32
    %e = nvvm.inline_ptx "ex2.approx.ftz.f32 {$w0}, {$r0};" ro(%x : f32) -> f32
    %t = llvm.call @twice(%e) : (f32) -> f32
    %r = arith.addf %s, %t : f32
    scf.yield %r : f32
  }
  llvm.store %sum, %shared : f32, !llvm.ptr<3>
  nvvm.barrier0
  %y = llvm.load %shared : !llvm.ptr<3> -> f32
  llvm.store %y, %p : f32, !llvm.ptr<1>
  llvm.return
}
llvm.func @second(%p: !llvm.ptr<1>) attributes {nvvm.kernel} {
  %shared = llvm.mlir.addressof @heddle_shared : !llvm.ptr<3>
  %x = llvm.load %p : !llvm.ptr<1> -> f32
  %t = llvm.call @twice(%x) : (f32) -> f32
  llvm.store %t, %shared : f32, !llvm.ptr<3>
  nvvm.barrier0
  %y = llvm.load %shared : !llvm.ptr<3> -> f32
  llvm.store %y, %p : f32, !llvm.ptr<1>
  llvm.return
}
)mlir";

class Ptx : public testing::Test {
protected:
  Ptx() {
    mlir::DialectRegistry registry;
    mlir::heddle::registerBackendDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadDialect<mlir::arith::ArithDialect, mlir::LLVM::LLVMDialect,
                        mlir::NVVM::NVVMDialect, mlir::scf::SCFDialect,
                        mlir::vector::VectorDialect>();
  }

  /// The PTX of a module's text; an error's text on failure.
  std::string emit(const char *source, const char *chip) {
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::parseSourceString<mlir::ModuleOp>(source, &context);
    EXPECT_TRUE(module);
    llvm::Expected<CudaTarget> target = CudaTarget::get(chip);
    EXPECT_TRUE(static_cast<bool>(target));
    std::string error;
    mlir::ScopedDiagnosticHandler handler(&context,
                                          [&](mlir::Diagnostic &diagnostic) {
                                            error += diagnostic.str();
                                            return mlir::success();
                                          });
    mlir::FailureOr<std::string> text = mlir::heddle::emitPtx(*module, *target);
    return mlir::succeeded(text) ? *text : error;
  }

  mlir::MLIRContext context;
};

int count(const std::string &text, const std::string &part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(CudaTargets, HaveTheFactsOfTheirGpu) {
  for (const char *chip : chips) {
    SCOPED_TRACE(chip);
    llvm::Expected<CudaTarget> target = CudaTarget::get(chip);
    ASSERT_TRUE(static_cast<bool>(target));
    EXPECT_EQ(target->description().cpu, chip);
    EXPECT_EQ(target->description().kind, bundle::Target::Kind::Cuda);
    // Code for sm_80 is to run everywhere: its blocks take what all have.
    int64_t ofBlock = target->sharedBytesPerMultiprocessor() -
                      CudaTargetInfo::sharedBytesReserved;
    if (std::string(chip) == "sm_80")
      ofBlock = 99 * 1024;
    EXPECT_EQ(target->sharedBytesPerBlock(), ofBlock);
    EXPECT_LE(target->sharedBytesPerBlock(), bundle::maxSharedBytes);
    EXPECT_EQ(target->hasWgmma(), std::string(chip) == "sm_90a");
    EXPECT_EQ(target->startsEarly(), !std::string(chip).starts_with("sm_8"));
  }
  llvm::Expected<CudaTarget> none = CudaTarget::get("sm_75");
  ASSERT_FALSE(none);
  EXPECT_EQ(llvm::toString(none.takeError()),
            "unknown GPU 'sm_75'; expected one of sm_80, sm_86, sm_89, sm_90a, "
            "sm_100, sm_120 (code for sm_80 runs on all later ones)");
}

TEST_F(Ptx, HasTheOldestVersionThatKnowsTheGpu) {
  const char *versions[] = {"7.0", "7.1", "7.8", "8.3", "8.6", "8.7"};
  for (size_t i = 0; i < std::size(chips); ++i) {
    std::string header = std::string(".version ") + versions[i] + "\n.target " +
                         chips[i] + "\n.address_size 64\n";
    EXPECT_EQ(emit(twoKernels, chips[i]).substr(0, header.size()), header);
  }
}

TEST_F(Ptx, JoinsKernelsThatWereCompiledApart) {
  std::string text = emit(twoKernels, "sm_80");
  EXPECT_EQ(count(text, ".version"), 1);
  EXPECT_EQ(count(text, ".visible .entry first("), 1);
  EXPECT_EQ(count(text, ".visible .entry second("), 1);
  EXPECT_LT(text.find("first("), text.find("second("));
  EXPECT_EQ(count(text, ".extern .shared .align 1024 .b8 heddle_shared[];"), 1);
  EXPECT_EQ(count(text, ".maxntid 128"), 1);
  EXPECT_EQ(count(text, ".minnctapersm 2"), 1);
  EXPECT_EQ(count(text, "ex2.approx.ftz.f32"), 1);
  // What is a kernel's own can't clash.
  EXPECT_GT(count(text, " first_twice"), 0);
  EXPECT_GT(count(text, " second_twice"), 0);
  EXPECT_EQ(count(text, " twice"), 0);
}

// A kernel that does not wait before it touches memory must not be said to.
TEST_F(Ptx, KernelsOfLaterGpusWaitForEarlierOnes) {
  for (const char *chip : chips) {
    SCOPED_TRACE(chip);
    const std::string text = emit(twoKernels, chip);
    const bool early = CudaTarget::get(chip)->startsEarly();
    EXPECT_EQ(count(text, ".b8 heddle_kernels_wait;"), early);
    EXPECT_EQ(count(text, "griddepcontrol"), early ? 4 : 0);
    if (!early)
      continue;
    for (size_t at = text.find(".entry"); at != std::string::npos;
         at = text.find(".entry", at + 1)) {
      const size_t first = text.find("global.", at);
      const size_t let = text.find("griddepcontrol.launch_dependents;", at);
      const size_t wait = text.find("griddepcontrol.wait;", at);
      EXPECT_LT(let, first);
      EXPECT_LT(wait, first);
    }
  }
}

TEST_F(Ptx, DependsOnItsInputAlone) {
  EXPECT_EQ(emit(twoKernels, "sm_80"), emit(twoKernels, "sm_80"));
}

TEST_F(Ptx, RefusesWhatItCannotCompile) {
  EXPECT_EQ(emit("", "sm_80"), "holds no kernel to compile");
  EXPECT_EQ(emit(R"mlir(
llvm.func @elsewhere(f32) -> f32
llvm.func @kernel(%p: !llvm.ptr<1>) attributes {nvvm.kernel} {
  %x = llvm.load %p : !llvm.ptr<1> -> f32
  %y = llvm.call @elsewhere(%x) : (f32) -> f32
  llvm.store %y, %p : f32, !llvm.ptr<1>
  llvm.return
})mlir",
                 "sm_80"),
            "a kernel calls @elsewhere, which is neither defined in its module "
            "nor an instruction");
}

TEST(PtxasLog, SaysWhatAKernelTakes) {
  Assembled parsed = parsePtxasLog(
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async "
      "instructions are serialized due to insufficient register resources\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'slow' for 'sm_90a'\n"
      "ptxas info    : Function properties for slow\n"
      "    128 bytes stack frame, 96 bytes spill stores, 112 bytes spill "
      "loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers\n"
      "ptxas info    : Compiling entry function 'fast' for 'sm_90a'\n"
      "ptxas info    : Function properties for fast\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers\n"
      "ptxas warning : something to know\n");
  ASSERT_EQ(parsed.kernels.size(), 2u);
  EXPECT_EQ(parsed.kernels[0].symbol, "slow");
  EXPECT_EQ(parsed.kernels[0].registers, 255);
  EXPECT_EQ(parsed.kernels[0].stackBytes, 128);
  EXPECT_EQ(parsed.kernels[0].spillBytes, 112);
  EXPECT_EQ(parsed.kernels[1].symbol, "fast");
  EXPECT_EQ(parsed.kernels[1].registers, 40);
  EXPECT_EQ(parsed.kernels[1].stackBytes, 0);
  EXPECT_EQ(parsed.kernels[1].spillBytes, 0);
  ASSERT_EQ(parsed.complaints.size(), 2u);
  EXPECT_TRUE(
      llvm::StringRef(parsed.complaints[0]).starts_with("(C7510) Potential"))
      << parsed.complaints[0];
  EXPECT_EQ(parsed.complaints[1], "something to know");
}

TEST_F(Ptx, IsAcceptedByPtxas) {
  std::optional<std::string> ptxas = findPtxas();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas here";
  for (const char *chip : chips) {
    SCOPED_TRACE(chip);
    std::string why;
    llvm::Expected<std::optional<Assembled>> assembled =
        assemble(*ptxas, chip, emit(twoKernels, chip), why);
    ASSERT_TRUE(static_cast<bool>(assembled))
        << llvm::toString(assembled.takeError());
    if (!*assembled) {
      EXPECT_NE(why, "");
      continue; // an old one
    }
    EXPECT_EQ((*assembled)->kernels.size(), 2u);
    EXPECT_TRUE((*assembled)->complaints.empty());
    EXPECT_EQ((*assembled)->cubin.substr(0, 4), "\x7f"
                                                "ELF");
  }
}

TEST(Ptxas, SaysWhatItRefuses) {
  std::optional<std::string> ptxas = findPtxas();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas here";
  std::string why;
  auto bad = assemble(*ptxas, "sm_80",
                      ".version 7.0\n.target sm_80\n.address_size 64\n"
                      ".visible .entry f() { nonsense; }\n",
                      why);
  ASSERT_FALSE(static_cast<bool>(bad));
  EXPECT_NE(llvm::toString(bad.takeError()).find("refuses the PTX for sm_80"),
            std::string::npos);
  // A GPU from after it.
  auto later = assemble(*ptxas, "sm_999", ".version 7.0\n", why);
  ASSERT_TRUE(static_cast<bool>(later));
  EXPECT_FALSE(later->has_value());
  EXPECT_EQ(why, "Value 'sm_999' is not defined for option 'gpu-name'");
}

} // namespace
