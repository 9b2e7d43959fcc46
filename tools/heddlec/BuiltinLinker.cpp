//===- BuiltinLinker.cpp - heddlec as the linker of its code --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// lld registers all targets of LLVM for the bitcode that it may be given, and
// Debian's LLVM names Polly among its extensions. What is defined here is not
// taken from the archives: 20 targets and Polly, tens of megabytes, stay out.
//
//===----------------------------------------------------------------------===//

#include "BuiltinLinker.h"

#include "heddle/Target/Host/HostCodegen.h"

#include "lld/Common/Driver.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

#define WITHOUT(target)                                                        \
  extern "C" void LLVMInitialize##target##TargetInfo() {}                      \
  extern "C" void LLVMInitialize##target##Target() {}                          \
  extern "C" void LLVMInitialize##target##TargetMC() {}                        \
  extern "C" void LLVMInitialize##target##AsmPrinter() {}                      \
  extern "C" void LLVMInitialize##target##AsmParser() {}

// All of llvm/Config/Targets.def but X86 and NVPTX. A new LLVM may have more:
// the program then only grows, or does not link.
WITHOUT(AArch64)
WITHOUT(AMDGPU)
WITHOUT(ARM)
WITHOUT(AVR)
WITHOUT(BPF)
WITHOUT(Hexagon)
WITHOUT(Lanai)
WITHOUT(LoongArch)
WITHOUT(M68k)
WITHOUT(MSP430)
WITHOUT(Mips)
WITHOUT(PowerPC)
WITHOUT(RISCV)
WITHOUT(SPIRV)
WITHOUT(Sparc)
WITHOUT(SystemZ)
WITHOUT(VE)
WITHOUT(WebAssembly)
WITHOUT(XCore)
WITHOUT(Xtensa)

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "", [](llvm::PassBuilder &) {}};
}

std::optional<int> mlir::heddle::linkIfAsked(int argc, char **argv) {
  if (argc < 2 || llvm::StringRef(argv[1]) != linkerArgument)
    return std::nullopt;
  llvm::SmallVector<const char *> arguments = {"ld.lld"};
  arguments.append(argv + 2, argv + argc);
  bool linked = lld::elf::link(arguments, llvm::outs(), llvm::errs(),
                               /*exitEarly=*/false, /*disableOutput=*/false);
  return linked ? 0 : 1;
}
