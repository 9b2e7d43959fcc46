// Kernels are added to it.
module {}
