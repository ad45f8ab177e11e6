"""The standard engine: transformers' Llama, or its replacement on Triton kernels."""
