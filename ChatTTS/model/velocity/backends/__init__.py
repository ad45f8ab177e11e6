"""What computes a step of velocity: plain torch, the CPU kernels, or the Triton kernels."""
