"""The vocoder stage: log-mel to samples, on the package's Vocoder.

It learns from the mels of speech, and later also from decoded mels of the codec, which are its
input in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from ChatTTS.config import VocosConfig
from ChatTTS.model.dvae import DVAE
from ChatTTS.model.vocoder import Vocoder

from .adversary import Discriminator, discriminator_loss, generator_losses
from .checkpoints import checksum, load_average
from .codec import NAME as CODEC_NAME
from .codec import load_codec, quantize
from .features import MEL, log_mel, pieces
from .losses import mel_distance, spectral_distance
from .run import Run, Utterances, window
from .training import Moment, Objective, autocast, generator_for, train

NAME = "vocoder"
VOCODER = VocosConfig(mel=MEL, dim=256, intermediate_dim=768, num_layers=5)


@dataclass(frozen=True)
class VocoderSettings:
    """The settings of the vocoder's training.

    Attributes:
        frames: code frames of a piece.
        batch: pieces of a step.
        rate: learning rate.
        mel, fooling, matching: weights of the losses other than the spectral one.
        decoded_from: share of the budget after which half of the mels are the codec's.
        adversary_from: share of the budget after which the discriminator takes part.
    """

    frames: int = 32
    batch: int = 12
    rate: float = 1e-3
    mel: float = 1.0
    fooling: float = 0.1
    matching: float = 1.0
    decoded_from: float = 0.6
    adversary_from: float = 0.3


class VocoderTask:
    """Trains a vocoder on pieces of speech.

    Args:
        vocoder: the vocoder, on ``device``.
        codec: frozen, on ``device``; its mels are used towards the end. ``None`` for none.
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
        codec: DVAE | None,
        discriminator: Discriminator | None,
        corpus: Utterances,
        device: torch.device,
        seed: int,
        settings: VocoderSettings = VocoderSettings(),
    ) -> None:
        self.vocoder, self.codec, self.discriminator = vocoder, codec, discriminator
        self.corpus, self.device = corpus, device
        self.seed, self.settings = seed, settings
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

    def batch(self, step: int) -> Tensor:
        """Return the samples [B, n] of a step, on the CPU."""
        generator = generator_for(torch.device("cpu"), self.seed, step)
        chosen = window(step, self.settings.batch, self.corpus)
        return pieces(chosen, self.settings.frames, generator)

    def objectives(self, batch: Tensor, moment: Moment) -> Iterator[Objective]:
        settings = self.settings
        samples = batch.to(self.device)
        mel = self.mel(samples)
        given = mel
        if self.codec is not None and moment.spent >= settings.decoded_from:
            half = len(mel) // 2
            given = torch.cat([mel[:half], self._decoded(self.codec, mel[half:])])
        found = self._spoken(given)

        judge = self.discriminator if moment.spent >= settings.adversary_from else None
        if judge is not None:
            loss = discriminator_loss(judge, found.detach(), samples)
            yield Objective({"discriminator": loss}, ("discriminator",))
        distance = mel_distance(self.mel(found), mel)
        losses = {
            "mel": settings.mel * distance,
            "spectral": spectral_distance(found, samples),
        }
        if judge is not None:
            fooling, matching = generator_losses(judge, found, samples)
            losses["fooling"] = settings.fooling * fooling
            losses["matching"] = settings.matching * matching
        yield Objective(
            losses, (NAME,), metrics={"mel_l1": distance}, counts={"samples": batch.numel()}
        )

    def _spoken(self, mel: Tensor) -> Tensor:
        """Return samples of a log-mel [B, n_mels, M]; the transform is computed in float32."""
        with autocast(self.device):
            features = self.vocoder.backbone(mel)
        samples: Tensor = self.vocoder.head(features.float())
        return samples

    def _decoded(self, codec: DVAE, mel: Tensor) -> Tensor:
        """Encode and decode a log-mel [B, n_mels, 2 T] with the codec."""
        with torch.no_grad():
            with autocast(self.device):
                features = codec.encoder(codec.downsample_conv(mel / codec.coef))
            features, _, _ = quantize(codec.vq_layer, features.float())
            with autocast(self.device):
                decoded: Tensor = codec(features)
        return decoded.float()


def load_vocoder(run: Run) -> Vocoder:
    """Load the trained vocoder of a run, frozen, on the run's device.

    Raises:
        AssetError: the vocoder is not trained yet.
    """
    vocoder = Vocoder(VOCODER)
    load_average(run.state(NAME), NAME, vocoder)
    return vocoder.to(run.device).eval().requires_grad_(False)


def main(run: Run) -> None:
    """Train the vocoder; the codec must have been trained."""
    torch.manual_seed(run.seed)
    codec = load_codec(run)
    vocoder = Vocoder(VOCODER).to(run.device)
    discriminator = Discriminator().to(run.device) if run.adversarial else None
    task = VocoderTask(vocoder, codec, discriminator, run.corpus, run.device, run.seed)
    train(
        task,
        run.out,
        run.budgets[NAME],
        device=run.device,
        seed=run.seed,
        origin={CODEC_NAME: checksum(codec)},
    )
