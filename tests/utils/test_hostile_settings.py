"""Settings that no machine has, and a user without a home folder."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.checkpoints import assets
from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.model.devices.placement import choose_placement
from ChatTTS.model.velocity.configs import EngineArgs, SchedulerConfig, parse_memory
from ChatTTS.utils.folders import cache_folder, data_folder
from ChatTTS.utils.machine import checked_threads

from ..support.places import DATA


@pytest.mark.parametrize(
    "device", ["meta", torch.device("meta"), "", "cpux", 5, object(), "cuda:x"]
)
def test_devices_that_are_none(device: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be used here"):
        choose_placement(device)


@pytest.mark.parametrize("num_threads", [0, -1, 1.5, 2**31, 2**32 + 1, "2", True, math.inf])
@pytest.mark.parametrize("use_vllm", [False, True])
def test_impossible_numbers_of_threads_are_refused(num_threads: Any, use_vllm: bool) -> None:
    before = torch.get_num_threads()
    with pytest.raises(ConfigError, match="num_threads must be a whole number from 1 to"):
        Chat().load_or_raise(
            "custom",
            custom_path=DATA / "model-a",
            device="cpu",
            use_vllm=use_vllm,
            num_threads=num_threads,
        )
    assert torch.get_num_threads() == before
    with pytest.raises(ConfigError, match="num_threads"):
        EngineArgs(DATA / "model-a", num_threads=num_threads).create_engine_config()


@pytest.mark.parametrize(
    "memory",
    [
        math.inf,
        -math.inf,
        math.nan,
        -1,
        0,
        0.5,
        2**70,
        "inf",
        "nan",
        "-1GB",
        "9" * 400,
        "9" * 5000,
        True,
        [],
        np.ones(2),
        1j,
    ],
)
def test_impossible_sizes_of_memory_are_refused(memory: Any) -> None:
    with pytest.raises(ConfigError, match="kv_memory must be bytes or text") as caught:
        parse_memory(memory, "kv_memory")
    assert len(str(caught.value)) < 300
    with pytest.raises(ConfigError, match="kv_memory"):
        EngineArgs(DATA / "model-a", kv_memory=memory).create_engine_config()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("block_size", 2**32 + 1),
        ("block_size", 2**31),
        ("block_size", 0),
        ("block_size", 1.5),
        ("block_size", "32"),
        ("max_num_batched_tokens", 2**32 + 1),
        ("max_num_seqs", 2**63),
        ("kv_memory", f"{'9' * 4300} sequences"),
    ],
)
def test_sizes_that_32_bits_do_not_hold(name: str, value: Any) -> None:
    args: dict[str, Any] = {name: value}
    with pytest.raises(ConfigError, match=name):
        EngineArgs(DATA / "model-a", **args).create_engine_config()


def test_seconds_that_are_none() -> None:
    for value in (math.nan, 0, -1, "1", None):
        with pytest.raises(ConfigError, match="ageing must be above 0"):
            SchedulerConfig(ageing=value)  # type: ignore[arg-type]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has variables of its own")
def test_a_user_without_a_home_is_told_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    for variable, folder in (("XDG_CACHE_HOME", cache_folder), ("XDG_DATA_HOME", data_folder)):
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(ConfigError, match=f"set HOME, or {variable}"):
            folder()
        monkeypatch.setenv(variable, str(tmp_path))
        assert folder().parent == tmp_path


def test_folders_that_are_none() -> None:
    for path in ("~nobody-of-this-name/asset", 5):
        with pytest.raises(ConfigError, match="custom_path"):
            assets.locate("custom", path)  # type: ignore[arg-type]


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    assert checked_threads(np.int64(2)) == 2
