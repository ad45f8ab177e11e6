"""Frames to features for the decoders on kernels, without the quantizer's arithmetic."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from ...errors import ChatTTSError
from ..dvae import DVAE, MelDecoder
from ..vector_quantizer import VectorQuantizer


class FrameFeatures:
    """Frames as the first layer of a mel decoder reads them.

    Hidden states are taken as they are, on the device where they are. Codes are looked up on the
    CPU.

    Attributes:
        channels: features of a frame. The halves of them are two rows of the first layer.

    Args:
        mel_decoder: the Decoder or the DVAE, with its weights.
        channels: features of a frame.
    """

    def __init__(self, mel_decoder: MelDecoder, channels: int) -> None:
        self.channels = channels
        self._tables = CodeTables(mel_decoder.vq_layer) if isinstance(mel_decoder, DVAE) else None
        self._width = channels if self._tables is None else self._tables.num_codebooks

    def __call__(self, frames: Tensor | None) -> Tensor:
        """Return float32 features [n, channels] of frames [n, num_codebooks or hidden] or none.

        Raises:
            ChatTTSError: the frames have another width.
            IndexError: there is no such code.
        """
        if frames is None:
            return torch.empty(0, self.channels, device="cpu")
        if frames.dim() != 2 or frames.shape[1] != self._width:
            raise ChatTTSError(
                f"this decoder takes frames [n, {self._width}], not {list(frames.shape)}"
            )
        frames = frames.detach()
        return frames.float() if self._tables is None else self._tables(frames.cpu())


class CodeTables:
    """A table of the quantizer's features for each code and codebook.

    A group's features are a linear function of its codes, so they are sums of table rows. The bias
    is in the rows of the group's first codebook.

    Attributes:
        num_codebooks: codes of a frame.

    Args:
        quantizer: with its weights, on any device; nothing of it is kept.
    """

    @torch.no_grad()
    def __init__(self, quantizer: VectorQuantizer) -> None:
        groups = []
        for group in copy.deepcopy(quantizer.quantizer.rvqs).cpu():
            vectors = group.codebooks.double()  # [R, n, d]
            # In float64, so that summing table rows is the only source of rounding errors.
            project = group.project_out.double()
            bias = project(torch.zeros_like(vectors[0]))
            groups.append([project(x) - (bias if r else 0) for r, x in enumerate(vectors)])
        # For each residual [G, n, dim / G].
        self._tables = [torch.stack(rows).float().numpy() for rows in zip(*groups, strict=True)]
        self._groups = np.arange(len(groups))
        self.num_codebooks = len(groups) * len(self._tables)

    def __call__(self, codes: Tensor) -> Tensor:
        """Return for codes [n, G * R] float32 features [n, dim].

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
