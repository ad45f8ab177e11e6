"""The corpus as codes: speech is encoded once, and kept in shards under ``data/codes``."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from ChatTTS.model.dvae import DVAE
from ChatTTS.utils.progress import progress
from ChatTTS.voice_learning.sequences import groups_of_similar_length

from .checkpoints import checksum
from .features import fitted
from .prompts import Coded
from .speakers import Varied, speaker_of, voice_speaker
from .types import FRAME_SAMPLES, Spoken

logger = logging.getLogger(__name__)

SHARD = 512  # utterances of a file
_SAMPLES = 1 << 20  # samples of a pass through the codec, padding included
_AFTER = 32  # frames of silence; the encoder's receptive field is 26 frames, a mel window's one


def encode(codec: DVAE, utterances: Sequence[Spoken], device: torch.device) -> list[Coded]:
    """Encode utterances, in order.

    Each gets ``Spoken.frames`` frames; a rest of less than a frame is cut. Silence is appended to
    each utterance for encoding, so its codes do not depend on longer utterances in its batch.
    """
    found: dict[int, Coded] = {}
    waves = [_followed_by_silence(spoken) for spoken in utterances]
    for part in groups_of_similar_length([len(wave) for wave in waves], _SAMPLES):
        batch = pad_sequence([waves[i] for i in part], batch_first=True)
        with torch.inference_mode():
            codes = codec.encode(batch.to(device)).cpu()
        for index, ids in zip(part, codes.numpy(), strict=True):
            spoken = utterances[index]
            speaker = speaker_of(spoken)
            found[index] = Coded(
                text=spoken.text,
                voice=spoken.voice,
                speed=spoken.speed,
                point=speaker.point,
                is_voice=speaker.is_voice,
                codes=ids[:, : spoken.frames].T.astype(np.int16),
                starts=spoken.starts,
                sounds=spoken.sounds[: spoken.frames],
            )
    return [found[index] for index in range(len(utterances))]


def _followed_by_silence(spoken: Spoken) -> torch.Tensor:
    whole = fitted(spoken.samples, spoken.frames)
    return pad(whole, (0, _AFTER * FRAME_SAMPLES))


def coded_corpus(
    corpus: Varied, codec: DVAE, folder: Path, device: torch.device, seed: int
) -> list[Coded]:
    """Return all of ``corpus`` as codes. Existing shards are read, missing ones are made.

    Args:
        codec: frozen, on ``device``; another codec or other texts lead to other shards.
        folder: folder of the shards.
        seed: seed of the corpus and its speakers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mark = f"{seed}-{corpus.digest}-{checksum(codec)}"
    items: list[Coded] = []
    speech: Iterator[Spoken] | None = None
    with progress("codes", "utterance", total=len(corpus)) as bar:
        for begin in range(0, len(corpus), SHARD):
            end = min(begin + SHARD, len(corpus))
            path = folder / f"{mark}-{begin:07d}-{end - begin}.npz"
            if speech is not None or not path.exists():
                # All missing speech is made in one pass, since worker processes start slowly.
                speech = corpus.spoken(begin) if speech is None else speech
                _write(path, encode(codec, list(islice(speech, end - begin)), device))
            items += _read(path)
            bar.update(end - begin)
    seconds = sum(len(item.codes) for item in items) * 512 / 24_000
    logger.info("%d utterances as codes, %.1f h", len(items), seconds / 3600)
    return items


def _write(path: Path, items: Sequence[Coded]) -> None:
    partial = path.with_suffix(".partial.npz")
    np.savez_compressed(
        partial,
        texts=np.array([item.text for item in items]),
        voices=np.array([item.voice for item in items]),
        speeds=np.array([item.speed for item in items]),
        points=np.array([item.point for item in items]),
        is_voice=np.array([item.is_voice for item in items]),
        frames=np.array([len(item.codes) for item in items]),
        codes=np.concatenate([item.codes for item in items]),
        starts=np.concatenate([item.starts for item in items]).astype(np.int32),
        sounds=np.concatenate([item.sounds for item in items]),
    )
    os.replace(partial, path)


def _read(path: Path) -> list[Coded]:
    with np.load(path, allow_pickle=False) as file:
        shard = {name: file[name] for name in file.files}
    texts = [str(text) for text in shard["texts"]]
    ends = np.cumsum(shard["frames"])[:-1]
    codes, sounds = np.split(shard["codes"], ends), np.split(shard["sounds"], ends)
    starts = np.split(shard["starts"], np.cumsum([len(text) for text in texts])[:-1])
    return [
        Coded(
            text=text,
            voice=str(shard["voices"][i]),
            speed=int(shard["speeds"][i]),
            # Utterances of a voice itself share one point.
            point=_point(shard, i),
            is_voice=bool(shard["is_voice"][i]),
            codes=codes[i],
            starts=starts[i],
            sounds=sounds[i],
        )
        for i, text in enumerate(texts)
    ]


def _point(shard: dict[str, np.ndarray], index: int) -> np.ndarray:
    if shard["is_voice"][index]:
        return voice_speaker(str(shard["voices"][index])).point
    point: np.ndarray = shard["points"][index]
    return point
