// sparsed's blocks, refreshed when a block begins, with fast-dllm-dual's cache and
// a dense first layer: a composition that nobody has published.

heddle.schedule @blocks_dual_cache {
  %start = cadence first(1) in block
  %block = positions block
  %tiles = select blocks(keep = 0.3, size = 32) by mean_probability isolating(spans) on %start
  reuse kv
  recompute all on %start
  recompute %block
  commit above(0.9)
  attend dense in layers(0)
  attend pairs(%tiles)
}
