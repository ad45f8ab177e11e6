"""The engine on the CPU kernels: packed weights, the Llama, the sampler."""
