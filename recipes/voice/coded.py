"""The corpus as codes: what the language model learns, a hundredth of the size of speech.

A file holds the takes of one shard, arranged and coded by the frozen codec. Files belong to one
codec, whose checksum is the name of their folder. A day of speech takes 23 MB.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from ChatTTS.model.dvae import DVAE
from ChatTTS.voice_learning.sequences import groups_of_similar_length

from .arrangement import Utterance, arranged, frame_starts, joined_symbols, symbols_of
from .checkpoints import checksum
from .corpus import DEFAULT_SPEED, SPEEDS
from .counter_rng import CounterRng
from .features import fitted
from .frozen import frozen_codec
from .run import Run
from .styles import CAST, COORDINATES, StyleSpace, mixture
from .takes import Take, Takes
from .teacher import style_tables
from .units import FRAME_SAMPLES

logger = logging.getLogger(__name__)

PLACES_FILE = "places.npy"  # where the teacher's voices are
NOBODY = -1  # of ``Coded.person``: none of the named voices
_FASTER = 1.08  # the teacher's speed between [speed_n] and [speed_n+1]
_SAMPLES = 1 << 20  # samples of a pass through the codec, padding included
_TOGETHER = 8  # shards between two looks at what there is
_WAIT_SECONDS = 15.0
_AFTER = 32  # frames of silence behind an utterance: more than the encoder's receptive field


@dataclass(frozen=True, eq=False)
class Coded:
    """An utterance as the language model learns it.

    Attributes:
        symbols: phonemes and control tags.
        starts: int32 [len(symbols)], the code frame in which each begins; they never decrease.
        codes: int16 [frames, num_codebooks].
        place: float32 [coordinates], the speaker.
        person: index of the speaker in ``CAST``, or ``NOBODY``.
        speed: n of ``[speed_n]``.
    """

    symbols: tuple[str, ...]
    starts: NDArray[np.int32]
    codes: NDArray[np.int16]
    place: NDArray[np.float32]
    person: int
    speed: int

    def __len__(self) -> int:
        return len(self.symbols) + len(self.codes)


def person_of(weights: NDArray[np.floating]) -> int:
    """Return the index in ``CAST`` of the voice with these weights [voices], or ``NOBODY``."""
    for index, person in enumerate(CAST.values()):
        if np.allclose(weights, mixture(person.weights), atol=2e-3):
            return index
    return NOBODY


def speed_of(pace: float) -> int:
    """Return n of the ``[speed_n]`` that is nearest to a speed of the teacher."""
    n = round(DEFAULT_SPEED + float(np.log(pace) / np.log(_FASTER)))
    return min(max(n, 0), SPEEDS - 1)


def arranged_take(take: Take, seed: int, shard: int, index: int, variant: int = 0) -> Utterance:
    """Return what the language model and the Decoder learn of take ``index`` of a shard.

    Each variant has other tags and pauses, and other borders of frames.
    """
    return arranged(take, CounterRng(seed, (((variant << 24) + shard) << 16) + index))


def encode(
    codec: DVAE, utterances: Sequence[Utterance], device: torch.device
) -> list[NDArray[np.int16]]:
    """Return the codes of each utterance, int16 [frames, num_codebooks].

    Silence is appended to each, so its codes do not depend on longer ones in its batch.
    """
    found: dict[int, NDArray[np.int16]] = {}
    waves = [
        pad(fitted(one.samples, one.frames), (0, _AFTER * FRAME_SAMPLES)) for one in utterances
    ]
    for part in groups_of_similar_length([len(wave) for wave in waves], _SAMPLES):
        batch = pad_sequence([waves[i] for i in part], batch_first=True)
        with torch.inference_mode():
            codes = codec.encode(batch.to(device)).cpu()
        for index, ids in zip(part, codes.numpy(), strict=True):
            found[index] = ids[:, : utterances[index].frames].T.astype(np.int16)
    return [found[index] for index in range(len(utterances))]


def code_shards(
    speech: Path,
    folder: Path,
    codec: DVAE,
    device: torch.device,
    seed: int,
    *,
    most: int | None = None,
    part: int = 0,
    parts: int = 1,
    variant: int = 0,
) -> int:
    """Code the shards of takes that are not coded yet.

    Args:
        speech: folder of the takes.
        folder: of the codes of this codec.
        codec: frozen, on ``device``.
        seed: of the arrangement.
        most: shards of this call; all by default.
        part, parts: this process codes every ``parts``-th shard, from ``part`` on.
        variant: of the arrangement; those behind 0 have files of their own, ``SHARD-VARIANT.npz``.

    Returns:
        How many were coded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ending = f"-{variant}.npz" if variant else ".npz"
    names = [path.stem for path in sorted(speech.glob("[0-9]*.json"))]
    mine = [name for name in names if int(name) % parts == part]
    missing = [name for name in mine if not (folder / f"{name}{ending}").exists()][:most]
    for name in missing:
        takes = Takes(speech, name)
        utterances = [
            arranged_take(take, seed, int(name), index, variant) for index, take in enumerate(takes)
        ]
        codes = encode(codec, utterances, device)
        write_codes(folder / f"{name}{ending}", takes, utterances, codes)
    return len(missing)


def write_space(folder: Path, space: StyleSpace) -> None:
    """Write where the teacher's voices are, float32 [voices, coordinates], beside the codes."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"part-{PLACES_FILE}"  # a reader sees the whole file, or the one before
    np.save(part, space.places.astype(np.float32), allow_pickle=False)
    os.replace(part, folder / PLACES_FILE)


def read_space(folder: Path) -> NDArray[np.float32]:
    """Return what :func:`write_space` wrote."""
    places: NDArray[np.float32] = np.load(folder / PLACES_FILE, allow_pickle=False)
    return places


def write_codes(
    path: Path,
    takes: Sequence[Take],
    utterances: Sequence[Utterance],
    codes: Sequence[NDArray[np.int16]],
) -> None:
    """Write coded takes to a file; a reader sees the whole file or none."""
    lines = "\n".join(joined_symbols(one.symbols) for one in utterances)
    part = path.with_name(f"part-{path.name}")
    with part.open("wb") as file:
        np.savez_compressed(
            file,
            lines=np.frombuffer(lines.encode(), np.uint8),
            frames=np.array([one.frames for one in utterances], np.int32),
            # A symbol's distance from the one before it is a small number.
            steps=np.concatenate(
                [np.diff(frame_starts(one), prepend=0).astype(np.int16) for one in utterances]
            ),
            codes=np.concatenate(codes).astype(np.int16),
            weights=np.stack([take.weights for take in takes]).astype(np.float16),
            speeds=np.array([speed_of(take.speed) for take in takes], np.int8),
        )
    os.replace(part, path)


def read_codes(path: Path, places: NDArray[np.float32]) -> list[Coded]:
    """Return the utterances of a file.

    Args:
        path: as :func:`write_codes` wrote it.
        places: of the teacher's voices, [voices, coordinates].
    """
    with np.load(path, allow_pickle=False) as file:
        shard = {name: file[name] for name in file.files}
    lines = [symbols_of(line) for line in shard["lines"].tobytes().decode().split("\n")]
    codes = np.split(shard["codes"], np.cumsum(shard["frames"])[:-1])
    steps = np.split(shard["steps"], np.cumsum([len(line) for line in lines])[:-1])
    weights = shard["weights"].astype(np.float32)
    return [
        Coded(
            symbols=line,
            starts=np.cumsum(steps[i], dtype=np.int32),
            codes=codes[i],
            place=(weights[i] @ places).astype(np.float32)[:COORDINATES],
            person=person_of(weights[i]),
            speed=int(shard["speeds"][i]),
        )
        for i, line in enumerate(lines)
    ]


def main(run: Run) -> None:
    """Code all speech that there is, and go on while more comes, until all shards are coded."""
    codec = frozen_codec(run)
    folder = run.codes(checksum(codec))
    write_space(folder, StyleSpace.of(style_tables(run.teacher_files().voices)))
    done = sum(1 for _ in folder.glob("[0-9]*.npz"))
    while done < run.shards:
        new = code_shards(run.speech, folder, codec, run.device, run.seed, most=_TOGETHER)
        done += new
        if new:
            logger.info("%d shards as codes", done)
        else:
            time.sleep(_WAIT_SECONDS)
