"""An emulator of compiled kernels: it runs the PTX that Triton writes for a GPU, with NumPy.

Triton's interpreter runs a kernel's Python. This emulator runs what the compiler made of it, all
threads of a launch, over the tensors' own memory. While it runs, it checks what a GPU does not
tell: accesses outside of the tensors, misaligned accesses, races in shared memory and in tensors,
accesses before a launch's wait to what a launch beside it may write, too much shared memory, copies
that were not waited for, and branches that part within a warp.

It cannot show the order of sums inside of a tensor core, time, graph capture, or what a driver
does.
"""
