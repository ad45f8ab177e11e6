"""Kernels run on the GPU where there is one, and under Triton's interpreter elsewhere.

Import this before any kernel: Triton reads its setting when a kernel is declared.
"""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
