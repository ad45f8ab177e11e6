"""The stage ``gpt``: the language model learns from phonemes and codes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import AdamW, Optimizer

from ChatTTS.voice_learning.sequences import IGNORED

from .batches import Mixture, SpeechBatch, Steps
from .checkpoints import checksum, load_average
from .codec import NAME as CODEC_NAME
from .corpus import read_lines
from .frames import with_own_frames
from .frozen import frozen_codec
from .gpt_losses import GPTSettings, code_losses
from .growing import GrowingCorpus, LatestCorpus
from .language_model import NUM_CODES, SIZES, SpeechModel
from .muon import Muon
from .prompts import Prompts
from .refining import RefinePairs
from .run import Run, train_stage
from .text_batches import TextBatch
from .training import Moment, Objective, autocast
from .warm_start import is_warm, start_language_model

logger = logging.getLogger(__name__)

NAME = "gpt"
# All four codes of a frame are of one kind, so they weigh alike.
SETTINGS = GPTSettings(codebook_weights=(1.0, 1.0, 1.0, 1.0))
GPU_POSITIONS = 32768  # of a step
_WAIT_SECONDS = 20.0


def warm(settings: GPTSettings, on_gpu: bool = False) -> GPTSettings:
    """Return the settings for a known model.

    It reads its own frames well enough from the beginning, and at full rates the first steps would
    undo more than hours of a CPU bring back. The large steps of a GPU bear higher ones; there all
    speech is read many times, and without dropout the model learns it by heart.
    """
    warmed = replace(settings, own_from=0.0, matrix_rate=4e-4, rate=2e-4)
    return replace(warmed, matrix_rate=1.6e-3, rate=8e-4, dropout=0.1) if on_gpu else warmed


def sound_loss(model: SpeechModel, inner: Tensor, sounds: Tensor) -> Tensor:
    """Return the cross-entropy of the predicted frames' symbols and of those behind them.

    Args:
        model: with the head that reads them.
        inner: hidden states [n, hidden] of an inner layer.
        sounds: int64 [n, 2].
    """
    logits = model.sounds(inner).float().unflatten(-1, (2, -1))
    return cross_entropy(logits.flatten(0, 1), sounds.flatten(), ignore_index=IGNORED)


def text_loss(model: SpeechModel, batch: TextBatch) -> Tensor:
    """Return the cross-entropy of the refined texts."""
    wanted = batch.targets != IGNORED
    logits = model.embed.text_logits(model.text(batch)[wanted])[:, 0]
    return cross_entropy(logits, batch.targets[wanted])


def mixture_for(run: Run) -> Mixture:
    """Return the composition of a run's steps; on a GPU texts are refined twice as often."""
    mixture = Mixture()
    positions = run.positions or (GPU_POSITIONS if run.on_gpu else mixture.positions)
    every = mixture.refine_every // 2 if run.on_gpu else mixture.refine_every
    return replace(
        mixture, positions=positions, refine_positions=3 * positions // 8, refine_every=every
    )


@dataclass
class GPTTask:
    """The language model's task for ``training.train``.

    Attributes:
        model: the model, on its device.
        steps: the data.
        settings: the training's settings.
        losses: :func:`~.gpt_losses.code_losses`, or its compiled form.
    """

    model: SpeechModel
    steps: Steps
    settings: GPTSettings = SETTINGS
    losses: Callable[..., tuple[dict[str, Tensor], dict[str, Tensor]]] = code_losses
    name: str = NAME
    batch: Callable[[int], tuple[SpeechBatch, TextBatch | None]] = field(init=False)
    modules: Mapping[str, nn.Module] = field(init=False)
    optimizers: Mapping[str, Optimizer] = field(init=False)

    def __post_init__(self) -> None:
        self.batch = self.steps.both
        self.modules = {NAME: self.model}
        matrices = [p for p in self.model.llama.parameters() if p.ndim == 2]
        chosen = {id(p) for p in matrices}
        others = [p for p in self.model.parameters() if id(p) not in chosen]
        settings = self.settings
        self.optimizers = {
            "matrices": Muon(matrices, lr=settings.matrix_rate),
            "others": AdamW(others, lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.0),
        }

    def objectives(
        self, batch: tuple[SpeechBatch, TextBatch | None], moment: Moment
    ) -> Iterator[Objective]:
        """Yield the one update of a step."""
        device = self.model.embed.code.weight.device
        settings = self.settings
        speech = batch[0].to(device)
        if moment.spent >= settings.own_from:
            speech = with_own_frames(
                self.model,
                speech,
                settings.own_frames,
                settings.own_temperature,
                moment.generator,
            )
        wanted = speech.targets[..., 0] != IGNORED
        with autocast(device):
            hidden, inner, guided = self.model.speech(speech, settings.guided_heads)
            logits = self.model.embed.code_logits(hidden[wanted])
            sounds = sound_loss(self.model, inner[wanted], speech.sounds[wanted])
        losses, metrics = self.losses(logits, speech.targets[wanted], settings)
        losses["attention"] = settings.guidance_weight * guided
        losses["sounds"] = settings.sound_weight * sounds
        counts = {"positions": speech.tokens}
        if batch[1] is not None:
            text = batch[1].to(device)
            with autocast(device):
                loss = text_loss(self.model, text)
            losses["refine"] = settings.refine_weight * loss
            counts["positions"] += text.ids.numel()
        yield Objective(losses, metrics=metrics, counts=counts)


def load_gpt(run: Run) -> SpeechModel:
    """Load the language model of a run, frozen, on the run's device.

    It is the trained one, or that of the known checkpoint where none was trained.

    Raises:
        AssetError: there is neither.
    """
    model = SpeechModel(SIZES[run.size])
    if is_warm(run, NAME):
        start_language_model(run, model)
    else:
        load_average(run.state(NAME), NAME, model)
    return model.to(run.device).eval().requires_grad_(False)


def main(run: Run) -> None:
    """Train the language model on the codes that there are, and on those that come meanwhile."""
    codec = checksum(frozen_codec(run))
    folder = run.codes(codec)
    noted = GrowingCorpus(folder, run.out / "log" / f"corpus-{codec}.jsonl")
    # Processes that prepare batches look for codes by themselves.
    corpus = LatestCorpus(folder) if run.workers else noted.at
    while not corpus(0):
        logger.info("gpt: waiting for the first codes in %s", folder)
        time.sleep(_WAIT_SECONDS)
    torch.manual_seed(run.seed)
    settings = SETTINGS if run.known is None else warm(SETTINGS, run.on_gpu)
    model = SpeechModel(SIZES[run.size], settings.dropout).to(run.device)
    if is_warm(run, NAME):
        start_language_model(run, model)
    losses = code_losses
    if run.compiled:
        model.llama.compile_layers()
        losses = torch.compile(code_losses, dynamic=True)
    pairs = RefinePairs(run.seed, [line.text for line in read_lines(run.lines)["en"]])
    steps = Steps(corpus, pairs, Prompts(), NUM_CODES, seed=run.seed, mixture=mixture_for(run))
    task = GPTTask(model, steps, settings, losses)
    train_stage(run, task, origin={CODEC_NAME: codec})
