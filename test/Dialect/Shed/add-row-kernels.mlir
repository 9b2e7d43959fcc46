// REQUIRES: heddle-opt
// RUN: heddle-opt %s --shed-add-row-kernels | FileCheck %s
// RUN: heddle-opt %s --shed-add-row-kernels=dtypes=bf16,f16 | FileCheck %s --check-prefix=TWO
// RUN: heddle-opt %s --shed-add-row-kernels=dtypes=f16 | heddle-opt --shed-add-row-kernels=dtypes=f16 | FileCheck %s --check-prefix=ONCE
// RUN: heddle-opt %s --shed-add-row-kernels="dtypes=bf16,f16 operations=draw,copy" | FileCheck %s --check-prefix=SOME
// RUN: not heddle-opt %s --shed-add-row-kernels=operations=fly 2>&1 | FileCheck %s --check-prefix=OPERATION
// RUN: not heddle-opt %s --shed-add-row-kernels=dtypes=fp8 2>&1 | FileCheck %s --check-prefix=DTYPE

// OPERATION: there is no row operation 'fly'
// DTYPE: row kernels come in f32, bf16 and f16, not in 'fp8'

// Helper functions of a kernel's text are gone.
// CHECK-NOT: func.
// CHECK: shed.row_kernel @row_embed_f32 embed element(f32)
// CHECK: shed.row_kernel @row_rms_norm_f32 rms_norm element(f32)
// CHECK: keep(%{{.+}} : !shed.array<f32>)
// CHECK: shed.row_kernel @row_rotate_f32 rotate element(f32)
// CHECK: shed.row_kernel @row_swiglu_f32 swiglu element(f32)
// CHECK: shed.row_kernel @row_copy_f32 copy element(f32)
// CHECK: shed.row_kernel @row_change_f32 change element(f32)
// CHECK: shed.row_kernel @row_compare_f32 compare element(f32)
// CHECK: math.sqrt %{{.+}} : f64
// CHECK: shed.row_kernel @row_merge_f32 merge element(f32)
// CHECK: shed.row_kernel @row_masked_count_f32 masked_count element(f32)
// CHECK: shed.row_kernel @row_candidates_f32 candidates element(f32)
// CHECK: shed.row_kernel @row_draw_f32 draw element(f32)
// CHECK-NOT: call
// CHECK: shed.random stream(0)
// CHECK: shed.row_kernel @row_commit_f32 commit element(f32)

// TWO: shed.row_kernel @row_rms_norm_bf16 rms_norm element(bf16)
// TWO: shed.round %{{.+}} to bf16
// TWO: shed.row_kernel @row_commit_bf16
// TWO: shed.row_kernel @row_embed_f16 embed element(f16)
// TWO: shed.row_kernel @row_commit_f16

// SOME: shed.row_kernel @row_copy_bf16
// SOME-NOT: shed.row_kernel
// SOME: shed.row_kernel @row_draw_bf16
// SOME-NOT: shed.row_kernel
// SOME: shed.row_kernel @row_copy_f16
// SOME-NOT: shed.row_kernel
// SOME: shed.row_kernel @row_draw_f16
// SOME-NOT: shed.row_kernel

// ONCE-COUNT-1: shed.row_kernel @row_draw_f16
// ONCE-NOT: shed.row_kernel @row_draw_f16
module {}
