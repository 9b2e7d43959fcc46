// At every step each head and each block of rows choose a quarter of the key
// blocks, by the product of the means of queries and of keys, and attend over
// these. The first fifth of the run is dense.
//
// keep: the fraction of the blocks. size: rows and keys of a block.
//
// Source: after VSA (arXiv 2505.13389; csrc/attn/vsa of FastVideo), for text:
// blocks are runs of tokens, not cubes of a video, and its coarse attention is
// not added. SGLang's SubBlock likewise has dense steps first.
// docs/Spec/Behaviours.md has the rest (number 68).

heddle.schedule @blocks_every_step(keep = 1/4, size = 64) {
  %always = cadence every(1)
  %skipped = cadence at(0.2, plus = 1)
  %blocks = select blocks(keep = keep, size = size) by mean_logit on %always
  attend dense until(%skipped) then pairs(%blocks) at_once
}
