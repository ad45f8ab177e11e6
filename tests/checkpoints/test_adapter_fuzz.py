"""Adapters that were changed at random: one error that names the file, or finite weights."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.random_adapter import save_adapter
from ChatTTS.errors import AssetError
from ChatTTS.model.lora.reader import CONFIG, SPEAKER, WEIGHTS, read_adapter

from ..support.adapter_tools import shape_of
from ..support.mutation import changed_bytes, changed_value

LENGTHS = (0, 1, 1 << 20, (1 << 20) + 1, 1 << 63, (1 << 64) - 1)


@pytest.mark.parametrize("count", [300, pytest.param(6000, marks=pytest.mark.thorough)])
def test_a_changed_adapter_is_refused_or_finite(tmp_path: Path, count: int) -> None:
    shape = shape_of()
    folder = save_adapter(tmp_path / "a", shape)
    config, weights = folder / CONFIG, folder / WEIGHTS
    good = {file: file.read_bytes() for file in (config, weights)}
    length = 8 + struct.unpack("<Q", good[weights][:8])[0]
    head, data = good[weights][8:length], good[weights][length:]
    rng = random.Random(0)

    def with_head(value: Any) -> bytes:
        text = json.dumps(value).encode()
        return struct.pack("<Q", len(text)) + text + data

    ways = (
        lambda: (config, changed_bytes(good[config], rng)),
        lambda: (config, json.dumps(changed_value(json.loads(good[config]), rng)).encode()),
        lambda: (weights, changed_bytes(good[weights], rng)),
        lambda: (weights, good[weights][:8] + changed_bytes(head, rng) + data),
        lambda: (weights, with_head(changed_value(json.loads(head), rng))),
        lambda: (weights, struct.pack("<Q", rng.choice(LENGTHS)) + good[weights][8:]),
        lambda: (folder / SPEAKER, changed_bytes(b"\xe4\xb8\x80" * 30_000, rng)),
    )
    messages: list[str] = []
    for number in range(count):
        file, content = ways[number % len(ways)]()
        file.write_bytes(content)
        try:
            adapter = read_adapter(folder, "a", shape)
        except AssetError as error:
            messages.append(str(error))
        else:
            parts = [part for each in adapter.products.values() for part in (each.up, each.down)]
            assert all(bool(part.isfinite().all()) for part in parts)
        if file in good:
            file.write_bytes(good[file])
        else:
            file.unlink()
    assert len(messages) > count / 2
    assert all(str(folder) in message for message in messages)
