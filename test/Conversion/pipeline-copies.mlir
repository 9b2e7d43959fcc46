// REQUIRES: heddle-opt
// RUN: heddle-opt %s --shed-pipeline-copies | FileCheck %s

// What is printed is all that there is: lowered from its text a kernel is what
// it is without.
// RUN: heddle-opt %S/shed-to-nvvm-select.mlir --shed-pipeline-copies | heddle-opt --convert-shed-to-nvvm -o %t.text
// RUN: heddle-opt %S/shed-to-nvvm-select.mlir --shed-pipeline-copies --convert-shed-to-nvvm -o %t.pass
// RUN: diff %t.pass %t.text
// RUN: cat %s %S/shed-to-nvvm.mlir > %t.mlir
// RUN: heddle-opt %t.mlir --shed-pipeline-copies | heddle-opt --convert-shed-to-nvvm -o %t.text
// RUN: heddle-opt %t.mlir --shed-pipeline-copies --convert-shed-to-nvvm -o %t.pass
// RUN: diff %t.pass %t.text

// Two stages: while a tile is worked on, the next one is on its way. 1 KiB of
// queries, then two stages of 1 KiB each for keys and for values.
// CHECK-LABEL: llvm.func @two_stages(
// CHECK: shed.attention_task element(bf16) head_dim(32)
// CHECK-SAME: tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
// CHECK-SAME: layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>)
// CHECK-SAME: args(%{{.+}} : !llvm.ptr<1>) n(%[[COUNT:.+]]) head(
// CHECK-SAME: rows(%{{.+}} to %{{.+}}) factor(

// The prologue: queries, then tile 0. A row of 64 bytes takes four lanes of 16
// bytes each, so a warp copies eight rows at a time: two copies for 16 rows, of
// keys and of values.
// CHECK-COUNT-2: nvvm.cp.async.shared.global
// CHECK-NEXT: nvvm.cp.async.commit.group
// CHECK: %[[NONE:.+]] = shed.softmax_init
// CHECK-COUNT-4: nvvm.cp.async.shared.global
// CHECK-NEXT: nvvm.cp.async.commit.group
// The queries are there when all but the last group is.
// CHECK: nvvm.cp.async.wait.group 1
// CHECK: %[[Q:.+]] = builtin.unrealized_conversion_cast %{{.+}} : i32 to !shed.tile<queries, channels, bf16>

// Whole tiles: wait for tile T, meet, bring tile T + 1 to where tile T - 1 was,
// and work on T. Carried: the stages of both, where the next copies come from,
// and the softmax.
// CHECK: %[[WHOLE:.+]]:5 = scf.for %[[T:.+]] = %{{.+}} to %{{.+}} step %{{.+}} iter_args(%[[STAGE:[a-z0-9_]+]] = %{{[^ ]+}}, %{{.+}}, %[[S:[a-z0-9_]+]] = %[[NONE]])
// CHECK-SAME: -> (i32, i32, !llvm.ptr<1>, !llvm.ptr<1>, !shed.softmax)
// CHECK-NEXT: nvvm.cp.async.wait.group 0
// CHECK-NEXT: nvvm.barrier0
// CHECK-COUNT-4: nvvm.cp.async.shared.global
// CHECK-NEXT: nvvm.cp.async.commit.group
// CHECK: %[[KEYS:.+]] = shed.keys_at rank %{{.+}} of %{{.+}} from %{{.+}} stage %[[STAGE]]{{$}}
// CHECK-NEXT: %[[K:.+]] = shed.load_keys %[[KEYS]]
// CHECK-NEXT: %[[V:.+]] = shed.load_values %[[KEYS]]
// CHECK-NEXT: %[[L:.+]] = shed.dot %[[Q]], %[[K]]
// CHECK-NEXT: %[[N:.+]] = shed.softmax_update %[[S]], %[[L]], %[[V]]
// CHECK: scf.yield {{.*}}, %[[N]] :

// The last tile, if it is not whole: nothing is brought behind it.
// CHECK: %[[ALL:.+]]:5 = scf.for {{.*}} = %[[WHOLE]]#4)
// CHECK-NEXT: nvvm.cp.async.wait.group 0
// CHECK-NEXT: nvvm.barrier0
// CHECK-NOT: nvvm.cp.async
// CHECK: shed.keys_at {{.*}} from %{{.+}} stage %{{[a-z0-9]+}} partial
// CHECK: scf.yield
// CHECK: shed.store %[[ALL]]#4
// CHECK: llvm.return
shed.kernel @two_stages attention element(bf16) head_dim(32)
    tiling(#shed.mma_tiling<query_rows = 16, warps = 1, keys = 16, stages = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// Three stages: two tiles are on their way while one is worked on, so the
// prologue brings two, and the loop waits until at most one group is missing.
// CHECK-LABEL: llvm.func @three_stages(
// CHECK: shed.attention_task element(bf16) head_dim(32) writes_lse
// CHECK-SAME: layout(<queries = 0, keys = 1024, bytes = 7168, values = 4096>)
// CHECK: shed.softmax_init
// CHECK-COUNT-4: nvvm.cp.async.shared.global
// CHECK-NEXT: nvvm.cp.async.commit.group
// CHECK-COUNT-4: nvvm.cp.async.shared.global
// CHECK-NEXT: nvvm.cp.async.commit.group
// CHECK: nvvm.cp.async.wait.group 2
// CHECK: scf.for
// CHECK-NEXT: nvvm.cp.async.wait.group 1
// CHECK-NEXT: nvvm.barrier0
// CHECK-COUNT-4: nvvm.cp.async.shared.global
// CHECK-NEXT: nvvm.cp.async.commit.group
// CHECK: shed.keys_at {{.*}} from %{{.+}} stage %{{[a-z0-9]+}}{{$}}
// CHECK: shed.softmax_update
// CHECK: scf.for
// CHECK-NEXT: nvvm.cp.async.wait.group 0
// CHECK-NOT: nvvm.cp.async
// CHECK: shed.keys_at {{.*}} from %{{.+}} stage %{{[a-z0-9]+}} partial
// CHECK: shed.store
shed.kernel @three_stages attention element(bf16) head_dim(32) writes_lse
    tiling(#shed.mma_tiling<query_rows = 16, warps = 1, keys = 16, stages = 3>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// A list: its keys go through a ring in shared memory (`source`), a tile ahead of
// the copies that gather their rows, so all groups are waited for. There are no
// copies behind the last tile, and no cursor is carried.
// CHECK-LABEL: llvm.func @list(
// CHECK: shed.attention_task element(bf16) head_dim(32) encoding(uint16)
// CHECK-SAME: source = {{[0-9]+}}>)
// CHECK: shed.softmax_init
// CHECK: nvvm.cp.async.commit.group
// CHECK-NEXT: nvvm.cp.async.wait.group 0
// CHECK-NEXT: nvvm.barrier0
// CHECK: scf.if
// CHECK: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>{{$}}
// CHECK: nvvm.cp.async.commit.group
// CHECK: scf.for {{.*}} -> (i32, i32, !shed.softmax)
// CHECK-NEXT: nvvm.cp.async.wait.group 0
// CHECK-NEXT: nvvm.barrier0
// CHECK: scf.if
// CHECK: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: shed.keys_at rank %{{[a-z0-9]+}} of %{{[a-z0-9]+}} stage %{{[a-z0-9]+}}{{$}}
// CHECK: shed.softmax_update
// CHECK: scf.for
// CHECK-NOT: nvvm.cp.async.shared
// CHECK: shed.keys_at rank %{{[a-z0-9]+}} of %{{[a-z0-9]+}} stage %{{[a-z0-9]+}} partial
// CHECK: shed.store
shed.kernel @list attention element(bf16) head_dim(32) encoding(uint16)
    tiling(#shed.mma_tiling<query_rows = 16, warps = 1, keys = 32, stages = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.list<0, group = 16> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// Selection: a block goes on from task to task, each a row of lists and some
// groups. A warp has its own tiles of keys, which move to registers and leave
// their place to the next: no stages, and no barrier of the block. What they
// give is cast from the mass and added to the scores in scratch.
// CHECK-LABEL: llvm.func @select(
// CHECK: scf.for
// CHECK: shed.select_task element(bf16) head_dim(32) group(16) encoding(uint16)
// CHECK-SAME: layout(<queries = 0, keys = 1152, bytes = {{[0-9]+}}, lse = 1024, inverses = 1088>)
// CHECK-SAME: rows(%{{[0-9]+}}) key_stride(
// CHECK: %[[NONE:.+]] = builtin.unrealized_conversion_cast {{.*}} to !shed.mass
// CHECK: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.wait.group 0
// CHECK-NEXT: nvvm.barrier0
// CHECK: scf.for
// CHECK-NEXT: nvvm.cp.async.wait.group 0
// CHECK-NOT: nvvm.barrier0
// CHECK: scf.if
// CHECK: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: %[[MASS:.+]] = scf.for {{.*}} -> (!shed.mass)
// CHECK: %[[L:.+]] = shed.dot
// CHECK: shed.column_mass %{{.+}}, %[[L]], %{{.+}}, %{{.+}}
// CHECK: builtin.unrealized_conversion_cast %[[MASS]] : !shed.mass to f32, f32, i32
// CHECK: shed.top_k %[[NONE]]
shed.kernel @select select element(bf16) head_dim(32) group(16) encoding(uint16)
    tiling(#shed.mma_tiling<query_rows = 16, warps = 1, keys = 16, stages = 2>) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r
}
