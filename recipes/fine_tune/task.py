"""The stage ``train``: low-rank products that make the recordings likely."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from torch import nn
from torch.optim import AdamW, Optimizer

from ChatTTS.voice_learning.sequences import IGNORED, CodeSequence, code_batch

from ..voice.checkpoints import load_average
from ..voice.frames import corrupted, with_own_frames
from ..voice.gpt_losses import GPTSettings, code_losses
from ..voice.training import Moment, Objective, Schedule, autocast, train
from .corpus import Corpus, Line, path_of, sequences_of
from .model import TunedModel, VoicedBatch, voiced
from .run import Run, Settings

logger = logging.getLogger(__name__)

NAME = "adapter"
_PUBLISHED_CODEBOOKS = 4  # for which the bundled voice's recipe has weights


class Steps:
    """The batches of a run, by step number: recordings, and speech of the base among them.

    Args:
        own, base: sequences with their speakers; ``base`` may be empty.
        end: the code that ends an utterance.
    """

    def __init__(
        self,
        own: Sequence[tuple[CodeSequence, Line]],
        base: Sequence[tuple[CodeSequence, Line]],
        end: int,
        settings: Settings,
    ) -> None:
        self._own, self._base, self._end, self._settings = own, base, end, settings

    def __call__(self, step: int) -> VoicedBatch:
        """Return the batch of a step, a function of the seed and the number."""
        settings = self._settings
        rng = np.random.default_rng((settings.seed, step))
        chosen: list[tuple[CodeSequence, Line]] = []
        longest = 0
        while True:
            is_base = bool(self._base) and rng.random() < settings.rehearsal
            pool = self._base if is_base else self._own
            one = pool[int(rng.integers(len(pool)))]
            longest = max(longest, len(one[0]))
            if chosen and longest * (len(chosen) + 1) > settings.tokens:
                break
            chosen.append(one)
        sequences = [sequence for sequence, _ in chosen]
        frames = np.concatenate([s.codes for s in sequences])
        read = [corrupted(s.codes, frames, self._end, settings.corruption, rng) for s in sequences]
        batch = code_batch(sequences, self._end, read)
        return voiced(batch, [line.speaker for _, line in chosen])


class AdapterTask:
    """The task of ``training.train``."""

    name = NAME

    def __init__(self, model: TunedModel, steps: Steps, settings: Settings) -> None:
        self.model, self.steps, self.settings = model, steps, settings
        self.losses = loss_settings(model.embed.num_codebooks)
        self.modules: Mapping[str, nn.Module] = {NAME: model.weights}
        self.optimizers: Mapping[str, Optimizer] = {
            "adamw": AdamW(
                model.weights.parameters(), lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.0
            )
        }

    def batch(self, step: int) -> VoicedBatch:
        return self.steps(step)

    def objectives(self, batch: VoicedBatch, moment: Moment) -> Iterator[Objective]:
        """Yield the one update of a step."""
        settings, device = self.settings, self.model.language_model.device
        speech = batch.to(device)
        if settings.own_frames:
            speech = with_own_frames(
                self.model,
                speech,
                settings.own_frames,
                settings.own_temperature,
                moment.generator,
            )
        wanted = speech.targets[..., 0] != IGNORED
        with autocast(device):
            (hidden,) = self.model.speech(speech)
            logits = self.model.embed.code_logits(hidden[wanted])
        losses, metrics = code_losses(logits, speech.targets[wanted], self.losses)
        yield Objective(losses, metrics=metrics, counts={"tokens": speech.tokens})


def loss_settings(num_codebooks: int) -> GPTSettings:
    """Return the weights of the losses: those of the bundled voice, or equal ones elsewhere."""
    if num_codebooks == _PUBLISHED_CODEBOOKS:
        return GPTSettings()
    return GPTSettings(codebook_weights=(1.0,) * num_codebooks)


def main(run: Run) -> bool:
    """Train until the budget is spent; return whether it is."""
    run.keep_settings()
    corpus, settings, chat = Corpus.read(path_of(run)), run.settings, run.load()
    model = TunedModel(run.language_model(), settings)
    own, base = (
        list(zip(sequences_of(chat, lines), lines, strict=True))
        for lines in (corpus.own, corpus.base if settings.rehearsal else ())
    )
    chat.unload()  # the cores are the training's now
    steps = Steps(own, base, model.language_model.end, settings)
    return train(
        AdapterTask(model, steps, settings),
        run.out,
        run.budget,
        device=run.device,
        seed=settings.seed,
        schedule=Schedule(warmup=10, decay=0.5),
        keep=0.98,
        log_every=10,
        save_seconds=60.0,
    )


def load_tuned(run: Run) -> TunedModel:
    """Load the trained products of a run, averaged over the last steps.

    Raises:
        AssetError: nothing is trained yet.
    """
    model = TunedModel(run.language_model(), run.settings)
    load_average(run.out / f"{NAME}.safetensors", NAME, model.weights)
    return model
