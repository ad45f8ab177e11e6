"""The codec stage: audio to codes and codes to log-mel, on the package's DVAE.

A language model will draw the codes, and some of them wrong. So in the codec's training some levels
move to their neighbours: neighbouring codes then sound alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from ChatTTS.config import ConvNetConfig, DVAEConfig, QuantizerConfig
from ChatTTS.model.dvae import DVAE, ConvNet, two_frames_each
from ChatTTS.model.vector_quantizer import VectorQuantizer

from .adversary import discriminator_loss, generator_losses
from .checkpoints import load_average
from .code_use import SPREAD, perplexity, unevenness
from .features import MEL, log_mel
from .losses import blurred_distance, mel_distance
from .mel_judge import MelJudge
from .optimizing import muon_and_adamw
from .pieces import audible, drawn_pieces, spread, step_pieces
from .run import Run, train_stage
from .takes import Take
from .training import Moment, Objective, generator_for, sound_autocast

NAME = "codec"
_STARTED_FROM = 64  # takes, enough for the statistics of mels and codes
# Four groups of one code each, so 16 numbers a frame: what limits a copy is how many numbers there
# are, much more than how finely they are rounded.
CODEC = DVAEConfig(
    encoder=ConvNetConfig(idim=256, odim=256, hidden=192, n_layer=4, bn_dim=96),
    decoder=ConvNetConfig(idim=128, odim=256, hidden=256, n_layer=6, bn_dim=128),
    vq=QuantizerConfig(dim=256, levels=(5, 5, 5, 5), G=4, R=1),
)


@dataclass(frozen=True)
class CodecSettings:
    """The settings of the codec's training.

    Attributes:
        frames: code frames of a piece.
        batch: pieces of a step.
        flipped: share of the levels that move by one.
        change: weight of the loss on differences between neighbouring mel frames.
        blurred: weight of the loss on mels averaged over several frames.
        even: weight of the loss that keeps codes in use.
        fooling, matching: weights of the discriminator's losses.
        adversary_from: share of the budget after which the discriminator takes part.
        judged: pieces of a step that the discriminator sees.
        rate: learning rate.
    """

    frames: int = 48
    batch: int = 16
    flipped: float = 0.02
    change: float = 0.0
    blurred: float = 0.5
    even: float = 1.0
    fooling: float = 0.02
    matching: float = 0.2
    adversary_from: float = 0.6
    judged: int = 6
    rate: float = 1e-3


# A GPU hears as many pieces as it has room for in about the time of a few, with its judge from
# early on: more steps would not come out of it.
ON_GPU = CodecSettings(batch=96, judged=48, adversary_from=0.35)


def quantize(
    quantizer: VectorQuantizer,
    features: Tensor,
    flipped: float = 0.0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Quantise and decode features [B, dim, T], with straight-through gradients.

    Without ``flipped`` the result is that of the package's own coding and decoding.

    Args:
        quantizer: of groups of one code each.
        features: the encoder's outputs.
        flipped: share of the levels that move to a neighbour.
        generator: draws which.

    Returns:
        Features [B, dim, T]; the codes [B, G, T] before levels are moved; and the values before
        they are bounded and rounded, [B, T, G * levels].
    """
    outputs, codes, unbounded = [], [], []
    groups = quantizer.quantizer.rvqs
    parts = features.transpose(1, 2).chunk(len(groups), dim=-1)
    for group, part in zip(groups, parts, strict=True):
        unbounded.append(group.project_in(part))
        levels = group.bounded(part)  # [B, T, levels]
        with torch.no_grad():
            chosen, code = group.encode(levels)
            if flipped:
                chosen = _flipped(chosen, group.levels, flipped, generator)
        outputs.append(group.project_out(levels + (chosen - levels).detach()))
        codes.append(code[..., 0])
    return (
        torch.cat(outputs, dim=-1).transpose(1, 2),
        torch.stack(codes, dim=1),
        torch.cat(unbounded, dim=-1),
    )


def _flipped(
    levels: Tensor, counts: Sequence[int], share: float, generator: torch.Generator | None
) -> Tensor:
    """Return levels [B, T, n] within -1 to 1, a share of them moved by one."""
    step = 2.0 / (torch.tensor(counts, device=levels.device) - 1)
    drawn_way, drawn_share = (
        torch.rand(levels.shape, generator=generator, device=levels.device) for _ in range(2)
    )
    moved = levels + torch.where(drawn_way < 0.5, -step, step)
    return torch.where(drawn_share < share, moved, levels).clamp(-1.0, 1.0)


def copied(codec: DVAE, mel: Tensor) -> Tensor:
    """Return a log-mel [B, n_mels, 2 T] encoded to codes and decoded again."""
    with sound_autocast(mel.device):
        features = codec.encoder(codec.downsample_conv(mel / codec.coef))
    features, _, _ = quantize(codec.vq_layer, features.float())
    with sound_autocast(mel.device):
        decoded: Tensor = codec(features)
    return decoded.float()


class CodecTask:
    """Trains a DVAE on pieces of speech.

    Args:
        codec: the codec, on ``device``.
        judge: the discriminator, on ``device``; ``None`` for none.
        corpus: the speech.
        device: the device to compute on.
        seed: seed of the choice of pieces.
        settings: the training's settings.
    """

    name = NAME

    def __init__(
        self,
        codec: DVAE,
        judge: MelJudge | None,
        corpus: Sequence[Take],
        device: torch.device,
        seed: int,
        settings: CodecSettings = CodecSettings(),
    ) -> None:
        self.codec, self.judge, self.device = codec, judge, device
        self.settings = settings
        self.batch = partial(step_pieces, corpus, settings.batch, settings.frames, seed)
        self.mel = log_mel(device)
        modules: dict[str, nn.Module] = {NAME: codec}
        optimizers = muon_and_adamw(codec, settings.rate)
        self._own = tuple(optimizers)
        if judge is not None:
            modules["judge"] = judge
            optimizers["judge"] = AdamW(judge.parameters(), lr=settings.rate / 2, betas=(0.8, 0.9))
        self.modules: Mapping[str, nn.Module] = modules
        self.optimizers: Mapping[str, Optimizer] = optimizers

    def objectives(self, batch: Tensor, moment: Moment) -> Iterator[Objective]:
        codec, settings = self.codec, self.settings
        mel = self.mel(batch.to(self.device))
        wanted = audible(mel) / codec.coef
        with sound_autocast(self.device):
            features = codec.encoder(codec.downsample_conv(mel / codec.coef))
        features, codes, unbounded = quantize(
            codec.vq_layer, features.float(), settings.flipped, moment.generator
        )
        with sound_autocast(self.device):
            found = codec(features)
        found = found.float() / codec.coef
        losses = {
            "mel": mel_distance(found, wanted),
            "change": settings.change * mel_distance(found.diff(dim=2), wanted.diff(dim=2)),
            "blurred": settings.blurred * blurred_distance(found, wanted),
            "even": settings.even * unevenness(unbounded),
        }
        if self.judge is not None and moment.spent >= settings.adversary_from:
            seen, real = found[: settings.judged], wanted[: settings.judged]
            loss = discriminator_loss(self.judge, seen.detach(), real)
            yield Objective({"judge": loss}, ("judge",))
            fooling, matching = generator_losses(self.judge, seen, real)
            losses["fooling"] = settings.fooling * fooling
            losses["matching"] = settings.matching * matching
        yield Objective(
            losses,
            self._own,
            metrics={
                "mel_l1": mel_distance(found * codec.coef, wanted * codec.coef),
                "codes_used": perplexity(codes[:, 0], codec.vq_layer.quantizer.codebook_size),
            },
            counts={"samples": batch.numel()},
        )


@torch.no_grad()
def start_codec(codec: DVAE, samples: Tensor) -> None:
    """Scale the weights of an untrained codec, in place: ``samples`` then vary by one everywhere.

    With the initial weights the codes of all frames would be equal, and the decoder would first
    learn to ignore them. Large weights of the quantiser alone would make every step of the encoder
    a leap of the codes, so every convolution is scaled, as by Mishkin and Matas (2016).

    Args:
        codec: the codec to change.
        samples: [B, n].
    """
    x = codec.preprocessor_mel(samples) / codec.coef
    for layer in codec.downsample_conv:
        x = _evened(layer, x)
    features = _started(codec.encoder, x).transpose(1, 2)
    groups = codec.vq_layer.quantizer.rvqs
    for group, part in zip(groups, features.chunk(len(groups), dim=-1), strict=True):
        linear = group.project_in
        values = linear(part).flatten(0, 1)
        scale = SPREAD / values.std(dim=0).clamp_min(1e-6)
        linear.weight.mul_(scale[:, None])
        linear.bias.copy_((linear.bias - values.mean(dim=0)) * scale)
    codes, _, _ = quantize(codec.vq_layer, features.transpose(1, 2))
    frames = _started(codec.decoder, two_frames_each(codes))
    codec.out_conv.weight.div_(codec.out_conv(frames).std())


def _started(net: ConvNet, x: Tensor) -> Tensor:
    """Scale the convolutions of a network so that its outputs vary by one; return these outputs."""
    for layer in net.conv_in:
        x = _evened(layer, x)
    for block in net.decoder_block:
        # As in Vocos: with a scale of 1 each, the sum of many blocks would be too loud.
        nn.init.constant_(cast(Tensor, block.weight), 1 / len(net.decoder_block))
        x = block(x)
    return _evened(net.conv_out, x)


def _evened(layer: nn.Module, x: Tensor) -> Tensor:
    """Return ``layer(x)``; scale a convolution so that this varies by one around 0 over time."""
    y: Tensor = layer(x)
    if not isinstance(layer, nn.Conv1d):
        return y
    scale = 1 / y.std(dim=(0, 2)).mean()
    layer.weight.mul_(scale)
    if layer.bias is None:
        return y * scale
    mean = y.mean(dim=(0, 2))
    layer.bias.copy_((layer.bias - mean) * scale)
    return (y - mean[:, None]) * scale


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
    takes = run.takes()
    some = [takes[index * len(takes) // _STARTED_FROM] for index in range(_STARTED_FROM)]
    codec = DVAE(CODEC, MEL)
    codec.coef.copy_(spread(some))
    generator = generator_for(torch.device("cpu"), run.seed)
    start_codec(codec, drawn_pieces(some, _STARTED_FROM, CodecSettings().frames, generator))
    judge = MelJudge().to(run.device)
    settings = ON_GPU if run.on_gpu else CodecSettings()
    task = CodecTask(codec.to(run.device), judge, takes, run.device, run.seed, settings)
    train_stage(run, task)
