"""Computation on a GPU: Triton kernels, recorded steps, and the accelerated Llama."""
