"""The rotary position embedding (Su et al. 2021): its tables, and how they are applied."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import AssetError
from .config import LlamaShape, check_rotation, llama_config, no_rotation
from .transformers_import import importing_transformers


def rotary_tables(shape: LlamaShape) -> tuple[Tensor, Tensor]:
    """Return the cosines and the sines, each float32 [positions, head size].

    Raises:
        AssetError: the checkpoint's settings give no finite tables.
    """
    positions = torch.arange(shape.max_position_embeddings, dtype=torch.float32)
    cosines, sines = (_scaled_tables if shape.rope_scaling else _plain_tables)(shape, positions)
    check_rotation(shape.head_dim, cosines, sines)
    return cosines, sines


def _plain_tables(shape: LlamaShape, positions: Tensor) -> tuple[Tensor, Tensor]:
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.int64).float() / shape.head_dim
    angles = positions[:, None] * (1.0 / shape.rope_theta**exponents)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def _scaled_tables(shape: LlamaShape, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tables of a scaled embedding; transformers implements the kinds of scaling."""
    with importing_transformers():
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    try:
        tables = LlamaRotaryEmbedding(config=llama_config(shape))(positions, positions[None].long())
    except AssetError:
        raise
    except Exception as error:  # transformers raises many kinds
        raise no_rotation(f"{type(error).__name__}: {error}") from error
    cosines, sines = (table[0].float() for table in tables)
    return cosines, sines


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Apply the embedding to ``x`` [..., head size], in float32.

    Args:
        cosines, sines: of each position, broadcast to the shape of ``x``.
    """
    wide = x.float()
    first, second = wide.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (wide * cosines + turned * sines).to(x.dtype)
