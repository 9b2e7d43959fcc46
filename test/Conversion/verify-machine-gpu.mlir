// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-machine=dialects=arith,builtin,llvm,nvvm,scf --split-input-file --verify-diagnostics

llvm.func @kernel(%p: !llvm.ptr<1>) attributes {nvvm.kernel} {
  %x = nvvm.read.ptx.sreg.tid.x : i32
  %y = arith.addi %x, %x : i32
  llvm.store %y, %p : i32, !llvm.ptr<1>
  llvm.return
}

// -----

func.func @on_the_host() {
  // expected-error @+1 {{'func.return' op does not belong at the machine level, which holds the dialects arith, builtin, llvm, nvvm, scf}}
  return
}
