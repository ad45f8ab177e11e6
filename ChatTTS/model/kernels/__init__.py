"""The kernels, in C++ for CPUs and in Triton for GPUs."""
