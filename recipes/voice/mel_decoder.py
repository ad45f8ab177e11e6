"""What a Decoder learns from, for every recipe: pieces of hidden states and mels, and the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ChatTTS.config import ConvNetConfig
from ChatTTS.model.dvae import MelDecoder

from .losses import mel_distance
from .training import Objective, autocast

# Hidden states [B, H, T], log-mels [B, n_mels, 2 T] and a mask [B, 2 T], 1 where a frame counts.
Pieces = tuple[Tensor, Tensor, Tensor]


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


def new_decoder(config: ConvNetConfig, codec: MelDecoder) -> MelDecoder:
    """Return an untrained decoder with the weights of the codec's decoder.

    The two have equal networks and outputs. Only the convolution that reads the input is new.
    """
    decoder = MelDecoder(config, codec.out_conv.out_channels)
    own, known = decoder.state_dict(), codec.state_dict()
    shared = {name: known[name] for name in own if not name.startswith("decoder.conv_in.0.")}
    decoder.load_state_dict({**own, **shared})
    return decoder


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
