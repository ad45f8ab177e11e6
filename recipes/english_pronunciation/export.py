"""The packaged files: the dictionary and the letter network."""

from __future__ import annotations

import lzma
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ChatTTS.text.pronunciation.english.dictionary import Entry, pack_lines
from ChatTTS.text.pronunciation.english.letter_network import Floats

from .network import Layer, Network


def pack_dictionary(entries: dict[str, Entry]) -> bytes:
    """Return the packaged form of a dictionary."""
    preset = 9 | lzma.PRESET_EXTREME
    return lzma.compress(pack_lines(entries.items()), preset=preset)


def pack_network(network: Network, labels: tuple[str, ...]) -> bytes:
    """Return the weights as int8 with a scale for each column, and the labels."""
    arrays: dict[str, NDArray[Any]] = {"labels": np.array(labels)}

    def add(name: str, matrix: Floats) -> None:
        scale = np.maximum(np.abs(matrix).max(axis=0), 1e-8) / 127
        arrays[name] = np.round(matrix / scale).astype(np.int8)
        arrays[f"{name}_scale"] = scale.astype(np.float32)

    add("letters", network.letters.weight.detach().numpy())
    for i, layer in enumerate(network.layers):
        assert isinstance(layer, Layer)
        add(f"window{i}", layer.window.weight.detach().numpy().T)
        add(f"out{i}", layer.out.weight.detach().numpy().T)
        arrays[f"bias{i}"] = layer.window.bias.detach().numpy()
    add("head", network.head.weight.detach().numpy().T)
    arrays["head_bias"] = network.head.bias.detach().numpy()
    file = BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()
