"""Make the wheels of the package: one for each system, with the CPU kernels of its processors."""
