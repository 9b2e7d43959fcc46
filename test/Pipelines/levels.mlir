// REQUIRES: heddlec
// Each level of one schedule, and that heddlec stops where it is told to.

// RUN: heddlec %s --compile-to=schedule | FileCheck %s --check-prefix=SCHEDULE
// RUN: heddlec %s --compile-to=plan --verify-each | FileCheck %s --check-prefix=PLAN
// RUN: heddlec %s --compile-to=shed --verify-each --target=x86-64-v3 --dtype=f32 --head-dim=64 | FileCheck %s --check-prefix=SHED
// RUN: heddlec %s --compile-to=pipeline --verify-each --target=cuda:sm_80 --dtype=bf16 --head-dim=64 | FileCheck %s --check-prefix=STAGES --implicit-check-not=shed.kernel
// RUN: heddlec %s --compile-to=pipeline --verify-each --target=cuda:sm_90a --dtype=bf16 --head-dim=64 | FileCheck %s --check-prefix=ROLES --implicit-check-not=shed.kernel
// RUN: not heddlec %s --compile-to=pipeline --target=x86-64-v3 2>&1 | FileCheck %s --check-prefix=HOST
// RUN: heddlec %s --compile-to=machine --verify-each --target=x86-64-v3 --dtype=fp32 --head-dim=64 | FileCheck %s --check-prefix=MACHINE
// RUN: heddlec %s --compile-to=code --verify-each --target=x86-64-v3 --dtype=f32 --head-dim=64 -o %t.so
// RUN: %python -c "assert open(r'%t.so', 'rb').read(4) == b'\x7fELF'"

heddle.schedule @mixed {
  %refresh = cadence every(8)
  %cols = select columns(keep = 1/4, group = 64) by mean_probability on %refresh
  %first = sinks(4)
  %again = sinks(2)
  %pairs = union %first, %cols, %again
  attend pairs(%pairs)
}

// The union is in canonical form: selections first, one sinks.
// SCHEDULE: heddle.schedule @mixed
// SCHEDULE-NOT: sinks(2)
// SCHEDULE: union %cols, %{{.*}}{{$}}

// PLAN-NOT: heddle.schedule
// PLAN: heddle.plan @mixed
// PLAN: heddle.phase on every(8)
// PLAN: heddle.phase otherwise

// SHED-NOT: heddle.plan
// SHED-DAG: shed.kernel @attention_dense_lse_f32_d64 attention {{.*}} tiling(
// SHED-DAG: shed.kernel @select_64_f32_d64 select {{.*}} tiling(
// SHED-DAG: shed.kernel @attention_cols_sinks4_f32_d64 attention {{.*}} tiling(

// Pipelines, on GPUs: multi-stage ones are loops with copies around tasks,
// warp-specialised ones have roles. Row kernels are what they were.
// STAGES: llvm.func @attention_dense_lse_bf16_d64(
// STAGES: shed.attention_task element(bf16)
// STAGES: nvvm.cp.async.shared.global
// STAGES: nvvm.cp.async.wait.group
// STAGES: shed.softmax_update
// STAGES: shed.store
// STAGES: llvm.func @select_64_bf16_d64_
// STAGES: shed.select_task element(bf16)
// STAGES: shed.top_k
// STAGES: shed.row_kernel @

// ROLES: warp.roles producer registers
// ROLES: warp.acquire
// ROLES: } consumers
// ROLES: warp.await

// HOST: heddlec: error: the level pipeline is of GPUs, whose kernels copy tiles ahead; those of host go from shed to machine at once; choose one of these levels, or --target=cuda

// MACHINE-NOT: shed.
// MACHINE-DAG: func.func @attention_dense_lse_f32_d64({{.*}}heddle.query_rows
// MACHINE-DAG: func.func @attention_cols_sinks4_f32_d64(
// MACHINE-DAG: func.func @select_64_f32_d64(
