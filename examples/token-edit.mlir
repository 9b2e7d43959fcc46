// Commits all predictions of confidence 0.7 and more; tokens of the block that
// are now predicted otherwise, with probability 0.5 and more, are replaced, and
// once the block has no mask up to 16 further passes do that alone.
//
// After LLaDA2.1 (Bie et al. 2026, arXiv:2602.08676), with the numbers of
// Diffusers' pipeline. SGLang's defaults: --set draft=1/2 --set edit=1/1000000.
// What these do otherwise: docs/Spec/Commit.md, "Editing".

heddle.schedule @token_edit(draft = 0.7, edit = 0.5, further = 16) {
  commit above(draft) edit(above = edit, further = further)
  attend dense
}
