"""Triton kernels, each beside a plain torch function that says and tests what it does.

Whoever imports one of these modules needs Triton, so they are imported where they are used. A
kernel's output row depends on that row and its sequence alone, to the last bit: tiles and the
order of summation never change with the batch.
"""
