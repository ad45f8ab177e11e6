"""Backends that compute a step of velocity: plain torch, CPU kernels, or Triton kernels."""
