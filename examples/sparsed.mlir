// Blocks of pairs, chosen once; prompt and response apart.
//
// Source: SparseD, equations 5 and 6. Attention is dense for the first fifth of
// the run. At its last step the 30% of the key blocks with the largest mean
// probability are chosen for each block of query rows, of the prompt's keys and
// of the response's apart, and stay fixed from then on.
//
// skip    0.2 of all steps of the run (the paper's skip ratio).
// keep    0.3 and size 128 are the paper's values for long prompts; it uses 0.5
//         and 32 for short ones.

heddle.schedule @sparsed(keep = 0.3, size = 128, skip = 0.2) {
  %once = cadence at(skip)
  %tiles = select blocks(keep = keep, size = size) by mean_probability isolating(spans) on %once
  attend dense until(%once) then pairs(%tiles)
}
