"""Triton kernels, and their torch references: plain functions that the tests compare them to.

These modules need Triton, so they are imported only where they are used. Every bit of a kernel's
output row depends on that row and its sequence alone: tiles and the order of summation never
change with the batch.
"""
