"""Codes of sound: a grouped residual finite scalar quantiser (Mentzer et al., 2023).

A code rounds a few values, each to one of its levels from -1 to 1. The code's index counts these
levels, those of the first value fastest. The next code of the group rounds what is left, in steps
that are smaller by the number of levels.

The bits are those of vector-quantize-pytorch, by which the published model was trained. Its import
takes longer than a sentence does, and 120 MB.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..config import QuantizerConfig
from .devices.placement import computed


class VectorQuantizer(nn.Module):
    """Vectors to codes and back; codebooks are ordered by group, then residual."""

    def __init__(self, config: QuantizerConfig) -> None:
        super().__init__()
        self.groups = config.G
        self.quantizer = GroupedResidualFSQ(config)

    def embed(self, codes: Tensor) -> Tensor:
        """Return the features [B, dim, T] of codes [B, G * R, T].

        Raises:
            IndexError: there is no such code.
        """
        grouped = codes.unflatten(1, (self.groups, -1)).permute(1, 0, 3, 2)  # [G, B, T, R]
        return self.quantizer.get_output_from_indices(grouped).transpose(1, 2)

    def forward(self, features: Tensor) -> Tensor:
        """Return the codes [B, G * R, T] of features [B, dim, T]."""
        indices: Tensor = self.quantizer(features.transpose(1, 2))[1]  # [G, B, T, R]
        return indices.permute(1, 0, 3, 2).flatten(1, 2)


class GroupedResidualFSQ(nn.Module):
    """Groups of codes, each of an equal part of the features."""

    def __init__(self, config: QuantizerConfig) -> None:
        super().__init__()
        self.codebook_size = math.prod(config.levels)
        self.rvqs: Any = nn.ModuleList(
            ResidualFSQ(config.dim // config.G, config.levels, config.R) for _ in range(config.G)
        )

    def get_output_from_indices(self, indices: Tensor) -> Tensor:
        """Return the features [B, T, dim] of indices [G, B, T, R]; scripts use this name."""
        return torch.cat([g(i) for g, i in zip(self.rvqs, indices, strict=True)], dim=-1)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features [B, T, dim] that codes make of some, and the indices [G, B, T, R]."""
        parts = features.chunk(len(self.rvqs), dim=-1)
        rounded = [g.encode(g.bounded(part)) for g, part in zip(self.rvqs, parts, strict=True)]
        found = [g.project_out(v) for g, (v, _) in zip(self.rvqs, rounded, strict=True)]
        return torch.cat(found, dim=-1), torch.stack([indices for _, indices in rounded])


class ResidualFSQ(nn.Module):
    """The codes of a group, and the products between its features and their few values.

    Attributes:
        levels: of each value.
        num_quantizers: R, the codes of a frame.
        codebook_size: how many codes there are.
        codebooks: the values [R, codebook_size, values] of each code.
    """

    def __init__(self, dim: int, levels: Sequence[int], num_quantizers: int) -> None:
        super().__init__()
        self.levels, self.num_quantizers = list(levels), num_quantizers
        self.codebook_size = math.prod(levels)
        is_projected = dim != len(levels)
        self.project_in = nn.Linear(dim, len(levels)) if is_projected else nn.Identity()
        self.project_out = nn.Linear(len(levels), dim) if is_projected else nn.Identity()
        with computed():
            self.register_buffer("codebooks", self._values(), persistent=False)
        self.codebooks: Tensor

    def forward(self, indices: Tensor) -> Tensor:
        """Return the features [B, T, dim] of indices [B, T, R].

        Raises:
            IndexError: there is no such code.
        """
        books = zip(self.codebooks, indices.unbind(-1), strict=True)
        values = torch.stack([nn.functional.embedding(i, book) for book, i in books])
        features: Tensor = self.project_out(values.sum(dim=0))
        return features

    def bounded(self, features: Tensor) -> Tensor:
        """Return the values [B, T, values] of features [B, T, dim], hardly beyond -1 and 1."""
        limit = 1 + 1 / (self._counts(features) - 1)
        return torch.tanh(self.project_in(features) / limit) * limit

    def encode(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Round bounded values [B, T, values].

        Returns:
            What all codes make of the values, [B, T, values]; the codes, int32 [B, T, R].
        """
        counts = self._counts(values)
        places = torch.tensor(self._places, dtype=torch.int32, device=values.device)
        left, found, codes = values, torch.zeros_like(values), []
        for number in range(self.num_quantizers):
            scale = counts**-number
            above = (counts - 1) * ((left / scale).clamp(-1.0, 1.0) + 1) / 2.0
            chosen = (above + 0.5).floor()
            rounded = (2.0 / (counts - 1) * chosen - 1.0) * scale
            left, found = left - rounded, found + rounded
            codes.append((chosen.to(torch.int32) * places).sum(dim=-1, dtype=torch.int32))
        return found, torch.stack(codes, dim=-1)

    def _counts(self, like: Tensor) -> Tensor:
        """Return the numbers of levels as float32, on the device of ``like``."""
        return torch.tensor(self.levels, dtype=torch.float32, device=like.device)

    @property
    def _places(self) -> list[int]:
        """The weight of a level of each value in the index of a code."""
        return [math.prod(self.levels[:i]) for i in range(len(self.levels))]

    def _values(self) -> Tensor:
        levels = torch.tensor(self.levels)
        places = torch.tensor(self._places)
        chosen = torch.arange(self.codebook_size)[:, None] // places % levels
        values = chosen * (2 / (levels - 1)) - 1
        return torch.stack([values * levels.float() ** -i for i in range(self.num_quantizers)])
