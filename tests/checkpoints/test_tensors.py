"""Checkpoints that are damaged, foreign or hostile, and modules that get their tensors."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from ChatTTS.errors import AssetError
from ChatTTS.weights.tensors import load_module, read_tensors

from ..support.places import DATA

MODEL_A = DATA / "model-a" / "asset"
FILE = Path("some.safetensors")


def with_header(header: str, data: bytes = b"") -> bytes:
    """Return the bytes of a safetensors file with exactly this ``header``."""
    return len(header).to_bytes(8, "little") + header.encode() + data


def one_tensor_header(**changes: Any) -> str:
    return json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}})


def refusal(path: Path) -> str:
    """Return the error message of :func:`read_tensors`; check that it names the file."""
    with pytest.raises(AssetError) as caught:
        read_tensors(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


class TestReadTensors:
    def test_reads_what_the_file_holds(self) -> None:
        path = MODEL_A / "Decoder.safetensors"
        tensors = read_tensors(path)
        with safe_open(path, "pt") as file:
            assert set(tensors) == set(file.keys())
            assert all(torch.equal(tensors[name], file.get_tensor(name)) for name in tensors)

    def test_keeps_the_dtypes_of_the_file(self, tmp_path: Path) -> None:
        saved = {
            "half": torch.ones(2, dtype=torch.float16),
            "brain": torch.ones(3, dtype=torch.bfloat16),
            "whole": torch.arange(4),
        }
        save_file(saved, tmp_path / "w.safetensors")
        found = read_tensors(tmp_path / "w.safetensors")
        assert {name: value.dtype for name, value in found.items()} == {
            name: value.dtype for name, value in saved.items()
        }

    def test_missing(self, tmp_path: Path) -> None:
        message = refusal(tmp_path / "none.safetensors")
        assert "is missing" in message
        assert "chattts download" in message

    def test_folder(self, tmp_path: Path) -> None:
        assert "cannot be read" in refusal(tmp_path)

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"", "is empty"),
            (b"\x10\0\0", "cut off"),
            (with_header(one_tensor_header(), bytes(8))[:30], "cut off"),
            (with_header(one_tensor_header(), bytes(8))[:-1], "cut off"),
            (with_header("{not json}"), "damaged"),
            (with_header('{"w": 3}'), "damaged"),
            (with_header(one_tensor_header(data_offsets=[0, 4]), bytes(8)), "damaged"),
            (with_header(one_tensor_header(data_offsets=[8, 0]), bytes(8)), "damaged"),
            (with_header(one_tensor_header(data_offsets=[0, 2**63]), bytes(8)), "damaged"),
            (with_header(one_tensor_header(shape=[2**40, 2**40]), bytes(8)), "damaged"),
            (with_header(one_tensor_header(shape=[-2]), bytes(8)), "damaged"),
            (with_header(one_tensor_header(dtype="OBJECT"), bytes(8)), "damaged"),
            (b"\xff" * 8 + b"{}", "unknown format"),
            ((2**31).to_bytes(8, "little") + b"{}", "unknown format"),
            (bytes(64), "unknown format"),
            (b"just some notes, nothing more", "unknown format"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
            (b"\n<!DOCTYPE html><html><body>404</body></html>", "web page"),
            (b"<html><head><title>Proxy</title></head></html>", "web page"),
        ],
    )
    def test_damaged_or_foreign(self, tmp_path: Path, content: bytes, says: str) -> None:
        path = tmp_path / "GPT.safetensors"
        path.write_bytes(content)
        message = refusal(path)
        assert says in message
        assert "chattts download --force" in message

    @pytest.mark.parametrize("length", [10, 1000, -1000, -1])
    def test_a_real_file_that_was_cut(self, tmp_path: Path, length: int) -> None:
        path = tmp_path / "Vocos.safetensors"
        path.write_bytes((MODEL_A / "Vocos.safetensors").read_bytes()[:length])
        assert "cut off" in refusal(path)

    def test_a_header_may_have_the_length_of_a_pickle_magic(self, tmp_path: Path) -> None:
        # 640 is 80 02 in little endian, which is how a pickle of protocol 2 begins.
        path = tmp_path / "w.safetensors"
        path.write_bytes(with_header(one_tensor_header().ljust(0x0280), bytes(8)))
        assert path.read_bytes()[:2] == b"\x80\x02"
        assert torch.equal(read_tensors(path)["w"], torch.zeros(2))


class Bomb:
    """An object that creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


class TestPickles:
    @pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
    def test_a_pickle_is_refused_unopened(self, tmp_path: Path, protocol: int) -> None:
        marker, path = tmp_path / "executed", tmp_path / "DVAE.safetensors"
        path.write_bytes(pickle.dumps(Bomb(marker), protocol=protocol))
        message = refusal(path)
        assert not marker.exists()
        # Pickles of the first two protocols have no magic bytes.
        assert ("pickles are never opened" if protocol >= 2 else "not a safetensors") in message
        pickle.loads(path.read_bytes())
        assert marker.exists(), "the bomb is a dud, and the test shows nothing"

    @pytest.mark.parametrize("as_zip", [True, False])
    def test_a_torch_file_is_refused_unopened(self, tmp_path: Path, as_zip: bool) -> None:
        marker, path = tmp_path / "executed", tmp_path / "Decoder.safetensors"
        torch.save({"w": Bomb(marker)}, path, _use_new_zipfile_serialization=as_zip)
        assert "pickles are never opened" in refusal(path)
        assert not marker.exists()
        torch.load(path.rename(tmp_path / "Decoder.pt"), weights_only=False)
        assert marker.exists(), "the bomb is a dud, and the test shows nothing"


class Small(nn.Module):
    """A weight, a bias, a persistent buffer of whole numbers and a buffer that is not saved."""

    steps: torch.Tensor
    scratch: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("steps", torch.zeros(2, dtype=torch.int64))
        self.register_buffer("scratch", torch.tensor([7.0]), persistent=False)


def small_tensors() -> dict[str, torch.Tensor]:
    return {
        "linear.weight": torch.arange(6.0).reshape(2, 3),
        "linear.bias": torch.tensor([0.5, -0.5]),
        "steps": torch.tensor([3, 4]),
    }


def loading_fault(module: nn.Module, tensors: dict[str, torch.Tensor]) -> str:
    with pytest.raises(AssetError) as caught:
        load_module(module, tensors, file=FILE)
    assert str(FILE) in str(caught.value)
    return str(caught.value)


class TestLoadModule:
    @pytest.mark.parametrize("device", ["cpu", "meta"])
    @pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float32])
    @pytest.mark.parametrize("wanted", [torch.float16, torch.bfloat16, torch.float32])
    def test_every_tensor_arrives_in_the_dtype_of_the_module(
        self, device: str, stored: torch.dtype, wanted: torch.dtype
    ) -> None:
        with torch.device(device):
            module = Small().to(wanted)
        tensors = small_tensors()
        tensors["linear.weight"] = tensors["linear.weight"].to(stored)
        load_module(module, tensors, file=FILE)
        assert module.linear.weight.dtype == wanted
        assert torch.equal(module.linear.weight, tensors["linear.weight"].to(wanted))
        assert torch.equal(module.linear.bias, tensors["linear.bias"].to(wanted))
        assert torch.equal(module.steps, tensors["steps"])
        assert module.linear.weight.requires_grad

    def test_what_is_not_saved_survives(self) -> None:
        module = Small()
        load_module(module, small_tensors(), file=FILE)
        assert torch.equal(module.scratch, torch.tensor([7.0]))

    def test_parameters_keep_their_place(self) -> None:
        # Other holders of a parameter (a tied layer, an optimiser) see the new values.
        module = Small()
        weight = module.linear.weight
        load_module(module, small_tensors(), file=FILE)
        assert module.linear.weight is weight

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_the_module_has_its_own_copy(self, device: str) -> None:
        with torch.device(device):
            module = Small()
        tensors = small_tensors()
        load_module(module, tensors, file=FILE)
        tensors["linear.weight"].zero_()
        assert torch.equal(module.linear.weight, small_tensors()["linear.weight"])

    def test_weight_norm_is_loaded_by_its_parts(self) -> None:
        module = weight_norm(nn.Linear(3, 2, bias=False))
        norm, direction = torch.tensor([[2.0], [4.0]]), torch.tensor([[3.0, 0, 4], [0, 5, 12]])
        load_module(
            module,
            {
                "parametrizations.weight.original0": norm,
                "parametrizations.weight.original1": direction,
            },
            file=FILE,
        )
        expected = norm * direction / torch.tensor([[5.0], [13.0]])
        torch.testing.assert_close(module.weight, expected)

    def test_all_faults_are_named_at_once_and_nothing_is_loaded(self) -> None:
        module = Small()
        before = {name: value.clone() for name, value in module.state_dict().items()}
        tensors = small_tensors()
        del tensors["linear.bias"]
        tensors["linear.weight"] = torch.zeros(2, 4)
        message = loading_fault(module, tensors)
        assert "linear.bias [2] is missing" in message
        assert "linear.weight should be [2, 3] but is [2, 4]" in message
        assert "config.json" in message
        assert all(torch.equal(before[name], now) for name, now in module.state_dict().items())

    @pytest.mark.parametrize(("count", "rest"), [(10, None), (13, "and 3 more")])
    def test_many_faults_are_counted(self, count: int, rest: str | None) -> None:
        module = nn.ParameterList([torch.zeros(1) for _ in range(count)])
        message = loading_fault(module, {})
        assert message.count("is missing") == 10
        assert (rest in message) if rest else ("more" not in message)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("linear.bias", torch.tensor([1, 2])),
            ("linear.bias", torch.tensor([1 + 1j, 2])),
            ("linear.bias", torch.tensor([True, False])),
            ("linear.bias", torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn)),
            ("steps", torch.tensor([1.0, 2.0])),
            ("steps", torch.tensor([1, 2], dtype=torch.int32)),
        ],
    )
    def test_other_kinds_of_number_are_refused(self, name: str, value: torch.Tensor) -> None:
        message = loading_fault(Small(), {**small_tensors(), name: value})
        assert name in message
        assert str(value.dtype) in message

    def test_unused_tensors_are_named_in_one_warning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        extra = {name: torch.zeros(1) for name in ("stray", "linear.extra", "embed_tokens.weight")}
        with caplog.at_level(logging.WARNING, logger="ChatTTS"):
            load_module(
                Small(), {**small_tensors(), **extra}, file=FILE, unused_ok=("embed_tokens.",)
            )
        (record,) = caplog.records
        message = record.getMessage()
        assert str(FILE) in message
        assert "stray" in message
        assert "linear.extra" in message
        assert "embed_tokens" not in message

    def test_no_warning_without_unused_tensors(self, caplog: pytest.LogCaptureFixture) -> None:
        extra = {"embed_tokens.weight": torch.zeros(1)}
        with caplog.at_level(logging.DEBUG, logger="ChatTTS"):
            load_module(
                Small(), {**small_tensors(), **extra}, file=FILE, unused_ok=("embed_tokens.",)
            )
        assert not caplog.records
