// Found by heddle-tune, 2026-11-26, NVIDIA H200 (device 0, compute capability 9.0): dense, block's rows, commit above 9/10.
//
// model      heddle-long-9m, bf16, digest 3725b1f64b9a5ec4
// tasks      needles; 32 examples a task, seed 2026, length 4096
// right      128 of 128, 100.0% (97 to 100) with the 95% interval (Wilson)
// dense      100.0% (97 to 100)
// others     99.2% (96 to 100) of 128 examples that the search has not seen (heddle-eval --skip 32); dense 98.4% (94 to 100)
// cost       106 ms a sequence, 3.3% of dense's 3.19 s: estimate:h200 of LLaDA-8B-Instruct
// floor      dense-1
// search     trial 4 of 737: 538 on all examples, 199 stopped before, 0 refused
// evidence   search-all.jsonl

heddle.schedule @tuned {
  %steps = cadence first(1) in block
  %block = positions block
  reuse kv
  recompute all on %steps
  recompute %block
  commit above(9/10)
  attend dense
}
