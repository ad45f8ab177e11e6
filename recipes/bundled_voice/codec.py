"""The codec stage: audio to codes and codes to log-mel, on the package's DVAE.

A language model will draw the codes, and some of them wrong. So in the codec's training some levels
move to their neighbours, and some residual codes are random or left out. As a result, neighbouring
codes sound alike, and the first code of each group carries what matters most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from ChatTTS.config import ConvNetConfig, DVAEConfig, QuantizerConfig
from ChatTTS.model.dvae import DVAE, MelDecoder
from ChatTTS.model.quantizer import Quantizer

from .checkpoints import load_average
from .features import MEL, SPREAD_FROM, log_mel, pieces, spread
from .losses import blurred_distance, mel_distance
from .run import Run, Utterances, window
from .training import Moment, Objective, autocast, generator_for, train

NAME = "codec"
CODEC = DVAEConfig(
    encoder=ConvNetConfig(idim=192, odim=256, hidden=160, n_layer=4, bn_dim=96),
    decoder=ConvNetConfig(idim=128, odim=192, hidden=192, n_layer=6, bn_dim=96),
    vq=QuantizerConfig(dim=256, levels=(5, 5, 5, 5), G=2, R=2),
)

# The wanted standard deviation of the values that are bounded and rounded to levels from -1 to 1.
# Values reach the outer levels, but few lie far beyond them, where there is no gradient.
_SPREAD = 0.8


@dataclass(frozen=True)
class Corruption:
    """The corruption of codes in training.

    Attributes:
        flipped: share of the levels of first codes that move by one.
        dropped: for each of the two groups, share of the utterances whose residual codes are left
            out (set to their middle levels).
        scrambled: for each group, share of the frames whose residual codes are random.
    """

    flipped: float = 0.05
    dropped: float = 0.1
    scrambled: float = 0.02


@dataclass(frozen=True)
class CodecSettings:
    """The settings of the codec's training.

    They are the code frames of a piece, the pieces of a step, the weights of the blurred loss and
    of the loss that keeps codes in use, and the learning rate.
    """

    frames: int = 48
    batch: int = 16
    blurred: float = 0.5
    even: float = 1.0
    rate: float = 1e-3
    corruption: Corruption = Corruption()


def new_codec(config: DVAEConfig, coef: Tensor) -> DVAE:
    """Return an untrained codec; ``coef`` [n_mels, 1] scales its mels."""
    codec = DVAE(config, MEL)
    start_mel_decoder(codec, coef)
    _start_blocks(codec.encoder.decoder_block)
    return codec


@torch.no_grad()
def start_codes(codec: DVAE, samples: Tensor) -> None:
    """Scale the values that are rounded to codes, in place, so that ``samples`` use many codes.

    With the initial weights, all values would be rounded to the middle code, and the decoder would
    first learn to ignore the codes.

    Args:
        codec: the codec to change.
        samples: [B, n].
    """
    mel = codec.preprocessor_mel(samples) / codec.coef
    features = codec.encoder(codec.downsample_conv(mel)).transpose(1, 2)
    groups = codec.vq_layer.quantizer.coders()
    for group, part in zip(groups, features.chunk(len(groups), dim=-1), strict=True):
        linear = group.project_in
        levels = linear(part).flatten(0, 1)
        scale = _SPREAD / levels.std(dim=0).clamp_min(1e-6)
        linear.weight.mul_(scale[:, None])
        linear.bias.copy_((linear.bias - levels.mean(dim=0)) * scale)


def start_mel_decoder(decoder: MelDecoder, coef: Tensor) -> None:
    """Set ``coef`` and the scales of the blocks, in place."""
    decoder.coef.copy_(coef)
    _start_blocks(decoder.decoder.decoder_block)


def _start_blocks(blocks: nn.ModuleList) -> None:
    # As in Vocos: with a scale of 1 each, the sum of many blocks would be too loud to learn from.
    for block in blocks:
        nn.init.constant_(cast(Tensor, block.weight), 1 / len(blocks))


def quantize(
    quantizer: Quantizer,
    features: Tensor,
    corruption: Corruption | None = None,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Quantise and decode features [B, dim, T], with straight-through gradients.

    Without ``corruption`` the result is that of the package's own coding and decoding.

    Returns:
        Features [B, dim, T]; the indices [B, G, T] of the first codes before corruption; and the
        values before they are bounded and rounded to those codes, [B, T, G * levels].
    """
    outputs, firsts, unbounded = [], [], []
    groups = quantizer.quantizer.coders()
    parts = features.transpose(1, 2).chunk(len(groups), dim=-1)
    for group, part in zip(groups, parts, strict=True):
        limit = group.soft_clamp_input_value
        unbounded.append(group.project_in(part))
        levels = torch.tanh(unbounded[-1] / limit) * limit  # [B, T, levels]
        with torch.no_grad():
            codes, first = _codes(group, levels)
            if corruption is not None:
                codes = _corrupted(codes, group, corruption, generator)
            scales = group.scales[:, None, None]
            chosen = (torch.stack(codes) * scales).sum(dim=0)
        outputs.append(group.project_out(levels + (chosen - levels).detach()))
        firsts.append(first)
    return (
        torch.cat(outputs, dim=-1).transpose(1, 2),
        torch.stack(firsts, dim=1),
        torch.cat(unbounded, dim=-1),
    )


def unevenness(unbounded: Tensor) -> Tensor:
    """Return how far the values [B, T, n] before rounding are from mean 0 and the wanted spread.

    Without this loss, an early gradient that all frames share pushes them all beyond one outer
    level. They would stay there, and the codec would use only three codes.
    """
    mean, spread = unbounded.mean(dim=(0, 1)), unbounded.std(dim=(0, 1))
    return (mean.square() + (spread - _SPREAD).square()).mean()


def _codes(group: Any, levels: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return each code's values in -1 to 1, [B, T, levels], and the indices of the first code."""
    rest, values, first = levels, [], None
    for layer, scale in zip(group.layers, group.scales, strict=True):
        value, index = layer(rest / scale)
        rest = rest - value * scale
        values.append(value)
        first = index if first is None else first
    return values, cast(Tensor, first)


def _corrupted(
    codes: list[Tensor], group: Any, corruption: Corruption, generator: torch.Generator | None
) -> list[Tensor]:
    first, *residual = codes
    rows, frames, _ = first.shape

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=first.device)

    step = 2.0 / (torch.tensor(group.levels, device=first.device) - 1)
    way = torch.where(uniform(*first.shape) < 0.5, -step, step)
    moved = torch.where(uniform(*first.shape) < corruption.flipped, first + way, first)
    changed = [moved.clamp(-1.0, 1.0)]
    is_dropped = uniform(rows, 1, 1) < corruption.dropped
    is_scrambled = uniform(rows, frames, 1) < corruption.scrambled
    for layer, value in zip(group.layers[1:], residual, strict=True):
        book = layer.implicit_codebook
        drawn = book[(uniform(rows, frames) * len(book)).long()]
        value = torch.where(is_scrambled, drawn, value)
        changed.append(torch.where(is_dropped, torch.zeros_like(value), value))
    return changed


class CodecTask:
    """Trains a DVAE on pieces of speech.

    Args:
        codec: the codec, on ``device``.
        corpus: the speech.
        device: the device to compute on.
        seed: seed of the choice of pieces.
        settings: the training's settings.
    """

    name = NAME

    def __init__(
        self,
        codec: DVAE,
        corpus: Utterances,
        device: torch.device,
        seed: int,
        settings: CodecSettings = CodecSettings(),
    ) -> None:
        self.codec, self.corpus, self.device = codec, corpus, device
        self.seed, self.settings = seed, settings
        self.mel = log_mel(device)
        self.modules: Mapping[str, nn.Module] = {NAME: codec}
        self.optimizers: Mapping[str, Optimizer] = {
            "adamw": AdamW(codec.parameters(), lr=settings.rate, betas=(0.9, 0.98))
        }

    def batch(self, step: int) -> Tensor:
        """Return the samples [B, n] of a step, on the CPU."""
        generator = generator_for(torch.device("cpu"), self.seed, step)
        chosen = window(step, self.settings.batch, self.corpus)
        return pieces(chosen, self.settings.frames, generator)

    def objectives(self, batch: Tensor, moment: Moment) -> Iterator[Objective]:
        codec, settings = self.codec, self.settings
        mel = self.mel(batch.to(self.device))
        wanted = mel / codec.coef
        with autocast(self.device):
            features = codec.encoder(codec.downsample_conv(wanted))
        features, first, unbounded = quantize(
            codec.vq_layer, features.float(), settings.corruption, moment.generator
        )
        with autocast(self.device):
            found = codec(features)
        found = found.float() / codec.coef
        blurred = blurred_distance(found, wanted)
        yield Objective(
            {
                "mel": mel_distance(found, wanted),
                "blurred": settings.blurred * blurred,
                "even": settings.even * unevenness(unbounded),
            },
            metrics={
                "mel_l1": mel_distance(found * codec.coef, mel),
                "codes_used": perplexity(first[:, 0], codec.vq_layer.quantizer.codebook_size),
            },
            counts={"samples": batch.numel()},
        )


def perplexity(indices: Tensor, size: int) -> Tensor:
    """Return the perplexity of the indices: how many equally frequent codes would be as varied."""
    flat = indices.flatten().long()
    counts = torch.zeros(size, device=flat.device)
    counts.scatter_add_(0, flat, torch.ones_like(flat, dtype=counts.dtype))
    entropy: Tensor = torch.special.entr(counts / counts.sum()).sum()
    return entropy.exp()


def load_codec(run: Run) -> DVAE:
    """Load the trained codec of a run, frozen, on the run's device.

    Raises:
        AssetError: the codec is not trained yet.
    """
    codec = DVAE(CODEC, MEL)
    load_average(run.state(NAME), NAME, codec)
    return codec.to(run.device).eval().requires_grad_(False)


def main(run: Run) -> None:
    """Train the codec."""
    torch.manual_seed(run.seed)
    some = list(window(0, SPREAD_FROM, run.corpus))
    codec = new_codec(CODEC, spread(some))
    start_codes(codec, pieces(some, CodecSettings().frames, generator_for(torch.device("cpu"), 0)))
    task = CodecTask(codec.to(run.device), run.corpus, run.device, run.seed)
    train(
        task,
        run.out,
        run.budgets[NAME],
        device=run.device,
        seed=run.seed,
    )
