"""The settings of the language model's training, and the losses of the frames that it predicts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ChatTTS.voice_learning.sequences import codebook_losses


@dataclass(frozen=True)
class GPTSettings:
    """The settings of the language model's training.

    Attributes:
        codebook_weights: weights of the four codebooks' losses. The residual codes hardly matter
            to the ear.
        end_weight: weight of the binary loss on the end. Any of the four heads can end an
            utterance, and those of the residual codes are nearly uniform. Without this loss, some
            of them rank the end first.
        guidance_weight, guided_heads: weight of the loss that makes heads of two layers attend to
            the character being spoken, and the number of these heads.
        sound_weight: weight of the loss on the teacher's sound, predicted from an inner layer. The
            names of sounds teach the sounds of letters sooner than codes do, since codes hold
            everything else as well.
        refine_weight: weight of the loss on the refine pass.
        own_frames, own_temperature, own_from: once the share ``own_from`` of the budget is spent, a
            share of the frames that the model reads is replaced by frames that it draws itself, at
            this temperature. For each sequence this share is drawn from 0 to ``own_frames``.
            Without it the model speaks clearly after the teacher's frames, but drifts after its
            own.
        matrix_rate, rate: learning rates of Muon and of AdamW.
        dropout: share of what each layer adds that is left out.
    """

    codebook_weights: tuple[float, ...] = (1.6, 0.4, 1.6, 0.4)
    end_weight: float = 10.0
    guidance_weight: float = 0.2
    guided_heads: int = 2
    sound_weight: float = 1.0
    refine_weight: float = 0.3
    own_frames: float = 1.0
    own_temperature: float = 0.3
    own_from: float = 0.4
    matrix_rate: float = 3e-3
    rate: float = 1.5e-3
    dropout: float = 0.0


def code_losses(
    logits: Tensor, targets: Tensor, settings: GPTSettings
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the loss terms of predicted frames, and each codebook's unweighted loss for the log.

    Args:
        logits: float32 [n, num_vq, codes and the end].
        targets: int64 [n, num_vq].
    """
    each = codebook_losses(logits, targets).mean(0)
    weights = each.new_tensor(settings.codebook_weights)
    codes = (each * weights).sum() / weights.sum()
    # The log odds of the end against all codes.
    odds = logits[..., -1] - logits[..., :-1].logsumexp(-1)
    is_end = targets == logits.shape[-1] - 1
    end = -torch.where(is_end, logsigmoid(odds), logsigmoid(-odds)).mean()
    metrics = {f"codebook_{number}": loss for number, loss in enumerate(each)}
    return {"codes": codes, "end": settings.end_weight * end}, metrics
