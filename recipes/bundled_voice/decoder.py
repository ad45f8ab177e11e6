"""The decoder stage: hidden states of the language model to log-mel, on the package's MelDecoder.

Hidden states contain more information than the codes that are drawn from them, so this decoder
sounds better than the codec's. The language model is passed in as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.optim import AdamW, Optimizer

from ChatTTS.config import ConvNetConfig
from ChatTTS.model.dvae import MelDecoder

from .checkpoints import load_average
from .codec import CODEC, load_codec
from .features import MEL, fitted, log_mel
from .losses import mel_distance
from .run import Run, Utterances, window
from .speakers import speaker_of
from .training import Moment, Objective, Schedule, autocast, generator_for, train
from .types import Spoken

NAME = "decoder"

# Maps utterances to the hidden states [T, H] from which their code frames were drawn, frame 0
# first. The states must not require gradients.
Hiddens = Callable[[Sequence[Spoken]], Sequence[Tensor]]
# Hidden states [B, H, T], log-mels [B, n_mels, 2 T] and a mask [B, 2 T], 1 where a frame counts.
Pieces = tuple[Tensor, Tensor, Tensor]
_REMEMBERED = 2 << 30  # bytes of hidden states to keep


@dataclass(frozen=True)
class DecoderSettings:
    """The settings of the decoder's training.

    They are the most code frames of a piece, the utterances of a step, the weight of the loss on
    differences between frames, and the learning rate.
    """

    frames: int = 192
    batch: int = 16
    change: float = 0.5
    rate: float = 1e-3


def decoder_config(hidden: int) -> ConvNetConfig:
    """Return the decoder's sizes for a language model of width ``hidden``.

    All but the input width equal those of the codec's decoder.
    """
    return replace(CODEC.decoder, idim=hidden // 2)


def new_decoder(config: ConvNetConfig, codec: MelDecoder) -> MelDecoder:
    """Return an untrained decoder with the weights of the codec's decoder.

    The two have equal networks and outputs. Only the convolution that reads the input is new.
    """
    decoder = MelDecoder(config, codec.out_conv.out_channels)
    own, known = decoder.state_dict(), codec.state_dict()
    shared = {name: known[name] for name in own if not name.startswith("decoder.conv_in.0.")}
    decoder.load_state_dict({**own, **shared})
    return decoder


class Remembered:
    """A cache of hidden states on the host.

    Without it, codec and language model would take most of the time of a step. States are kept in
    half precision, so those of a corpus of hours fit. States that do not fit are computed again.

    Args:
        hiddens: computes the states; its result for an utterance never changes.
        most: bytes to keep.
    """

    def __init__(self, hiddens: Hiddens, most: int = _REMEMBERED) -> None:
        self._hiddens, self._room = hiddens, most
        self._kept: dict[Hashable, Tensor] = {}

    def __call__(self, utterances: Sequence[Spoken]) -> Sequence[Tensor]:
        keys = [(u.text, u.voice, u.speed, speaker_of(u).point.tobytes()) for u in utterances]
        wanted = dict(zip(keys, utterances, strict=True))
        missing = [key for key in wanted if key not in self._kept]
        made = self._hiddens([wanted[key] for key in missing]) if missing else []
        found = {key: hidden.half().cpu() for key, hidden in zip(missing, made, strict=True)}
        for key, hidden in found.items():
            if hidden.nbytes <= self._room:
                self._kept[key] = hidden
                self._room -= hidden.nbytes
        return [found[key] if key in found else self._kept[key] for key in keys]


class DecoderTask:
    """Trains a decoder on what a language model makes of the corpus.

    Args:
        decoder: the decoder, on ``device``.
        hiddens: the language model.
        corpus: the speech.
        device: the device to compute on.
        seed: seed of the choice of pieces.
        settings: the training's settings.
    """

    name = NAME

    def __init__(
        self,
        decoder: MelDecoder,
        hiddens: Hiddens,
        corpus: Utterances,
        device: torch.device,
        seed: int,
        settings: DecoderSettings = DecoderSettings(),
    ) -> None:
        self.decoder, self.hiddens = decoder, hiddens
        self.corpus, self.device = corpus, device
        self.seed, self.settings = seed, settings
        self.mel = log_mel(device)
        self.modules: Mapping[str, nn.Module] = {NAME: decoder}
        self.optimizers: Mapping[str, Optimizer] = {
            "adamw": AdamW(decoder.parameters(), lr=settings.rate, betas=(0.9, 0.98))
        }

    def batch(self, step: int) -> tuple[list[Spoken], list[float]]:
        """Return the utterances, and the begin of each one's piece, from 0 (first) to 1 (last)."""
        generator = generator_for(torch.device("cpu"), self.seed, step)
        chosen = list(window(step, self.settings.batch, self.corpus))
        return chosen, drawn_places(len(chosen), generator)

    def objectives(
        self, batch: tuple[list[Spoken], list[float]], moment: Moment
    ) -> Iterator[Objective]:
        yield decoder_objective(self.decoder, self.cut(*batch), self.settings, self.device)

    def cut(self, utterances: Sequence[Spoken], places: Sequence[float]) -> Pieces:
        """Return a piece of each utterance, by the places where they begin."""
        hiddens = self.hiddens(utterances)
        wholes = [fitted(u.samples, len(h)) for u, h in zip(utterances, hiddens, strict=True)]
        mels = [self.mel(whole[None].to(self.device))[0] for whole in wholes]
        return cut_pieces(hiddens, mels, places, self.settings.frames, self.device)


def drawn_places(count: int, generator: torch.Generator) -> list[float]:
    """Return where pieces of so many utterances begin, from 0 (first) to 1 (last)."""
    # Drawn from beyond both ends, since beginnings and ends would be too rare otherwise.
    return (torch.rand(count, generator=generator) * 1.4 - 0.2).clamp(0.0, 1.0).tolist()


def cut_pieces(
    hiddens: Sequence[Tensor],
    mels: Sequence[Tensor],
    places: Sequence[float],
    frames: int,
    device: torch.device,
) -> Pieces:
    """Cut a piece of at most so many code frames out of each utterance.

    Args:
        hiddens: hidden states [T, H] of whole utterances.
        mels: their log-mels [n_mels, 2 T].
        places: where each piece begins, from 0 (first) to 1 (last).
    """
    inputs, wanted = [], []
    for hidden, mel, place in zip(hiddens, mels, places, strict=True):
        begin = round(place * max(0, len(hidden) - frames))
        end = begin + frames
        inputs.append(hidden[begin:end].to(device, torch.float32))
        wanted.append(mel[:, 2 * begin : 2 * end].T.to(device, torch.float32))
    weights = [torch.ones(len(mel), device=device) for mel in wanted]
    return (
        pad_sequence(inputs, batch_first=True).transpose(1, 2),
        pad_sequence(wanted, batch_first=True).transpose(1, 2),
        pad_sequence(weights, batch_first=True),
    )


def decoder_objective(
    decoder: MelDecoder, pieces: Pieces, settings: DecoderSettings, device: torch.device
) -> Objective:
    """Return the update that brings a decoder's mels of some pieces nearer to the wanted ones."""
    hiddens, wanted, weight = pieces
    with autocast(device):
        found = decoder(hiddens)
    found = found.float()
    coef = decoder.coef
    steady = weight[:, 1:] * weight[:, :-1]
    change = mel_distance((found / coef).diff(dim=2), (wanted / coef).diff(dim=2), steady)
    return Objective(
        {
            "mel": mel_distance(found / coef, wanted / coef, weight),
            "change": settings.change * change,
        },
        metrics={"mel_l1": mel_distance(found, wanted, weight)},
        counts={"frames": hiddens.shape[0] * hiddens.shape[2]},
    )


def load_decoder(run: Run, hidden: int) -> MelDecoder:
    """Load the trained decoder of a run, frozen, on the run's device.

    Raises:
        AssetError: the decoder is not trained yet.
    """
    decoder = MelDecoder(decoder_config(hidden), MEL.n_mels)
    load_average(run.state(NAME), NAME, decoder)
    return decoder.to(run.device).eval().requires_grad_(False)


def train_decoder(run: Run, hiddens: Hiddens, hidden: int, origin: Mapping[str, str]) -> None:
    """Train the decoder on the hidden states, of width ``hidden``, of a trained language model.

    Args:
        origin: checksums of the stages that make the hidden states.
    """
    torch.manual_seed(run.seed)
    decoder = new_decoder(decoder_config(hidden), load_codec(run))
    known = Remembered(hiddens)
    task = DecoderTask(decoder.to(run.device), known, run.corpus, run.device, run.seed)
    train(
        task,
        run.out,
        run.budgets[NAME],
        device=run.device,
        seed=run.seed,
        schedule=Schedule(warmup=20),
        origin=origin,
    )
