"""Codes to features on the CPU, without the quantizer's arithmetic."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from .dvae import Quantizer


class CodeTables:
    """What the quantizer makes of codes, by looking up: the features of each code and codebook.

    A group's features are a linear function of its codes, so they are sums of rows. The bias is in
    the rows of the group's first codebook.

    Attributes:
        num_codebooks: codes of a frame.

    Args:
        quantizer: with its weights, on any device; nothing of it is kept.
    """

    @torch.no_grad()
    def __init__(self, quantizer: Quantizer) -> None:
        groups = []
        for group in copy.deepcopy(quantizer.quantizer.rvqs).cpu():
            codes = torch.arange(group.codebook_size, device="cpu")
            codes = codes.repeat(group.num_quantizers, 1).T
            vectors = group.get_codes_from_indices(codes.unsqueeze(0))[:, 0].double()  # [R, n, d]
            # As good as exact, so that sums of rows have but the roundings of a sum.
            project = group.project_out.double()
            bias = project(torch.zeros_like(vectors[0]))
            groups.append([project(x) - (bias if r else 0) for r, x in enumerate(vectors)])
        # For each residual [G, n, dim / G].
        self._tables = [torch.stack(rows).float().numpy() for rows in zip(*groups, strict=True)]
        self._groups = np.arange(len(groups))
        self.num_codebooks = len(groups) * len(self._tables)

    def __call__(self, codes: Tensor) -> Tensor:
        """Codes [n, G * R] to float32 features [n, dim].

        Raises:
            IndexError: there is no such code.
        """
        step = len(self._tables)  # of one group's code to the next one's
        first, *others = (
            table[self._groups, codes[:, residual::step].numpy()]
            for residual, table in enumerate(self._tables)
        )
        for rows in others:
            first += rows
        return torch.from_numpy(first).flatten(1)
