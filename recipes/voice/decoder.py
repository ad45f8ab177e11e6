"""The stage ``decoder``: hidden states of the language model to log-mel.

Hidden states hold more than the codes that are drawn from them, so this sounds better than the
codec's own decoder. The language model reads the teacher's frames here. The state after a frame
knows that frame, so its mel is the right answer; after frames of its own it would not be.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ChatTTS.config import ConvNetConfig
from ChatTTS.errors import AssetError
from ChatTTS.model.dvae import MelDecoder
from ChatTTS.voice_learning.sequences import groups_of_similar_length

from .batches import speech_batch
from .checkpoints import checksum, load_average
from .codec import CODEC
from .codec import NAME as CODEC_NAME
from .coded import Coded, arranged_take, read_codes, read_space
from .features import MEL, fitted, log_mel
from .frozen import frozen_codec
from .gpt import NAME as GPT_NAME
from .gpt import load_gpt
from .language_model import NUM_CODES, SpeechModel
from .mel_decoder import (
    DecoderSettings,
    Pieces,
    cut_pieces,
    decoder_objective,
    drawn_places,
    new_decoder,
)
from .optimizing import muon_and_adamw
from .pieces import audible
from .prompts import Prompts
from .run import Run
from .takes import Takes
from .training import Moment, Objective, Schedule, autocast, generator_for, train
from .warm_start import is_warm, start_module

NAME = "decoder"
SETTINGS = DecoderSettings()
_POSITIONS = 4096  # of an inference pass, padding included
_REMEMBERED = 2 << 30  # bytes of hidden states and mels to keep
_SHARDS_OPEN = 16


def decoder_config(hidden: int) -> ConvNetConfig:
    """Return the decoder's sizes for a language model of width ``hidden``.

    All but the input's width equal those of the codec's decoder.
    """
    return replace(CODEC.decoder, idim=hidden // 2)


@dataclass(frozen=True, eq=False)
class Shown:
    """An utterance as the Decoder learns it.

    Attributes:
        hidden: float16 [frames, hidden].
        mel: float16 [n_mels, 2 frames].
    """

    hidden: Tensor
    mel: Tensor

    @property
    def nbytes(self) -> int:
        return self.hidden.nbytes + self.mel.nbytes


class Gallery:
    """Utterances of which both the codes and the speech are there.

    Args:
        model: the language model, frozen.
        speech: folder of the takes.
        codes: folder of their codes.
        seed: of the arrangement of the takes.
        device: to compute on.

    Raises:
        AssetError: there are none.
    """

    def __init__(
        self, model: SpeechModel, speech: Path, codes: Path, seed: int, device: torch.device
    ) -> None:
        self._model, self._speech, self._codes = model, speech, codes
        self._seed, self._device = seed, device
        self._prompts, self._mel = Prompts(), log_mel(device)
        self._places = read_space(codes)
        spoken = {path.stem for path in speech.glob("[0-9]*.json")}
        self._names = sorted(spoken & {path.stem for path in codes.glob("[0-9]*.npz")})
        if not self._names:
            raise AssetError(f"{codes} has no codes of the speech in {speech}")
        self._open: OrderedDict[str, tuple[Takes, list[Coded]]] = OrderedDict()
        self._kept: dict[tuple[str, int], Shown] = {}
        self._room = _REMEMBERED

    def drawn(self, count: int, generator: torch.Generator) -> list[tuple[str, int]]:
        """Return the names of ``count`` utterances: their shard and their place in it.

        They come from one shard, so that few files are read.
        """
        shard = int(torch.randint(len(self._names), (), generator=generator))
        name = self._names[shard]
        size = len(self._shard(name)[1])
        order = torch.randperm(size, generator=generator)[:count].tolist()
        return [(name, index) for index in order]

    def show(self, keys: Sequence[tuple[str, int]]) -> list[Shown]:
        """Return utterances; they are kept while there is room."""
        missing = [key for key in keys if key not in self._kept]
        made = dict(zip(missing, self._made(missing), strict=True)) if missing else {}
        for key, shown in made.items():
            if shown.nbytes <= self._room:
                self._kept[key] = shown
                self._room -= shown.nbytes
        return [made[key] if key in made else self._kept[key] for key in keys]

    def _shard(self, name: str) -> tuple[Takes, list[Coded]]:
        if name not in self._open:
            coded = read_codes(self._codes / f"{name}.npz", self._places)
            self._open[name] = Takes(self._speech, name), coded
            if len(self._open) > _SHARDS_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(name)
        return self._open[name]

    @torch.no_grad()
    def _made(self, keys: Sequence[tuple[str, int]]) -> list[Shown]:
        items = [self._shard(name)[1][index] for name, index in keys]
        sequences = [self._prompts.speech(item) for item in items]
        hiddens: dict[int, Tensor] = {}
        for part in groups_of_similar_length([len(s) for s in sequences], _POSITIONS):
            batch = speech_batch([sequences[i] for i in part], NUM_CODES).to(self._device)
            with autocast(self._device):
                hiddens.update(zip(part, self._model.hiddens(batch), strict=True))
        return [
            Shown(hiddens[place].half().cpu(), self._target(key, len(hiddens[place])))
            for place, key in enumerate(keys)
        ]

    def _target(self, key: tuple[str, int], frames: int) -> Tensor:
        name, index = key
        utterance = arranged_take(self._shard(name)[0][index], self._seed, int(name), index)
        whole = fitted(np.ascontiguousarray(utterance.samples), frames)
        return audible(self._mel(whole[None].to(self._device))[0]).half().cpu()


class DecoderTask:
    """Trains a decoder on what a language model makes of the corpus.

    Args:
        decoder: on ``device``.
        gallery: the utterances.
        device: to compute on.
        seed: of the choice of pieces.
        settings: the training's settings.
    """

    name = NAME

    def __init__(
        self,
        decoder: MelDecoder,
        gallery: Gallery,
        device: torch.device,
        seed: int,
        settings: DecoderSettings = SETTINGS,
    ) -> None:
        self.decoder, self.gallery, self.device = decoder, gallery, device
        self.seed, self.settings = seed, settings
        self.modules: Mapping[str, nn.Module] = {NAME: decoder}
        self.optimizers: Mapping[str, Optimizer] = muon_and_adamw(decoder, settings.rate)

    def batch(self, step: int) -> Pieces:
        """Return the pieces of a step."""
        generator = generator_for(torch.device("cpu"), self.seed, step)
        keys = self.gallery.drawn(self.settings.batch, generator)
        shown = self.gallery.show(keys)
        places = drawn_places(len(shown), generator)
        hiddens, mels = [one.hidden for one in shown], [one.mel for one in shown]
        return cut_pieces(hiddens, mels, places, self.settings.frames, self.device)

    def objectives(self, batch: Pieces, moment: Moment) -> Iterator[Objective]:
        """Yield the one update of a step."""
        yield decoder_objective(self.decoder, batch, self.settings, self.device)


def load_decoder(run: Run, hidden: int) -> MelDecoder:
    """Load the trained decoder of a run, frozen, on the run's device.

    Raises:
        AssetError: the decoder is not trained yet.
    """
    decoder = MelDecoder(decoder_config(hidden), MEL.n_mels)
    load_average(run.state(NAME), NAME, decoder)
    return decoder.to(run.device).eval().requires_grad_(False)


def main(run: Run) -> None:
    """Train the decoder on the trained language model's hidden states."""
    codec, model = frozen_codec(run), load_gpt(run)
    origin = {CODEC_NAME: checksum(codec), GPT_NAME: checksum(model)}
    torch.manual_seed(run.seed)
    hidden = model.sizes.hidden
    decoder = new_decoder(decoder_config(hidden), codec)
    if is_warm(run, NAME):
        start_module(run, decoder, "Decoder.safetensors")
    codes = run.codes(origin[CODEC_NAME])
    gallery = Gallery(model, run.speech, codes, run.seed, run.device)
    task = DecoderTask(
        decoder.to(run.device).train().requires_grad_(True), gallery, run.device, run.seed
    )
    train(
        task,
        run.out,
        run.budgets[NAME],
        device=run.device,
        seed=run.seed,
        schedule=Schedule(warmup=20),
        origin=origin,
        clock=run.clock,
    )
