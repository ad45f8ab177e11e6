"""Takes: the teacher's utterances, and the folder that keeps them.

A folder holds shards. A shard is a file of samples, which training reads through the page cache
without loading it, and a JSON file of all else. The JSON file is written last, so a shard that has
one is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from .units import SAMPLE_RATE

TEACHER_FRAME = 600  # samples of a frame of the teacher
_LOUDEST = 32767  # of int16


@dataclass(frozen=True)
class Line:
    """The words of a take.

    Attributes:
        text: as people write it.
        language: ``en`` or ``zh``.
        phonemes: the symbols that the teacher reads.
    """

    text: str
    language: str
    phonemes: str


@dataclass(frozen=True, eq=False)
class Take:
    """One utterance of the teacher.

    Attributes:
        line: what is said.
        weights: float32 [voices], the share of each of the teacher's voices in the speaker, in the
            order of ``styles.VOICES``. They add up to 1, and may be negative.
        speed: how fast it is said; 1 is the teacher's own speed.
        samples: float32 [n], mono, 24 kHz, within -1 to 1.
        frames: int32 [len(phonemes) + 2], the frames of 600 samples of the silence before, of each
            phoneme, and of the silence after. They add up to the samples.
    """

    line: Line
    weights: NDArray[np.float32]
    speed: float
    samples: NDArray[np.float32]
    frames: NDArray[np.int32]

    @property
    def seconds(self) -> float:
        """The length of the speech in seconds."""
        return len(self.samples) / SAMPLE_RATE

    @property
    def starts(self) -> NDArray[np.int64]:
        """The sample at which each phoneme begins, [len(phonemes)]."""
        begins: NDArray[np.int64] = TEACHER_FRAME * np.cumsum(self.frames[:-2], dtype=np.int64)
        return begins


def write_shard(folder: Path, shard: int, takes: Sequence[Take]) -> None:
    """Write takes as shard ``shard`` of ``folder``; a reader sees all of them or none."""
    folder.mkdir(parents=True, exist_ok=True)
    samples, facts = _files(folder, shard)
    waves = [np.round(take.samples * _LOUDEST).astype(np.int16) for take in takes]
    with _replaced(samples) as part:
        np.save(part, np.concatenate(waves), allow_pickle=False)
    described = [
        {
            "text": take.line.text,
            "language": take.line.language,
            "phonemes": take.line.phonemes,
            "weights": [round(float(weight), 6) for weight in take.weights],
            "speed": round(take.speed, 5),
            "frames": take.frames.tolist(),
            "samples": len(take.samples),
        }
        for take in takes
    ]
    with _replaced(facts) as part:
        part.write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")


def is_whole(folder: Path, shard: int) -> bool:
    """Return whether a shard was written."""
    return _files(folder, shard)[1].is_file()


class Takes(Sequence[Take]):
    """All takes of a folder, in order; shards that are added later belong to another ``Takes``.

    Args:
        folder: where :func:`write_shard` wrote.
        names: of shards, such as ``00007``; all that there are by default.
    """

    def __init__(self, folder: Path, *names: str) -> None:
        self._folder = folder
        self._names = names or tuple(sorted(path.stem for path in folder.glob("[0-9]*.json")))
        self._facts: list[dict[str, Any]] = []
        self._waves: list[NDArray[np.int16]] = []
        for name in self._names:
            path = folder / f"{name}.json"
            described = json.loads(path.read_text(encoding="utf-8"))
            whole = np.load(path.with_suffix(".npy"), mmap_mode="r", allow_pickle=False)
            ends = np.cumsum([one["samples"] for one in described])
            self._facts += described
            self._waves += np.split(whole, ends[:-1])

    def __reduce__(self) -> tuple[type[Takes], tuple[Path | str, ...]]:
        """Pickle the names of the shards alone: another process maps the files itself."""
        return Takes, (self._folder, *self._names)

    def __len__(self) -> int:
        return len(self._facts)

    @property
    def seconds(self) -> float:
        """The length of all takes in seconds."""
        return sum(len(wave) for wave in self._waves) / SAMPLE_RATE

    @overload
    def __getitem__(self, index: int) -> Take: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Take]: ...
    def __getitem__(self, index: int | slice) -> Take | Sequence[Take]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        facts, wave = self._facts[index], self._waves[index]
        return Take(
            Line(facts["text"], facts["language"], facts["phonemes"]),
            np.array(facts["weights"], np.float32),
            facts["speed"],
            wave.astype(np.float32) / np.float32(_LOUDEST),
            np.array(facts["frames"], np.int32),
        )


def _files(folder: Path, shard: int) -> tuple[Path, Path]:
    name = f"{shard:05d}"
    return folder / f"{name}.npy", folder / f"{name}.json"


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """Yield a path to write to, and move the file to ``path`` when it is whole."""
    part = path.with_name(f"part-{path.name}")
    yield part
    os.replace(part, path)
