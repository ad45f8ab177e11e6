"""The vocoder stage: log-mel to samples, on the package's Vocoder.

It first learns from the mels of speech. Then a discriminator takes part, which hears whether sound
is real, and half of the mels are the codec's, which is what it reads in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from ChatTTS.config import VocosConfig
from ChatTTS.model.dvae import DVAE
from ChatTTS.model.synthesis.vocoder import Vocoder

from .adversary import Discriminator, discriminator_loss, generator_losses
from .checkpoints import load_average
from .codec import copied, load_codec
from .features import MEL, log_mel
from .losses import mel_distance, spectral_distance
from .pieces import audible, step_pieces
from .run import Run, train_stage
from .takes import Take
from .training import Moment, Objective, sound_autocast

NAME = "vocoder"
VOCODER = VocosConfig(mel=MEL, dim=256, intermediate_dim=768, num_layers=8)

# Maps log-mels [B, n_mels, 2 T] to decoded ones.
Copier = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class VocoderSettings:
    """The settings of the vocoder's training.

    Attributes:
        frames: code frames of a piece.
        batch: pieces of a step.
        judged: pieces of a step that the discriminator hears; it takes most of the time.
        rate: learning rate.
        mel, fooling, matching: weights of the losses other than the spectral one.
        adversary_from: share of the budget after which the discriminator takes part.
        copied_from: share of the budget after which half of the mels are the codec's.
        channels: of the discriminator.
    """

    frames: int = 32
    batch: int = 12
    judged: int = 4
    rate: float = 1e-3
    mel: float = 1.0
    fooling: float = 0.1
    matching: float = 1.0
    adversary_from: float = 0.67
    copied_from: float = 0.5
    channels: int = 16


ON_GPU = VocoderSettings(batch=48, judged=32, adversary_from=0.35, copied_from=0.6, channels=32)


class VocoderTask:
    """Trains a vocoder on pieces of speech.

    Args:
        vocoder: the vocoder, on ``device``.
        copier: the codec, whose mels are used towards the end; ``None`` for none.
        discriminator: on ``device``, for the adversarial phase; ``None`` for none.
        corpus: the speech.
        device: the device to compute on.
        seed: seed of the choice of pieces.
        settings: the training's settings.
    """

    name = NAME

    def __init__(
        self,
        vocoder: Vocoder,
        copier: Copier | None,
        discriminator: Discriminator | None,
        corpus: Sequence[Take],
        device: torch.device,
        seed: int,
        settings: VocoderSettings = VocoderSettings(),
    ) -> None:
        self.vocoder, self.copier, self.discriminator = vocoder, copier, discriminator
        self.device, self.settings = device, settings
        self.batch = partial(step_pieces, corpus, settings.batch, settings.frames, seed)
        self.mel = log_mel(device)
        modules: dict[str, nn.Module] = {NAME: vocoder}
        optimizers: dict[str, Optimizer] = {
            NAME: AdamW(vocoder.parameters(), lr=settings.rate, betas=(0.9, 0.98))
        }
        if discriminator is not None:
            modules["discriminator"] = discriminator
            # Half the rate and less momentum: it must not learn faster than the vocoder.
            optimizers["discriminator"] = AdamW(
                discriminator.parameters(), lr=settings.rate / 2, betas=(0.8, 0.9)
            )
        self.modules: Mapping[str, nn.Module] = modules
        self.optimizers: Mapping[str, Optimizer] = optimizers

    def objectives(self, batch: Tensor, moment: Moment) -> Iterator[Objective]:
        settings = self.settings
        samples = batch.to(self.device)
        mel = audible(self.mel(samples))
        given = mel
        if self.copier is not None and moment.spent >= settings.copied_from:
            half = len(mel) // 2
            with torch.no_grad():
                given = torch.cat([self.copier(self.mel(samples[:half])), mel[half:]])
        with sound_autocast(self.device):
            features = self.vocoder.backbone(given)
        found = self.vocoder.head(features.float())

        judge = self.discriminator if moment.spent >= settings.adversary_from else None
        # Half of those that are heard come from the codec's mels, half from the speech's.
        heard = slice((len(mel) - settings.judged) // 2, (len(mel) + settings.judged) // 2)
        if judge is not None:
            loss = discriminator_loss(judge, found[heard].detach(), samples[heard])
            yield Objective({"discriminator": loss}, ("discriminator",))
        distance = mel_distance(audible(self.mel(found)), mel)
        losses = {
            "mel": settings.mel * distance,
            "spectral": spectral_distance(found, samples),
        }
        if judge is not None:
            fooling, matching = generator_losses(judge, found[heard], samples[heard])
            losses["fooling"] = settings.fooling * fooling
            losses["matching"] = settings.matching * matching
        yield Objective(
            losses, (NAME,), metrics={"mel_l1": distance}, counts={"samples": batch.numel()}
        )


def vocoder_settings(run: Run) -> VocoderSettings:
    """Return the settings for the run's device."""
    return ON_GPU if run.on_gpu else VocoderSettings()


class LateCodec:
    """Copies mels with the codec of a run, which may still be trained when this is built."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __call__(self, mel: Tensor) -> Tensor:
        return copied(self._codec, mel)

    @cached_property
    def _codec(self) -> DVAE:
        return load_codec(self._run)


def load_vocoder(run: Run) -> Vocoder:
    """Load the trained vocoder of a run, frozen, on the run's device.

    Raises:
        AssetError: the vocoder is not trained yet.
    """
    vocoder = Vocoder(VOCODER)
    load_average(run.state(NAME), NAME, vocoder)
    return vocoder.to(run.device).eval().requires_grad_(False)


def main(run: Run) -> None:
    """Train the vocoder; the codec must have been trained when half of this is done."""
    torch.manual_seed(run.seed)
    settings = vocoder_settings(run)
    task = VocoderTask(
        Vocoder(VOCODER).to(run.device),
        LateCodec(run),
        Discriminator(settings.channels).to(run.device),
        run.takes(),
        run.device,
        run.seed,
        settings,
    )
    train_stage(run, task)
