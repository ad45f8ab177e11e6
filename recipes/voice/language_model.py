"""The language model: the Llama between its embeddings and its heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ChatTTS.config import EmbedConfig, GPTConfig
from ChatTTS.model.embed import Embed
from ChatTTS.model.llama.config import LlamaShape
from ChatTTS.voice_learning.sequences import embed_batch

from .batches import SpeechBatch
from .frames import frame_states
from .llama import Guidance, Llama
from .text_batches import TextBatch
from .vocabulary import TOKENS

NUM_CODEBOOKS, NUM_CODES = 4, 625  # the id 625 ends an utterance


@dataclass(frozen=True)
class GPTSizes:
    """Sizes of the language model.

    Attributes:
        hidden, inner, heads, layers: sizes of the Llama.
        positions: the most positions that it can read.
    """

    hidden: int = 256
    inner: int = 768
    heads: int = 4
    layers: int = 7
    positions: int = 4096

    @property
    def config(self) -> GPTConfig:
        """Return the sizes in the form of ``asset/config.json``."""
        return GPTConfig(
            hidden_size=self.hidden,
            intermediate_size=self.inner,
            num_attention_heads=self.heads,
            num_hidden_layers=self.layers,
            max_position_embeddings=self.positions,
            num_audio_tokens=NUM_CODES + 1,
            num_text_tokens=len(TOKENS),
            num_vq=NUM_CODEBOOKS,
        )

    @property
    def embed(self) -> EmbedConfig:
        """Return the sizes of the embeddings."""
        return EmbedConfig(self.hidden, NUM_CODES + 1, len(TOKENS), NUM_CODEBOOKS)

    @property
    def llama(self) -> LlamaShape:
        """Return the sizes in the form of ``asset/gpt/config.json``."""
        return LlamaShape(
            hidden_size=self.hidden,
            intermediate_size=self.inner,
            num_attention_heads=self.heads,
            num_hidden_layers=self.layers,
            max_position_embeddings=self.positions,
            num_key_value_heads=self.heads,
            head_dim=self.hidden // self.heads,
        )


# By the time that there is: the small one learns more from the same hours of a CPU up to about a
# day of one core, the large one afterwards.
SIZES: Mapping[str, GPTSizes] = {
    "small": GPTSizes(),
    "large": GPTSizes(hidden=384, inner=1024, heads=6, layers=8),
}


class SpeechModel(nn.Module):
    """The Llama between its embeddings and its heads.

    Args:
        sizes: of all parts.
        dropout: share of what each layer adds that is left out in training.
    """

    def __init__(self, sizes: GPTSizes, dropout: float = 0.0) -> None:
        super().__init__()
        self.sizes = sizes
        self.llama = Llama(sizes.llama, dropout)
        self.embed = Embed(sizes.embed)
        # Of the frame's symbol and of the one behind it; used only in training.
        self.sounds = nn.Linear(sizes.hidden, 2 * len(TOKENS))
        # Text tokens and frames (sums of four codes) have about length 1, like the speaker vector.
        nn.init.normal_(self.embed.text.weight, std=sizes.hidden**-0.5)
        nn.init.normal_(self.embed.code.weight, std=0.5 * sizes.hidden**-0.5)
        middle = max(1, sizes.layers // 2)
        self.guided_layers = tuple({middle - 1, min(middle, sizes.layers - 1)})

    def guided(self, count: int) -> list[tuple[int, int]]:
        """Return the guided heads, pairs of a layer and a head.

        Args:
            count: of the guided heads in each guided layer.
        """
        heads = range(min(count, self.sizes.heads))
        return [(layer, head) for layer in sorted(self.guided_layers) for head in heads]

    def speech(self, batch: SpeechBatch, guided_heads: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return hidden states [B, L, hidden], those of an inner layer, and the guidance loss.

        The loss is 0 without guided heads.
        """
        known = batch.speakers
        rest = known.new_zeros(len(known), self.sizes.hidden - known.shape[1])
        x = embed_batch(self.embed, batch, torch.cat([known, rest], dim=1))
        guidance = None
        if guided_heads:
            guidance = Guidance(batch.spoken, self.guided_layers, guided_heads)
        hidden, inner, loss = self.llama(x, guidance)
        return hidden, inner, loss

    def text(self, batch: TextBatch) -> Tensor:
        """Return hidden states [B, L, hidden] of texts for the refine pass."""
        hidden: Tensor = self.llama(self.embed.embed_text(batch.ids))[0]
        return hidden

    @torch.no_grad()
    def hiddens(self, batch: SpeechBatch) -> list[Tensor]:
        """Return the Decoder's input for each sequence: float32 hidden states [frames, hidden].

        These are the states from which the sequence's own frames, not the sample's, are drawn.
        """
        hidden, _, _ = self.speech(batch)
        return frame_states(hidden, batch)
