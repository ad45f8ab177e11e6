"""The language model with gradients: likelihoods of codes, given texts and speakers.

The engines compute without gradients, so this is the Llama of transformers, in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..checkpoints.assets import AssetFolder
from ..config import Config
from ..errors import AssetError
from ..model.devices.placement import Placement
from ..model.embed import Embed, load_embed
from ..model.llama.config import llama_config, read_llama_shape
from ..model.standard.engine import load_llama
from ..weights.tensor_file import TensorFile
from .sequences import IGNORED, CodeBatch, codebook_losses, embed_batch


class LanguageModel(nn.Module):
    """The Llama between its embeddings and its heads, without a cache.

    Args:
        llama: transformers' ``LlamaModel``, or a module with its interface.
        embed: embeddings and heads.
    """

    def __init__(self, llama: nn.Module, embed: Embed) -> None:
        super().__init__()
        self.llama = llama
        self.embed = embed

    @property
    def device(self) -> torch.device:
        """The device of all parts."""
        return self.embed.code.weight.device

    @property
    def end(self) -> int:
        """The code that ends an utterance."""
        return self.embed.end_of_speech

    def forward(self, batch: CodeBatch, speakers: Tensor | None = None) -> Tensor:
        """Return hidden states [B, L, hidden].

        Args:
            batch: on this model's device.
            speakers: see :func:`~.sequences.embed_batch`.
        """
        vectors = embed_batch(self.embed, batch, speakers)
        hidden: Tensor = self.llama(inputs_embeds=vectors, use_cache=False).last_hidden_state
        return hidden

    def losses(self, batch: CodeBatch, speakers: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return minus the log likelihoods of the codes, without those of the ends.

        Returns:
            float32 [B, L], the mean over the codebooks in nats, 0 where nothing is predicted; and
            bool [B, L], where a frame is predicted.
        """
        wanted = (batch.targets[..., 0] != IGNORED) & (batch.targets[..., 0] != self.end)
        logits = self.embed.code_logits(self(batch, speakers)[wanted])
        found = codebook_losses(logits, batch.targets[wanted]).mean(dim=1)
        return found.new_zeros(wanted.shape).masked_scatter(wanted, found), wanted


def load_language_model(folder: AssetFolder, config: Config, placement: Placement) -> LanguageModel:
    """Load the frozen language model of a checkpoint.

    Args:
        folder: of the checkpoint.
        config: its configuration.
        placement: the device, and a dtype that gradients are precise enough in.

    Raises:
        AssetError: a file cannot be used.
    """
    shape = read_llama_shape(folder.gpt_config, config.gpt)
    llama = load_llama(llama_config(shape), folder.gpt, placement.device, placement.dtype)
    embed = load_embed(folder.embed, config.embed, placement)
    return LanguageModel(llama, embed)


def check_encoder(folder: AssetFolder) -> None:
    """Check that a checkpoint's codec can encode, before anything else is loaded.

    Raises:
        AssetError: it has no encoder, or the file cannot be read.
    """
    names = TensorFile(folder.dvae).infos
    parts = ("downsample_conv.", "encoder.", "vq_layer.")
    missing = [part for part in parts if not any(name.startswith(part) for name in names)]
    if missing:
        raise AssetError(
            f"{folder.dvae} has no {', '.join(part.rstrip('.') for part in missing)}: this codec "
            "turns codes into sound, and cannot turn recordings into codes. Take a checkpoint "
            "with the whole codec (`chattts download`)"
        )
