"""The stage ``decoder``: hidden states of the language model to sound.

Hidden states hold more than the codes that are drawn from them, so this sounds better than the
codec's own decoder. The language model is frozen, and reads the teacher's frames.

The Decoder learns log-mels first. Then a discriminator looks at these, since their average over all
that a state leaves open is muffled. In the last part the vocoder takes part: it learns from the
Decoder's mels, its discriminator hears the sound, and both networks are moved by what it hears.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from ChatTTS.config import ConvNetConfig
from ChatTTS.model.dvae import MelDecoder
from ChatTTS.model.synthesis.vocoder import Vocoder
from ChatTTS.weights.tensors import load_module, read_tensors

from .adversary import Discriminator, discriminator_loss, generator_losses
from .checkpoints import checksum, load_average
from .codec import CODEC
from .codec import NAME as CODEC_NAME
from .excerpts import Excerpts, ExcerptSource
from .features import MEL, log_mel
from .frozen import frozen_codec
from .gpt import NAME as GPT_NAME
from .gpt import load_gpt
from .language_model import SpeechModel
from .losses import blurred_distance, mel_distance, spectral_distance
from .mel_decoder import new_decoder
from .mel_judge import MelJudge
from .optimizing import muon_and_adamw
from .pieces import audible
from .run import Run, train_stage
from .training import Moment, Objective, Schedule, autocast, sound_autocast
from .vocoder import NAME as VOCODER_NAME
from .vocoder import VOCODER, load_vocoder, vocoder_settings
from .warm_start import start_module

NAME = "decoder"
JUDGES_FILE = "judges.safetensors"
_JUDGE, _DISCRIMINATOR = "judge", "discriminator"


@dataclass(frozen=True)
class DecoderSettings:
    """The settings of the Decoder's training.

    Attributes:
        frames: code frames of an excerpt.
        batch: excerpts of a step.
        each: excerpts of an utterance.
        heard: excerpts of a step that the vocoder speaks in the last part; it and its discriminator
            take most of the time of a CPU.
        blurred: weight of the loss on mels averaged over several frames.
        looking, matching_looks: weights of the losses of the discriminator of mels.
        hearing, matching_sounds: weights of the losses of the discriminator of sound.
        looked_from: share of the budget after which the discriminator of mels takes part.
        heard_from: share of the budget after which vocoder and sound take part.
        alone: steps at the beginning in which only discriminators learn.
        rate, vocoder_rate, judging_rate: learning rates of the Decoder, the vocoder, and both
            discriminators.
    """

    frames: int = 48
    batch: int = 16
    each: int = 4
    heard: int = 8
    blurred: float = 0.5
    looking: float = 0.02
    matching_looks: float = 0.2
    hearing: float = 0.1
    matching_sounds: float = 1.0
    looked_from: float = 0.3
    heard_from: float = 0.5
    alone: int = 0
    rate: float = 1e-3
    vocoder_rate: float = 3e-4
    judging_rate: float = 5e-4


ON_GPU = DecoderSettings(batch=32, each=1, heard=32)
_WARM_STEPS = 100  # in which the rates of known networks rise
_ALONE = 400  # steps of discriminators that learn from nothing beside known networks


def warm(settings: DecoderSettings, reads_other_states: bool = False) -> DecoderSettings:
    """Return the settings for known networks: all parts learn from the beginning, and slower.

    Args:
        settings: those for new networks.
        reads_other_states: the language model was trained further. Its states are others now, and
            the Decoder follows them by itself, with mels and their discriminator: through the
            sound it would lose more than it learns.
    """
    known = replace(settings, looked_from=0.0, heard_from=0.0, rate=3e-4, vocoder_rate=2e-4)
    return replace(known, heard_from=math.inf) if reads_other_states else known


def decoder_config(hidden: int) -> ConvNetConfig:
    """Return the Decoder's sizes for a language model of width ``hidden``.

    All but the input's width equal those of the codec's decoder.
    """
    return replace(CODEC.decoder, idim=hidden // 2)


class DecoderTask:
    """Trains Decoder and vocoder on what a language model makes of the teacher's speech.

    Args:
        model: the language model, frozen, on ``device``.
        decoder, vocoder: the networks to train, on ``device``.
        judge: the discriminator of mels, on ``device``.
        discriminator: of sound, on ``device``.
        source: of the excerpts.
        device: to compute on.
        settings: the training's settings.
    """

    name = NAME

    def __init__(
        self,
        model: SpeechModel,
        decoder: MelDecoder,
        vocoder: Vocoder,
        judge: MelJudge,
        discriminator: Discriminator,
        source: ExcerptSource,
        device: torch.device,
        settings: DecoderSettings = DecoderSettings(),
    ) -> None:
        self.model, self.decoder, self.vocoder = model, decoder, vocoder
        self.judge, self.discriminator = judge, discriminator
        self.batch, self.device, self.settings = source, device, settings
        self.mel = log_mel(device)
        self.modules: Mapping[str, nn.Module] = {
            NAME: decoder,
            VOCODER_NAME: vocoder,
            _JUDGE: judge,
            _DISCRIMINATOR: discriminator,
        }
        own = muon_and_adamw(decoder, settings.rate)
        self._own = tuple(own)
        self.optimizers: Mapping[str, Optimizer] = {
            **own,
            VOCODER_NAME: AdamW(vocoder.parameters(), lr=settings.vocoder_rate, betas=(0.8, 0.98)),
            _JUDGE: AdamW(judge.parameters(), lr=settings.judging_rate, betas=(0.8, 0.9)),
            _DISCRIMINATOR: AdamW(
                discriminator.parameters(), lr=settings.judging_rate, betas=(0.8, 0.9)
            ),
        }

    def objectives(self, batch: Excerpts, moment: Moment) -> Iterator[Objective]:
        """Yield the updates of a step."""
        settings = self.settings
        excerpts = batch.to(self.device)
        mel = audible(self.mel(excerpts.samples))
        with sound_autocast(self.device):
            decoded = self.decoder(self._states(excerpts))
        decoded = decoded.float()
        found, wanted = decoded / self.decoder.coef, mel / self.decoder.coef
        losses = {
            "mel": mel_distance(found, wanted),
            "blurred": settings.blurred * blurred_distance(found, wanted),
        }
        if moment.spent >= settings.looked_from:
            loss = discriminator_loss(self.judge, found.detach(), wanted)
            yield Objective({_JUDGE: loss}, (_JUDGE,))
            fooling, matching = generator_losses(self.judge, found, wanted)
            losses["looking"] = settings.looking * fooling
            losses["matching_looks"] = settings.matching_looks * matching
        trained = self._own
        if moment.spent >= settings.heard_from:
            # Some of the real mels keep the vocoder good for other mels than the Decoder's.
            heard, kept = slice(settings.heard), slice(settings.heard // 4)
            given = torch.cat([decoded[heard], mel[kept]])
            target = torch.cat([mel[heard], mel[kept]])
            samples = torch.cat([excerpts.samples[heard], excerpts.samples[kept]])
            with sound_autocast(self.device):
                features = self.vocoder.backbone(given)
            sound = self.vocoder.head(features.float())
            loss = discriminator_loss(self.discriminator, sound.detach(), samples)
            yield Objective({_DISCRIMINATOR: loss}, (_DISCRIMINATOR,))
            hearing, matching = generator_losses(self.discriminator, sound, samples)
            losses["heard_mel"] = mel_distance(audible(self.mel(sound)), target)
            losses["spectral"] = spectral_distance(sound, samples)
            losses["hearing"] = settings.hearing * hearing
            losses["matching_sounds"] = settings.matching_sounds * matching
            trained = (*trained, VOCODER_NAME)
        if moment.step < settings.alone:
            return
        yield Objective(
            losses,
            trained,
            metrics={"mel_l1": mel_distance(decoded, mel)},
            counts={"samples": batch.samples.numel()},
        )

    @torch.no_grad()
    def _states(self, excerpts: Excerpts) -> Tensor:
        """Return the hidden states of the excerpts, float32 [B, hidden, frames]."""
        context = sound_autocast if self.device.type == "cuda" else autocast
        with context(self.device):
            hidden = self.model.speech(excerpts.whole)[0]
        frames = torch.arange(self.settings.frames, device=self.device)
        places = excerpts.firsts[:, None] + frames
        return hidden.float()[excerpts.rows[:, None], places].transpose(1, 2)


def load_decoder(run: Run, hidden: int) -> tuple[MelDecoder, Vocoder]:
    """Load the trained Decoder of a run and the vocoder that learned with it, frozen.

    Raises:
        AssetError: the Decoder is not trained yet.
    """
    decoder, vocoder = MelDecoder(decoder_config(hidden), MEL.n_mels), Vocoder(VOCODER)
    load_average(run.state(NAME), NAME, decoder)
    load_average(run.state(NAME), VOCODER_NAME, vocoder)
    return (
        decoder.to(run.device).eval().requires_grad_(False),
        vocoder.to(run.device).eval().requires_grad_(False),
    )


def write_judges(run: Run, path: Path) -> None:
    """Write the discriminators of a trained Decoder in float16, for a run that goes on from it."""
    tensors = read_tensors(run.state(NAME))
    kept = {
        name.removeprefix("average/"): value.half()
        for name, value in tensors.items()
        if name.startswith((f"average/{_JUDGE}/", f"average/{_DISCRIMINATOR}/"))
    }
    save_file(kept, path)


def read_judges(path: Path) -> tuple[MelJudge, Discriminator]:
    """Return the discriminators of mels and of sound that :func:`write_judges` wrote.

    Raises:
        AssetError: the file has other weights.
    """
    found: dict[str, dict[str, Tensor]] = {_JUDGE: {}, _DISCRIMINATOR: {}}
    for name, value in read_tensors(path).items():
        part, _, key = name.partition("/")
        found.setdefault(part, {})[key] = value
    # Its first layer tells how wide the discriminator is: a CPU may go on with that of a GPU.
    bias = found[_DISCRIMINATOR].get("judges.0.layers.0.bias", torch.zeros(1))
    judges = MelJudge(), Discriminator(len(bias))
    load_module(judges[0], found[_JUDGE], file=path)
    load_module(judges[1], found[_DISCRIMINATOR], file=path)
    return judges


def main(run: Run) -> None:
    """Train Decoder and vocoder on the trained language model's hidden states."""
    codec, model = frozen_codec(run), load_gpt(run)
    origin = {CODEC_NAME: checksum(codec), GPT_NAME: checksum(model)}
    torch.manual_seed(run.seed)
    decoder = new_decoder(decoder_config(model.sizes.hidden), codec)
    vocoder, judge = Vocoder(VOCODER), MelJudge()
    discriminator = Discriminator(vocoder_settings(run).channels)
    settings, warmup = ON_GPU if run.on_gpu else DecoderSettings(), 20
    if run.known is None:
        vocoder = load_vocoder(run).requires_grad_(True)
        load_average(run.state(VOCODER_NAME), _DISCRIMINATOR, discriminator)
    else:
        start_module(run, decoder, "Decoder.safetensors")
        start_module(run, vocoder, "Vocos.safetensors")
        settings = warm(settings, reads_other_states=run.state(GPT_NAME).exists())
        warmup = _WARM_STEPS
        file = run.known.with_name(JUDGES_FILE)
        if file.exists():
            judge, discriminator = read_judges(file)
        else:
            settings = replace(settings, alone=_ALONE)
    codes = run.codes(origin[CODEC_NAME])
    source = ExcerptSource(
        run.speech, codes, run.seed, run.seed + 1, settings.batch, settings.frames, settings.each
    )
    task = DecoderTask(
        model,
        decoder.to(run.device).requires_grad_(True),
        vocoder.to(run.device),
        judge.to(run.device),
        discriminator.to(run.device),
        source,
        run.device,
        settings,
    )
    train_stage(run, task, Schedule(warmup=warmup), origin)
