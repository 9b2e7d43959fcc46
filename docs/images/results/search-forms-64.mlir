// Found by heddle-tune, 2026-11-26, NVIDIA H100 80GB HBM3 (device 0, compute capability 9.0): columns of 128 keep 1/20 1/5 1/5, each block, window 256, sinks 16.
//
// model      heddle-long-9m, bf16, digest 3725b1f64b9a5ec4
// tasks      needles; 64 examples a task, seed 2026, length 4096
// right      254 of 256, 99.2% (97 to 100) with the 95% interval (Wilson)
// dense      99.2% (97 to 100)
// others     100.0% (99 to 100) of 256 examples that the search has not seen (heddle-eval --skip 64); dense 100.0% (99 to 100)
// cost       2.93 s a sequence, 92.0% of dense's 3.19 s: estimate:h200 of LLaDA-8B-Instruct
// floor      dense-1
// search     trial 33 of 39: 24 on all examples, 15 stopped before, 0 refused
// evidence   search-forms-64.jsonl

heddle.schedule @tuned {
  %steps = cadence first(1) in block
  %cols = select columns(keep = 1/20, group = 128) by mean_probability on %steps
  %near = window(256)
  %sinks = sinks(16)
  %pairs = union %cols, %near, %sinks
  %cols1 = select columns(keep = 1/5, group = 128) by mean_probability on %steps
  %pairs1 = union %cols1, %near, %sinks
  attend pairs(%pairs) in layers(0 to 1)
  attend pairs(%pairs1)
}
