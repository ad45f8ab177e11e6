"""The least time of a run, from the bytes that it has to read and its arithmetic operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ChatTTS.config import EmbedConfig, GPTConfig

BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}


@dataclass(frozen=True)
class Rates:
    """The rates of a machine: bytes read and operations of matrix products, both a second."""

    read: float
    products: float

    @classmethod
    def of(cls, measured: Mapping[str, Any], kind: str) -> Rates:
        """Return the best rates that ``machine_limits`` measured, for weights of type ``kind``.

        int8 weights may be widened before they are multiplied, so the rate of bfloat16 products
        applies to them as well.
        """
        kinds = (kind, "bfloat16") if kind == "int8" else (kind,)
        products = [rate for k in kinds for rate in measured["product_gflop_s"][k].values()]
        return cls(1e9 * max(measured["read_gb_s"].values()), 1e9 * max(products))


@dataclass(frozen=True)
class StepWork:
    """The cost of a step of code generation, independent of the implementation.

    Attributes:
        weight_bytes: bytes of the Llama's matrices and of the head, read once in a step.
        position_bytes: bytes of the keys and values of one position.
        llama_operations: operations for a row, without attention.
        head_operations: operations for a row that is sampled.
        position_operations: operations of attention for a row and each position before it.
    """

    weight_bytes: int
    position_bytes: int
    llama_operations: int
    head_operations: int
    position_operations: int

    @classmethod
    def of(cls, gpt: GPTConfig, kind: str, dtype: str) -> StepWork:
        """Return the cost with matrices of type ``kind``, and the head in ``dtype``.

        Keys and values are in ``dtype``, too, but of eight bits where the matrices are, with a
        scale for those of a head.
        """
        llama = llama_numbers(gpt)
        head = gpt.num_vq * gpt.num_audio_tokens * gpt.hidden_size
        cached = 2 * gpt.num_hidden_layers * gpt.hidden_size
        scales = 2 * gpt.num_hidden_layers * gpt.num_attention_heads * BYTES["float32"]
        return cls(
            weight_bytes=llama * BYTES[kind] + head * BYTES[dtype],
            position_bytes=cached + scales if kind == "int8" else cached * BYTES[dtype],
            llama_operations=2 * llama,
            head_operations=2 * head,
            position_operations=2 * cached,
        )

    def limit(self, rates: Rates, streams: int, prompt: int, frames: int) -> dict[str, float]:
        """Return the least milliseconds of a run in which all streams start together.

        The first step reads the prompts and gives the first frames; each later step has one row
        for each stream. A step takes the time of its bytes or of its operations, whichever is
        longer.

        Returns:
            ``prompt_ms`` of the first step, ``decode_ms`` of a later step on average, ``step_ms``
            of all steps on average, ``read_bound``: the share of later steps limited by memory.
        """
        looks = prompt * (prompt + 1) // 2
        operations = (
            prompt * self.llama_operations + self.head_operations + looks * self.position_operations
        )
        read = (self.weight_bytes + streams * prompt * self.position_bytes) / rates.read
        first = max(read, streams * operations / rates.products)
        later, read_bound = 0.0, 0
        for length in range(prompt + 1, prompt + frames):
            operations = (
                self.llama_operations + self.head_operations + length * self.position_operations
            )
            read = (self.weight_bytes + streams * length * self.position_bytes) / rates.read
            products = streams * operations / rates.products
            later += max(read, products)
            read_bound += read >= products
        steps = max(1, frames - 1)
        return {
            "prompt_ms": 1000 * first,
            "decode_ms": 1000 * later / steps,
            "step_ms": 1000 * (first + later) / frames,
            "read_bound": read_bound / steps,
        }


def llama_numbers(gpt: GPTConfig) -> int:
    """Return the number of elements of a Llama's matrices."""
    hidden, inner = gpt.hidden_size, gpt.intermediate_size
    return gpt.num_hidden_layers * (4 * hidden * hidden + 3 * hidden * inner)


def weight_bytes(gpt: GPTConfig, embed: EmbedConfig, kind: str, dtype: str) -> int:
    """Return the bytes of all weights of the language model.

    Matrices are of type ``kind``, norms in float32, embeddings and heads in ``dtype``.
    """
    norms = (2 * gpt.num_hidden_layers + 1) * gpt.hidden_size
    tokens = embed.num_text_tokens + embed.num_vq * embed.num_audio_tokens
    tables_and_heads = 2 * tokens * embed.hidden_size
    return llama_numbers(gpt) * BYTES[kind] + norms * 4 + tables_and_heads * BYTES[dtype]
