"""Kernels for CPUs: C++ that is compiled once on the machine, and what Python calls of it."""
