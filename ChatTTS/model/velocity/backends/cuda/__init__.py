"""The engine's parts for CUDA: the Llama on Triton kernels, and whole steps in one graph."""
