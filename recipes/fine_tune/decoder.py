"""The stage ``decoder``: the checkpoint's Decoder, tuned so that it renders the recordings.

The codec was trained on other voices, and its copies of a new one may be hardly like it. Codes and
hidden states still tell one voice from the others. So the Decoder learns the sound of the
recordings themselves from the hidden states of the language model with the adapter, which reads
the recordings' codes. Speech of the base is mixed in, as the untuned Decoder renders it: with the
hidden states of the base, and with those of the adapter, which a merged checkpoint has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from ChatTTS.config import Config
from ChatTTS.core import Chat
from ChatTTS.errors import AssetError, VoiceError
from ChatTTS.model.dvae import MelDecoder
from ChatTTS.model.mel import LogMel
from ChatTTS.voice_learning.language_model import LanguageModel
from ChatTTS.voice_learning.recordings import read_recordings
from ChatTTS.voice_learning.sequences import code_batch, groups_of_similar_length
from ChatTTS.weights.tensors import load_module, read_tensors

from ..voice.checkpoints import checksum, load_average, read_origin
from ..voice.evaluation.speech_metrics import Samples
from ..voice.features import fitted
from ..voice.frames import frame_states
from ..voice.mel_decoder import DecoderSettings, Pieces, cut_pieces, decoder_objective, drawn_places
from ..voice.training import Moment, Objective, Schedule, generator_for, train
from ..voice.units import HOP
from .corpus import Corpus, Line, path_of, sequences_of
from .model import TunedModel
from .run import Run
from .task import NAME as ADAPTER_NAME
from .task import load_tuned

logger = logging.getLogger(__name__)

NAME = "decoder"
_POSITIONS = 4096  # of a pass of the language model, padding included


@dataclass(frozen=True, eq=False)
class Example:
    """An utterance as the language model's states, and as the sound that they shall become.

    Attributes:
        hidden: float16 [frames, hidden].
        mel: log-mel, float32 [n_mels, 2 * frames].
    """

    hidden: Tensor
    mel: Tensor


class DecoderTuning:
    """The task of ``training.train``.

    Args:
        decoder: on ``device``.
        own: of the recordings.
        base: of the base's speech; may be empty.
        rehearsal: share of the pieces that are of the base's speech.
    """

    name = NAME

    def __init__(
        self,
        decoder: MelDecoder,
        own: Sequence[Example],
        base: Sequence[Example],
        device: torch.device,
        *,
        seed: int,
        rehearsal: float,
        settings: DecoderSettings,
    ) -> None:
        self.decoder, self.device, self.settings = decoder, device, settings
        self._own, self._base = own, base
        self._seed, self._rehearsal = seed, rehearsal
        self.modules: Mapping[str, nn.Module] = {NAME: decoder}
        self.optimizers: Mapping[str, Optimizer] = {
            "adamw": AdamW(decoder.parameters(), lr=settings.rate, betas=(0.9, 0.98))
        }

    def batch(self, step: int) -> Pieces:
        """Return the pieces of a step, a function of the seed and the number, on the CPU."""
        rng = np.random.default_rng((self._seed, step))
        chosen = []
        for _ in range(self.settings.batch):
            is_base = bool(self._base) and rng.random() < self._rehearsal
            pool = self._base if is_base else self._own
            chosen.append(pool[int(rng.integers(len(pool)))])
        cpu = torch.device("cpu")
        return cut_pieces(
            [each.hidden for each in chosen],
            [each.mel for each in chosen],
            drawn_places(len(chosen), generator_for(cpu, self._seed, step)),
            self.settings.frames,
            cpu,
        )

    def objectives(self, batch: Pieces, moment: Moment) -> Iterator[Objective]:
        """Yield the one update of a step."""
        hiddens, mels, weights = (part.to(self.device) for part in batch)
        pieces = hiddens, mels, weights
        yield decoder_objective(self.decoder, pieces, self.settings, self.device)


def main(run: Run) -> bool:
    """Train until the budget is spent; return whether it is.

    Raises:
        AssetError: there is no adapter yet.
        VoiceError: the recordings are no longer those that were prepared.
    """
    run.keep_settings()
    corpus, settings, chat = Corpus.read(path_of(run)), run.settings, run.load()
    decoder = load_base_decoder(run)
    tuned = load_tuned(run)
    origin = {ADAPTER_NAME: checksum(tuned.weights)}
    kept = corpus.base if settings.rehearsal else ()
    own = own_examples(run, chat, tuned, corpus.own)
    base = base_examples(run, chat, tuned, decoder, kept)
    chat.unload()  # the cores are the training's now
    torch.manual_seed(settings.seed)
    task = DecoderTuning(
        decoder.to(run.device).requires_grad_(True),
        own,
        base,
        run.device,
        seed=settings.seed,
        rehearsal=settings.rehearsal,
        settings=DecoderSettings(rate=settings.decoder_rate),
    )
    return train(
        task,
        run.out,
        run.decoder_budget,
        device=run.device,
        seed=settings.seed,
        schedule=Schedule(warmup=10, decay=0.5),
        origin=origin,
        keep=0.98,
        log_every=10,
        save_seconds=60.0,
    )


def own_examples(
    run: Run, chat: Chat, tuned: TunedModel, lines: Sequence[Line]
) -> tuple[Example, ...]:
    """Return recordings with the states of the adapter.

    Raises:
        VoiceError: they are no longer those that were prepared.
    """
    waves = _recorded(run, lines)
    mel = LogMel(chat.config.vocos.mel)
    hiddens = hiddens_of(tuned.language_model, chat, lines)
    return tuple(
        Example(hidden.half(), mel(fitted(wave, len(hidden))[None])[0])
        for hidden, wave in zip(hiddens, waves, strict=True)
    )


def base_examples(
    run: Run, chat: Chat, tuned: TunedModel, decoder: MelDecoder, lines: Sequence[Line]
) -> tuple[Example, ...]:
    """Return the base's speech as its Decoder renders it, with both models' states."""
    if not lines:
        return ()
    plain = hiddens_of(run.language_model(), chat, lines)
    mels = [mel_of(decoder, hidden) for hidden in plain]
    adapted = hiddens_of(tuned.language_model, chat, lines)
    return tuple(
        Example(hidden.half(), mel)
        for hiddens in (plain, adapted)
        for hidden, mel in zip(hiddens, mels, strict=True)
    )


@torch.no_grad()
def hiddens_of(model: LanguageModel, chat: Chat, lines: Sequence[Line]) -> list[Tensor]:
    """Return the states from which a model that reads the lines' codes would draw these codes.

    Returns:
        For each line float32 [frames, hidden], on the CPU.
    """
    sequences = sequences_of(chat, lines)
    found: dict[int, Tensor] = {}
    for part in groups_of_similar_length([len(s) for s in sequences], _POSITIONS):
        batch = code_batch([sequences[i] for i in part], model.end).to(model.device)
        speakers = torch.from_numpy(np.stack([lines[i].speaker for i in part])).to(model.device)
        states = frame_states(model(batch, speakers), batch)
        found.update(zip(part, (each.cpu() for each in states), strict=True))
    return [found[index] for index in range(len(sequences))]


@torch.no_grad()
def mel_of(decoder: MelDecoder, hidden: Tensor) -> Tensor:
    """Return the log-mel [n_mels, 2 T] of hidden states [T, hidden], float32 on the CPU."""
    mel: Tensor = decoder(hidden.to(decoder.coef).T[None])[0]
    return mel.float().cpu()


def load_base_decoder(run: Run) -> MelDecoder:
    """Load the Decoder of the base, frozen, in float32 on the CPU.

    Raises:
        AssetError: its file cannot be used.
    """
    config = Config.from_file(run.folder.config)
    decoder = MelDecoder(config.decoder, config.vocos.mel.n_mels)
    load_module(decoder, read_tensors(run.folder.decoder), file=run.folder.decoder)
    return decoder.eval().requires_grad_(False)


def is_tuned(run: Run) -> bool:
    """Return whether the stage has begun in this run."""
    return _state(run).exists()


def load_tuned_decoder(run: Run, tuned: TunedModel) -> MelDecoder:
    """Load the tuned Decoder of a run, averaged over the last steps, frozen, on the CPU.

    Args:
        tuned: the adapter whose states it reads.

    Raises:
        AssetError: it is not trained yet, or has learned from another adapter.
    """
    decoder = load_base_decoder(run)
    load_average(_state(run), NAME, decoder)
    if read_origin(_state(run)).get(ADAPTER_NAME) != checksum(tuned.weights):
        raise AssetError(
            f"the Decoder in {run.out} learned from another adapter than the one there: give the "
            f"stage `{NAME}` more minutes to go on with this one, or delete {_state(run)}"
        )
    return decoder


def _state(run: Run) -> Path:
    return run.out / f"{NAME}.safetensors"


def _recorded(run: Run, lines: Sequence[Line]) -> list[Samples]:
    """Return the samples of lines that were recorded."""
    recordings = read_recordings(run.settings.recordings, run.settings.transcript)
    waves = {each.name: each.samples for each in recordings.kept}
    for line in lines:
        wave = waves.get(line.name)
        # As many frames as the encoder gives.
        if wave is None or (len(wave) // HOP + 1) // 2 != len(line.codes):
            raise VoiceError(
                f"{line.name} in {run.settings.recordings} is no longer the recording that was "
                f"prepared: put it back, or delete {path_of(run)} and begin anew"
            )
    return [waves[line.name] for line in lines]
