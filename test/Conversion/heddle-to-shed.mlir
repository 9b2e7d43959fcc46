// REQUIRES: heddle-opt
// RUN: heddle-opt %s --convert-heddle-to-shed="dtypes=f32,bf16 head-dims=64" | FileCheck %s
// RUN: not heddle-opt %s --convert-heddle-to-shed="dtypes=f64" 2>&1 | FileCheck %s --check-prefix=DTYPE

// RUN: heddle-opt %s --convert-heddle-to-shed="dtypes=f16 head-dims=64 encodings=bitmap,uint16,int32" | FileCheck %s --check-prefix=FORMS
// RUN: not heddle-opt %s --convert-heddle-to-shed="encodings=int8" 2>&1 | FileCheck %s --check-prefix=ENCODING

// DTYPE: dtype 'f64' is not supported; expected f32, bf16 or f16
// ENCODING: index encoding 'int8' is not supported; expected int32, uint16 or bitmap

// One form for each encoding of the kernels that have lists.
// FORMS: shed.kernel @dense_f16_d64 attention element(f16) head_dim(64) writes_lse {
// FORMS: shed.kernel @mixed_f16_d64_bitmap attention element(f16) head_dim(64) encoding(bitmap) {
// FORMS: shed.kernel @mixed_f16_d64_u16 attention element(f16) head_dim(64) encoding(uint16) {
// FORMS: shed.kernel @mixed_f16_d64_i32 attention element(f16) head_dim(64) encoding(int32) {
// FORMS: shed.kernel @pick_f16_d64_bitmap select element(f16) head_dim(64) group(128) encoding(bitmap) {
// FORMS: shed.kernel @pick_f16_d64_u16
// FORMS: shed.kernel @pick_f16_d64_i32

// With passes, some steps compute some of the rows; others compute all.
// FORMS: shed.kernel @whole_f16_d64 attention element(f16) head_dim(64) writes_lse {
// FORMS: shed.kernel @block_f16_d64 attention element(f16) head_dim(64) some_rows {

// Lists of blocks have one encoding, also where those of keys have others.
// FORMS: shed.kernel @tiled_f16_d64_bitmap attention
// FORMS: shed.kernel @tiled_f16_d64_u16 attention
// FORMS: shed.kernel @tiled_f16_d64_i32 attention
// FORMS: shed.kernel @pick_tiles_f16_d64_i32 select element(f16) head_dim(64) group(64) encoding(int32) {
// FORMS-NOT: @pick_tiles
// FORMS: shed.kernel @pick_shared_f16_d64_bitmap select
// FORMS: shed.kernel @pick_in_columns_f16_d64_bitmap select
// FORMS: shed.kernel @pick_in_blocks_f16_d64_bitmap select
// FORMS: shed.kernel @pick_by_logits_f16_d64_i32 select
// FORMS-NOT: @pick_by_logits

// CHECK: heddle.plan @p
heddle.plan @p {
  heddle.selection @cols columns(keep = 0.2, group = 128) by mean_probability on every(8)
  heddle.kernel @dense attention [] writes_lse
  heddle.kernel @mixed attention [columns(@cols, group = 128), window(64), sinks(4)]
  heddle.kernel @pick select(group = 128) by mean_probability
  heddle.rule default {
    heddle.phase on every(8) {
      heddle.attend_with @dense
      heddle.refresh @cols with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @mixed
    }
  }
}
heddle.plan @blocks_of_rows {
  %start = heddle.cadence first(1) in block
  %now = heddle.positions block
  heddle.recompute all on %start
  heddle.recompute %now
  heddle.reuse kv
  heddle.kernel @whole attention [] writes_lse
  heddle.kernel @block attention []
  heddle.rule default {
    heddle.phase on first(1) in block {
      heddle.attend_with @whole
    }
    heddle.phase otherwise {
      heddle.attend_with @block
    }
  }
}

// CHECK: shed.kernel @dense_f32_d64 attention element(f32) head_dim(64) writes_lse {
// CHECK:   shed.for_keys over {{.*}}all
// CHECK-NOT: shed.mask
// CHECK:   shed.store
// CHECK: shed.kernel @dense_bf16_d64 attention element(bf16) head_dim(64) writes_lse {

// Each pair once: later terms skip lists and sinks, and mask windows.
// CHECK: shed.kernel @mixed_f32_d64
// CHECK:   shed.for_keys over #shed.list<0, group = 128> init
// CHECK-NOT: shed.mask
// CHECK:   shed.for_keys over #shed.window<64> skip [#shed.list<0, group = 128>] init
// CHECK:     shed.mask {{.*}} within #shed.window<64>
// CHECK:   shed.for_keys over #shed.sinks<4> skip [#shed.list<0, group = 128>] init
// CHECK:     shed.mask {{.*}} outside [#shed.window<64>]

// CHECK: shed.kernel @pick_f32_d64 select element(f32) head_dim(64) group(128)
// CHECK:   shed.for_queries
// CHECK:     shed.load_lse
// CHECK:       shed.column_mass
// CHECK:   shed.top_k

heddle.plan @shares {
  heddle.selection @few columns(keep = 0.2, group = 128) by mean_probability on every(8)
  heddle.kernel @told attention [window(64), columns(@few, group = 128), sinks(4), sinks(10 percent)]
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @told
    }
  }
}

// A share and a number of sinks are one set that the runtime bounds. It comes
// first: nothing is taken out of it.
// CHECK: shed.kernel @told_f32_d64
// CHECK:   shed.for_keys over #shed.sinks<?> init
// CHECK-NOT: shed.mask
// CHECK:   shed.for_keys over #shed.window<64> skip [#shed.sinks<?>] init
// CHECK:     shed.mask {{.*}} within #shed.window<64>
// CHECK:   shed.for_keys over #shed.list<0, group = 128> skip [#shed.sinks<?>] init
// CHECK:     shed.mask {{.*}} outside [#shed.window<64>]
// CHECK-NOT: shed.for_keys
// CHECK:   shed.store

heddle.plan @q {
  heddle.selection @tiles blocks(keep = 0.3, size = 64) by mean_probability on every(8)
  heddle.selection @shared columns(keep = 0.2, group = 32, per_kv_head) by mean_probability on every(8)
  heddle.kernel @tiled attention [blocks(@tiles, size = 64), columns(@shared, group = 32)]
  heddle.kernel @pick_tiles select(blocks = 64) by mean_probability
  heddle.kernel @pick_shared select(group = 32, per_kv_head) by mean_probability
  heddle.selection @layer columns(keep = 0.2, group = all, per_layer) by mean_probability pooled(3) on every(8)
  heddle.kernel @of_layer attention [columns(@layer, group = all)]
  heddle.kernel @pick_layer select(group = all, per_layer) by mean_probability pooled(3)
  heddle.kernel @pick_in_columns select(group = 32) by mean_probability pooled(3) within columns(group = all)
  heddle.kernel @pick_in_blocks select(group = 32) by mean_probability within blocks(size = 64)
  heddle.kernel @pick_by_logits select(blocks = 64) by mean_logit
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @tiled
    }
  }
}

// Lists are numbered in the order of the terms; one that is shared marks the
// kernel.
// CHECK: shed.kernel @tiled_f32_d64 attention element(f32) head_dim(64) shared_lists {
// CHECK:   shed.for_keys over #shed.blocks<0, size = 64> init
// CHECK:   shed.for_keys over #shed.list<1, group = 32> skip [#shed.blocks<0, size = 64>] init

// The second span has scores of its own.
// CHECK: shed.kernel @pick_tiles_f32_d64 select element(f32) head_dim(64) group(64) {
// CHECK:   %[[ALL:.+]] = shed.for_queries init
// CHECK:     shed.for_keys over {{.*}}all
// CHECK:   %[[SPAN:.+]] = shed.for_queries span init
// CHECK:     shed.load_lse span
// CHECK:     shed.for_keys over {{.*}}span
// CHECK:   shed.top_k %[[ALL]] span %[[SPAN]] blocks

// CHECK: shed.kernel @pick_shared_f32_d64 select element(f32) head_dim(64) group(32) shared_lists {
// CHECK-NOT: span
// CHECK:   shed.top_k %{{[^ ]+$}}

// A group of all rows is one that no sequence outgrows.
// CHECK: shed.kernel @of_layer_f32_d64 attention element(f32) head_dim(64) shared_lists per_layer {
// CHECK:   shed.for_keys over #shed.list<0, group = 1073741824> init
// CHECK: shed.kernel @pick_layer_f32_d64 select element(f32) head_dim(64) group(1073741824) shared_lists per_layer {
// CHECK:   shed.top_k %{{.+}} pooled(3)

// Heads share no list, whatever those do that it chooses within.
// CHECK: shed.kernel @pick_in_columns_f32_d64 select element(f32) head_dim(64) group(32) {
// CHECK:   shed.top_k %{{.+}} pooled(3) within #shed.list<0, group = 1073741824>
// CHECK: shed.kernel @pick_in_blocks_f32_d64 select element(f32) head_dim(64) group(32) {
// CHECK:   shed.top_k %{{.+}} within #shed.blocks<0, size = 64>

// Logits are scored once, whatever spans there are.
// CHECK: shed.kernel @pick_by_logits_f32_d64 select element(f32) head_dim(64) group(64) {
// CHECK-NEXT: %[[NONE:.+]] = shed.mass_init
// CHECK-NEXT: %[[LOGITS:.+]] = shed.logit_mass %[[NONE]]
// CHECK-NEXT: shed.top_k %[[LOGITS]] blocks
