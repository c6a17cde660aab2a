"""Kernels in Triton and raw CUDA with what launches them; each answers in plain PyTorch where it doesn't run."""
