"""Write a random Llama of the published size as GGUF, for llama.cpp.

It runs in an environment with the packages gguf and numpy, and needs nothing of this project:

    llamacpp/bin/python benchmarks/common/random_gguf.py f32.gguf

The four heads of codes are one vocabulary here, so that a step reads equally many bytes.
"""

from __future__ import annotations

import argparse

import gguf
import numpy as np

_HIDDEN, _LAYERS, _HEADS, _INTERMEDIATE = 768, 20, 12, 3072
_VOCABULARY = 4 * 626
_POSITIONS = 4096
_SPREAD = 0.02
# Kinds of tokens, as GGUF numbers them.
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3


def write(path: str, seed: int) -> None:
    """Write the model with float32 weights."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(_LAYERS)
    writer.add_context_length(_POSITIONS)
    writer.add_embedding_length(_HIDDEN)
    writer.add_feed_forward_length(_INTERMEDIATE)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_rope_dimension_count(_HIDDEN // _HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(_VOCABULARY)
    writer.add_tokenizer_model("llama")
    control = [b"<unk>", b"<s>", b"</s>"]
    names = [f"t{number}".encode() for number in range(_VOCABULARY - len(control))]
    writer.add_token_list([*control, *names])
    writer.add_token_scores([0.0] * _VOCABULARY)
    writer.add_token_types([_UNKNOWN, _CONTROL, _CONTROL, *[_NORMAL] * len(names)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    random = np.random.default_rng(seed)

    def matrix(name: str, outputs: int, inputs: int) -> None:
        weights = random.standard_normal((outputs, inputs), dtype=np.float32)
        writer.add_tensor(f"{name}.weight", weights * np.float32(_SPREAD))

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(_HIDDEN, dtype=np.float32))

    matrix("token_embd", _VOCABULARY, _HIDDEN)
    matrix("output", _VOCABULARY, _HIDDEN)
    norm("output_norm")
    for layer in range(_LAYERS):
        norm(f"blk.{layer}.attn_norm")
        norm(f"blk.{layer}.ffn_norm")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{layer}.{name}", _HIDDEN, _HIDDEN)
        matrix(f"blk.{layer}.ffn_gate", _INTERMEDIATE, _HIDDEN)
        matrix(f"blk.{layer}.ffn_up", _INTERMEDIATE, _HIDDEN)
        matrix(f"blk.{layer}.ffn_down", _HIDDEN, _INTERMEDIATE)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    write(args.path, args.seed)


if __name__ == "__main__":
    main()
