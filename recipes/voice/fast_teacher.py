"""The teacher on a GPU: the same voices as :mod:`~recipes.voice.teacher`, many lines at once.

Symbols are read in batches of lines with about as many, and spoken in batches of lines with about
as many frames.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from .fast_generator import snake
from .fast_network import Network
from .fast_weights import unpack, unpack_voices
from .takes import TEACHER_FRAME, Line, Take
from .teacher import MOST_PHONEMES, levelled, style_tables

# Most places of a batch, those past the ends of rows counted: of symbols, and of frames.
_SYMBOLS, _FRAMES = 8_192, 8_192


class FastTeacher:
    """Speaks phonemes in any mixture of voices, many lines together.

    Args:
        weights: what :func:`~recipes.voice.fast_weights.pack` wrote.
        symbols: JSON with the id of each symbol as ``vocab``.
        voices: folder of ``NAME.bin``, float32 [510, 256] each, or what
            :func:`~recipes.voice.fast_weights.pack_voices` wrote.
        device: where it computes.
        kind: number of most convolutions; float16 is faster on a GPU.
        compiled: whether the sines between them are compiled, which needs a compiler.
    """

    def __init__(
        self,
        weights: Path,
        symbols: Path,
        voices: Path,
        device: torch.device,
        kind: torch.dtype = torch.float32,
        compiled: bool = False,
    ) -> None:
        with device:
            self._network = Network(torch.compile(snake, dynamic=True) if compiled else snake)
        self._network.load_state_dict(unpack(weights))
        self._network.narrow(kind)
        self._network.eval()
        self._device = device
        self._ids: dict[str, int] = json.loads(symbols.read_text(encoding="utf-8"))["vocab"]
        self.tables = style_tables(voices) if voices.is_dir() else unpack_voices(voices)

    def speak(
        self, lines: Sequence[Line], weights: NDArray[np.floating], speeds: Sequence[float]
    ) -> list[Take]:
        """Speak lines.

        Args:
            lines: at most 508 phonemes each, all of them known.
            weights: share of each voice, [lines, voices].
            speeds: 1 is the teacher's own; 1.25 is faster.

        Raises:
            ValueError: a line is empty or too long, or has an unknown symbol.
        """
        takes: list[Take | None] = [None] * len(lines)
        for row, samples, frames in self.sounds(lines, weights, speeds):
            takes[row] = take_of(lines[row], weights[row], speeds[row], samples, frames)
        return [take for take in takes if take is not None]

    @torch.inference_mode()
    def sounds(
        self, lines: Sequence[Line], weights: NDArray[np.floating], speeds: Sequence[float]
    ) -> Iterator[tuple[int, NDArray[np.float32], NDArray[np.int32]]]:
        """Yield the index, the samples and the frames of each line, in any order.

        The arguments and errors are those of :meth:`speak`.
        """
        counts = torch.tensor([self._checked(line) + 2 for line in lines])
        ids = torch.zeros(len(lines), int(counts.max()), dtype=torch.int64)
        for row, line in enumerate(lines):
            symbols = [self._ids[symbol] for symbol in line.phonemes]
            ids[row, 1 : 1 + len(symbols)] = torch.tensor(symbols)
        tables = self.tables[:, counts.numpy() - 3]
        style = np.einsum("rv,vrs->rs", weights, tables, optimize=True).astype(np.float32)
        by_count = counts.argsort(descending=True)
        ids, counts = ids[by_count].to(self._device), counts[by_count]
        styles = torch.from_numpy(style)[by_count].to(self._device)
        paces = torch.tensor(speeds, dtype=torch.float32)[by_count].to(self._device)
        prosody, sound, frames = self._read(ids, styles, paces, counts)
        totals = frames.sum(-1).cpu()
        rows, told = by_count.numpy(), frames.int().cpu().numpy()
        by_total = totals.argsort(descending=True)
        for first, end in _batches(totals[by_total], _FRAMES):
            chosen = by_total[first:end]
            there = chosen.to(self._device)
            samples = self._network.speak(
                prosody[there], sound[there], styles[there], frames[there], totals[chosen]
            )
            waves = samples.cpu().numpy()
            for place, wave in zip(chosen.numpy(), waves, strict=True):
                yield (
                    int(rows[place]),
                    wave[: int(totals[place]) * TEACHER_FRAME],
                    told[place, : int(counts[place])],
                )

    def _checked(self, line: Line) -> int:
        """Return the number of phonemes of a line."""
        count = len(line.phonemes)
        if not 0 < count <= MOST_PHONEMES:
            raise ValueError(f"a line has 1 to {MOST_PHONEMES} phonemes, not {count}")
        if unknown := sorted(set(line.phonemes) - self._ids.keys()):
            raise ValueError(f"the teacher does not know {' '.join(unknown)!r} in {line.phonemes}")
        return count

    def _read(
        self, ids: Tensor, styles: Tensor, paces: Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the network read of rows, the longest first, all as long as the longest."""
        parts = []
        for first, end in _batches(counts, _SYMBOLS):
            rows, longest = slice(first, end), int(counts[first])
            read = self._network.read(ids[rows, :longest], styles[rows], paces[rows], counts[rows])
            missing = ids.shape[1] - longest
            parts.append([F.pad(part, (0, 0) * (part.ndim - 2) + (0, missing)) for part in read])
        prosody, sound, frames = (torch.cat(part) for part in zip(*parts, strict=True))
        return prosody, sound, frames


def take_of(
    line: Line,
    weights: NDArray[np.floating],
    speed: float,
    samples: NDArray[np.float32],
    frames: NDArray[np.int32],
) -> Take:
    """Return the take of a line, as loud as all others.

    Raises:
        ValueError: the samples are not numbers.
    """
    if not np.isfinite(samples).all():
        raise ValueError(f"the samples of {line.phonemes} are not numbers")
    return Take(line, weights.astype(np.float32), speed, levelled(samples), frames)


def _batches(lengths: Tensor, most: int) -> Iterator[tuple[int, int]]:
    """Yield first and end of batches of rows, the longest first, of at most so many places."""
    first, told = 0, lengths.tolist()
    while first < len(told):
        end = min(len(told), first + max(1, most // told[first]))
        yield first, end
        first = end
