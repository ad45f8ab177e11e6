"""Frames, modules and ways to push them, for the tests of chains from frames to samples."""

import random
from collections.abc import Iterator, Sequence
from functools import cache

import torch
from torch import Tensor

from ChatTTS.checkpoints.assets import AssetFolder
from ChatTTS.checkpoints.loading import load_model
from ChatTTS.config import ConvNetConfig, MelConfig, VocosConfig
from ChatTTS.model.chain import Chain, Push
from ChatTTS.model.dvae import DVAE, MelDecoder
from ChatTTS.model.gpt import EngineOptions
from ChatTTS.model.placement import choose_placement
from ChatTTS.model.vocoder import Vocoder
from ChatTTS.pipeline.model import Model

from .places import DATA

HOP = 256
LENGTHS = (1, 2, 3, 17, 40, 90)


@cache
def small(name: str) -> Model:
    return load_model(AssetFolder(DATA / name, "custom"), choose_placement("cpu"), EngineOptions())


def modules(use_decoder: bool, name: str = "model-a") -> tuple[MelDecoder, Vocoder]:
    model = small(name)
    return model.decoder if use_decoder else model.dvae, model.vocos


def random_modules(
    hop: int, overlap: int, mels: int, width: int, seed: int = 3
) -> tuple[MelDecoder, Vocoder]:
    sizes = ConvNetConfig(idim=width - 1, odim=width - 3, hidden=width, n_layer=2, bn_dim=5)
    mel = MelConfig(n_fft=hop * overlap, hop_length=hop, n_mels=mels)
    config = VocosConfig(mel=mel, dim=width, intermediate_dim=2 * width + 1, num_layers=2)
    mel_decoder, vocoder = MelDecoder(sizes, mels), Vocoder(config)
    generator = torch.Generator().manual_seed(seed)
    for parameter in [*mel_decoder.parameters(), *vocoder.parameters()]:
        spread = 0.3 if parameter.dim() == 1 else parameter[0].numel() ** -0.5
        parameter.data.normal_(0, spread, generator=generator)
    mel_decoder.coef.uniform_(0.5, 2, generator=generator)
    return mel_decoder.eval(), vocoder.eval()


def some_frames(mel_decoder: MelDecoder, count: int, seed: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if isinstance(mel_decoder, DVAE):
        return torch.randint(0, 625, (count, 4), generator=generator)
    return torch.randn(count, 2 * mel_decoder.config.idim, generator=generator)


@torch.inference_mode()
def by_torch(mel_decoder: MelDecoder, vocoder: Vocoder, frames: Tensor) -> Tensor:
    columns = frames.T.unsqueeze(0)
    is_dvae = isinstance(mel_decoder, DVAE)
    return vocoder(mel_decoder.decode(columns) if is_dvae else mel_decoder(columns))[0]


def whole(chain: Chain, frames: Tensor) -> Tensor:
    return chain.advance([Push(chain.begin(), frames, last=True)])[0]


def streamed(chain: Chain, parts: Sequence[Tensor], reach: int, hop: int = HOP) -> Tensor:
    """Joined samples; after each part, all that has its whole context is out."""
    state, samples, seen, given = chain.begin(), [], 0, 0
    for number, part in enumerate(parts, 1):
        (piece,) = chain.advance([Push(state, part, last=number == len(parts))])
        assert piece.dtype == torch.float32
        assert piece.device.type == "cpu"
        samples.append(piece)
        seen, given = seen + len(part), given + len(piece)
        if number < len(parts):
            assert given == max(0, 2 * seen - reach) * hop
    return torch.cat(samples)


def dice(seed: int, most: int) -> Iterator[int]:
    generator = random.Random(seed)
    while True:
        yield generator.randint(0, most)


def pieces(frames: Tensor, sizes: Iterator[int]) -> list[Tensor]:
    parts, at = [], 0
    while at < len(frames):
        parts.append(frames[at : at + next(sizes)])
        at += len(parts[-1])
    return parts


def in_company(chain: Chain, utterances: Sequence[Tensor], seed: int | str) -> list[Tensor]:
    """The samples of each; each time some of them go on, of whatever age, in whatever order."""
    generator = random.Random(seed)
    waiting = {number: pieces(frames, dice(number, 20)) for number, frames in enumerate(utterances)}
    states = [chain.begin() for _ in utterances]
    samples: list[list[Tensor]] = [[] for _ in utterances]
    while waiting:
        chosen = generator.sample(sorted(waiting), generator.randint(1, len(waiting)))
        pushes = []
        for number in chosen:
            part = waiting[number].pop(0)
            pushes.append(Push(states[number], part, last=not waiting[number]))
            if not waiting[number]:
                del waiting[number]
        for number, piece in zip(chosen, chain.advance(pushes), strict=True):
            samples[number].append(piece)
    return [torch.cat(parts) for parts in samples]


def copies_going_their_own_ways(chain: Chain, frames: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The samples of three copies of a state, and the frames that each was given in the end.

    Args:
        frames: 90 of them.
    """
    ways = [frames[:60], torch.cat([frames[:30], frames[80:]]), frames[:30]]
    state = chain.begin()
    start = chain.advance([Push(state, frames[:30])])[0]
    states = [state, state.copy(), state.copy()]
    samples: list[list[Tensor]] = [[start], [start], [start]]
    for step in range(30, 65, 5):  # in turn, so that one would show in another
        for way, own, out in zip(ways, states, samples, strict=True):
            if step <= len(way):
                part = way[step : step + 5]
                out += chain.advance([Push(own, part, last=step + 5 > len(way))])
    return [(torch.cat(out), way) for out, way in zip(samples, ways, strict=True)]
