"""Packed weights in a file: made once, mapped from then on, and done without where there is no
place for them."""

from __future__ import annotations

import logging
import os
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ChatTTS.model.native.library import Team
from ChatTTS.model.velocity.native import packing
from ChatTTS.model.velocity.native.packing import packed_weights
from ChatTTS.model.velocity.weights import LlamaFile

from .velocity_models import make_shape, make_team, make_tensors, save_llama


@pytest.fixture
def team() -> Team:
    return make_team(1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where packed weights lie, also those of small models."""
    monkeypatch.setattr(packing, "_LEAST_CACHED", 0)
    monkeypatch.setattr(packing, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "packed"


def refuse(*_: object) -> None:
    raise AssertionError("the checkpoint was read")


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8"])
def test_packed_weights_are_mapped_the_second_time(
    team: Team, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    file = save_llama(tmp_path, make_shape())
    first = packed_weights(team, file, kind)
    assert [path.stat().st_size for path in cache.iterdir()] == [len(first.data)]
    monkeypatch.setattr(packing, "_LEAST_CACHED", 1 << 40)
    in_memory = packed_weights(team, file, kind)
    monkeypatch.setattr(packing, "_LEAST_CACHED", 0)
    monkeypatch.setattr(LlamaFile, "layer", refuse)
    second = packed_weights(team, file, kind)
    assert second.offsets == first.offsets == in_memory.offsets
    for layer, name in second.offsets:
        assert (second.address(layer, name) - second.data.data_ptr()) % 64 == 0
    for index in range(2):
        norm = second.data[second.offsets[index, "mlp_norm"] :][: 4 * 64].view(torch.float32)
        expected = make_tensors(file.shape)[f"layers.{index}.post_attention_layernorm.weight"]
        assert norm.equal(expected)
        for name, outputs, inputs in (("qkv", 192, 64), ("down", 64, 100)):
            rows = torch.eye(inputs)
            mapped, made = (
                team.product(rows, weights.data[weights.offsets[index, name] :], kind, outputs)
                for weights in (second, in_memory)
            )
            assert mapped.equal(made)


def test_a_map_is_private(team: Team, tmp_path: Path, cache: Path) -> None:
    file = save_llama(tmp_path, make_shape())
    weights = packed_weights(team, file, "float32")
    (path,) = cache.iterdir()
    before = path.read_bytes()
    weights.data.fill_(1)
    assert path.read_bytes() == before


def test_other_weights_are_packed_anew(team: Team, tmp_path: Path, cache: Path) -> None:
    shape = make_shape()
    first = packed_weights(team, save_llama(tmp_path, shape), "float32")
    path = tmp_path / "model.safetensors"
    save_file(make_tensors(shape, seed=1), path)
    os.utime(path, ns=(1, 1))  # an older file put in its place counts, too
    second = packed_weights(team, LlamaFile(path, shape), "float32")
    assert not second.data.equal(first.data)
    assert len(list(cache.iterdir())) == 2


def test_kinds_have_files_of_their_own(team: Team, tmp_path: Path, cache: Path) -> None:
    file = save_llama(tmp_path, make_shape())
    for kind in ("float32", "bfloat16", "int8"):
        packed_weights(team, file, kind)
    assert len({path.stat().st_size for path in cache.iterdir()}) == 3


@pytest.mark.parametrize("damaged", [b"", b"too little", bytes(10**6)])
def test_a_file_of_another_size_is_made_anew(
    team: Team, tmp_path: Path, cache: Path, damaged: bytes
) -> None:
    file = save_llama(tmp_path, make_shape())
    expected = packed_weights(team, file, "float32").data.clone()
    (path,) = cache.iterdir()
    path.unlink()  # not overwritten: it is mapped
    path.write_bytes(damaged)
    assert packed_weights(team, file, "float32").data.equal(expected)
    assert path.stat().st_size == len(expected)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


def test_no_room_for_a_file(
    team: Team,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(packing.shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 5, 5))
    file = save_llama(tmp_path, make_shape())
    before = open_files()
    weights = packed_weights(team, file, "float32")
    norm = weights.data[weights.offsets[-1, "final_norm"] :][: 4 * 64].view(torch.float32)
    assert norm.equal(file.final_norm())
    assert list(cache.iterdir()) == []
    assert "no room" in caplog.text
    assert open_files() <= before


def test_no_folder_for_a_file(team: Team, tmp_path: Path, cache: Path) -> None:
    cache.parent.write_text("a file is where the folder should be")
    file = save_llama(tmp_path, make_shape())
    weights = packed_weights(team, file, "int8")
    norm = weights.data[weights.offsets[-1, "final_norm"] :][: 4 * 64].view(torch.float32)
    assert norm.equal(file.final_norm())


def test_an_interruption_leaves_nothing(
    team: Team, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save_llama(tmp_path, make_shape())
    before = open_files()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LlamaFile, "final_norm", interrupt)
    with pytest.raises(KeyboardInterrupt):
        packed_weights(team, file, "float32")
    assert list(cache.iterdir()) == []
    assert open_files() <= before


def test_only_the_last_few_files_are_kept(team: Team, tmp_path: Path, cache: Path) -> None:
    file = save_llama(tmp_path, make_shape())
    packed_weights(team, file, "float32")
    (always,) = cache.iterdir()
    for number in range(8):
        os.utime(file.path, ns=(number, number))
        packed_weights(team, file, "int8")
        for path in cache.iterdir():  # time goes by
            os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 10**10))
        os.utime(always)  # as its use would
        assert len(list(cache.iterdir())) <= packing._FILES_KEPT
    assert always.exists()
    assert len(list(cache.iterdir())) == packing._FILES_KEPT


def test_a_use_makes_a_file_recent(team: Team, tmp_path: Path, cache: Path) -> None:
    file = save_llama(tmp_path, make_shape())
    packed_weights(team, file, "float32")
    (path,) = cache.iterdir()
    os.utime(path, (1, 1))
    packed_weights(team, file, "float32")
    assert path.stat().st_mtime > 1


def test_a_small_model_needs_no_file(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "cache_folder", lambda: tmp_path / "cache")
    packed_weights(team, save_llama(tmp_path, make_shape()), "float32")
    assert not (tmp_path / "cache").exists()
