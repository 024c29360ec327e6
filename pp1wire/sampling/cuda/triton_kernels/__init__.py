"""Triton kernels of the exact sampler. Importing this package needs triton; `pp1wire.sampling.cuda` does it lazily."""
