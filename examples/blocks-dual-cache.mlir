// sparsed's blocks, renewed when a block begins, with fast-dllm-dual's cache and
// a dense first layer: a composition that nobody has published.

heddle.schedule @blocks_dual_cache {
  %start = heddle.cadence first(1) in block
  %block = heddle.positions block
  %tiles = heddle.select blocks(keep = 0.3, size = 32) by mean_probability isolating(spans) on %start
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %block
  heddle.commit above(0.9)
  heddle.attend pairs(%tiles)
  heddle.attend dense in layers(0 to 0)
}
