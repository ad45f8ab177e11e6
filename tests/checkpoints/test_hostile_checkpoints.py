"""Untrusted checkpoints: whatever their files hold, the result is speech or a clear error."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from zlib import crc32

import pytest
import torch
from safetensors.torch import save_file

from ChatTTS.core import Chat
from ChatTTS.errors import AssetError, GenerationError
from ChatTTS.model.llama.weights import LlamaFile
from ChatTTS.utils import untrusted
from ChatTTS.utils.untrusted import open_regular, read_bytes, read_json
from ChatTTS.weights.tensor_file import TensorFile
from ChatTTS.weights.tensors import load_module

from ..support import hostile_cases
from ..support.hostile_cases import INF, NAN
from ..support.hostile_tools import ENGINES, GOOD, Case, complaint, run
from ..support.velocity_models import make_shape, make_tensors

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its files are of other kinds")

# The parts of the table, and whether both engines try each case. In the other parts the engines
# share what reads the value, so that each case is tried by one of them.
TABLE = {
    hostile_cases.sizes: False,
    hostile_cases.neighbours: False,
    hostile_cases.agreeing: True,
    hostile_cases.llama: True,
    hostile_cases.speaking: False,
    hostile_cases.structure: False,
    hostile_cases.files: True,
    hostile_cases.poisons: True,
    hostile_cases.tokenizers: True,
}
# Cases that one child process tries.
MOST = 300
# Of this many cases one is a sample.
SAMPLED = 20


def engines_of(case: Case, *, both: bool) -> tuple[str, ...]:
    """Return the engines that try a case; one of them is chosen by the case's name."""
    return ENGINES if both else (ENGINES[crc32(case.id.encode(errors="backslashreplace")) % 2],)


def check(cases: Sequence[tuple[Case, Sequence[str]]], room: Path) -> None:
    """Try cases in one child process."""
    room.mkdir()
    complaints = [
        f"{engine} {case.id} {what}"
        for case, engine, answer in run(cases, room)
        if (what := complaint(case, answer)) is not None
    ]
    assert not complaints, "\n".join(complaints)


@pytest.mark.thorough
@pytest.mark.parametrize("part", TABLE, ids=lambda part: part.__name__)
def test_whatever_stands_there_is_one_clear_error_or_speech(
    part: Callable[[], list[Case]], tmp_path: Path
) -> None:
    cases = [(case, engines_of(case, both=TABLE[part])) for case in part()]
    for start in range(0, len(cases), MOST):
        check(cases[start : start + MOST], tmp_path / str(start))


@pytest.mark.slow
def test_a_sample_of_all_parts(tmp_path: Path) -> None:
    cases = [case for part in TABLE for case in part()][::SAMPLED]
    check([(case, engines_of(case, both=False)) for case in cases], tmp_path / "room")


# ---------------------------------------------------------------- files that change meanwhile


def saved(folder: Path, seed: int = 0) -> Path:
    path = folder / "model.safetensors"
    save_file(make_tensors(make_shape(), seed), path)
    return path


@pytest.mark.parametrize("length", [0, 100, 5000, -1])
def test_a_file_that_is_cut_off_while_it_is_read(tmp_path: Path, length: int) -> None:
    path = saved(tmp_path)
    file = LlamaFile(path, make_shape())
    os.truncate(path, length if length >= 0 else path.stat().st_size - 1)
    with pytest.raises(AssetError, match=r"model\.safetensors was cut off while it was read"):
        # One of these tensors is the last in the file, whatever the order there.
        _ = [file.final_norm(), *map(file.layer, range(file.shape.num_hidden_layers))]


def test_a_file_that_is_replaced_while_it_is_read(tmp_path: Path) -> None:
    path = saved(tmp_path)
    file, expected = LlamaFile(path, make_shape()), make_tensors(make_shape())
    other = tmp_path / "other"
    other.mkdir()
    smaller = make_shape(hidden=16, head_dim=4)
    save_file(make_tensors(smaller, 5), other / "model.safetensors")
    (other / "model.safetensors").replace(path)
    assert file.layer(1).down.equal(expected["layers.1.mlp.down_proj.weight"])
    assert file.final_norm().equal(expected["norm.weight"])


def test_a_file_that_is_overwritten_in_place(tmp_path: Path) -> None:
    path = saved(tmp_path)
    file = LlamaFile(path, make_shape())
    size = path.stat().st_size
    with path.open("rb+") as stream:
        stream.write(b"\xff" * size)
    with pytest.raises(AssetError, match="holds NaN"):
        file.layer(0)


def test_a_closed_file_leaves_no_handle(tmp_path: Path) -> None:
    path = saved(tmp_path)
    tensors = TensorFile(path)
    handle = tensors._file
    del tensors
    assert handle.closed


# ---------------------------------------------------------------- numbers that are none


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [NAN, INF, -INF, 1e38])
def test_a_weight_that_is_no_number_in_its_dtype(value: float, dtype: torch.dtype) -> None:
    module = torch.nn.Linear(3, 2, bias=False).to(dtype)
    tensors = {"weight": torch.tensor([[1, 2, 3], [4, 5, value]], dtype=torch.float64)}
    if value == 1e38 and dtype is not torch.float16:
        load_module(module, tensors, file=Path("x"))
        return
    with pytest.raises(AssetError, match="x: weight holds NaN") as caught:
        load_module(module, tensors, file=Path("x"))
    assert ("dtype='float32'" in str(caught.value)) == (dtype is not torch.float32)


@pytest.mark.parametrize("part", ["decoder", "dvae", "vocos"])
def test_samples_that_are_no_numbers_are_never_delivered(part: str) -> None:
    chat = Chat()
    chat.load_or_raise("custom", custom_path=GOOD, device="cpu")
    module = getattr(chat, part)
    first = module.backbone.embed if part == "vocos" else module.decoder.conv_out
    with torch.no_grad():
        first.weight.fill_(NAN)
    with pytest.raises(GenerationError, match="samples that are not finite"):
        chat.infer(
            "hello",
            skip_refine_text=True,
            use_decoder=part != "dvae",
            params_infer_code={"max_new_token": 8, "min_new_token": 8, "manual_seed": 3},
        )


# ---------------------------------------------------------------- reading


def test_a_regular_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(b"12345")
    assert read_bytes(tmp_path / "good", 5) == b"12345"
    with pytest.raises(OSError, match="longer than 4 bytes"):
        open_regular(tmp_path / "good", 4)
    os.mkfifo(tmp_path / "pipe")
    for name, what in (("pipe", "a pipe"), (".", "a folder")):
        with pytest.raises(OSError, match=what):
            open_regular(tmp_path / name, 5)


def test_a_file_that_says_nothing_of_its_length() -> None:
    endless = Path("/proc/kallsyms")
    if not endless.exists():
        pytest.skip("this system has no such file")
    with pytest.raises(OSError, match="longer than 100 bytes"):
        read_bytes(endless, 100)


def test_a_file_that_grows_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "open_regular", lambda path, most: io.BytesIO(b"12345"))
    assert read_bytes(Path("grows"), 5) == b"12345"
    with pytest.raises(OSError, match="longer than 4 bytes"):
        read_bytes(Path("grows"), 4)


def test_json_that_is_read_as_it_was_written(tmp_path: Path) -> None:
    values = {"a": [1, -2, 3.5, True, None, "好"], "b": {"a": 10**30}}
    path = tmp_path / "x.json"
    for is_ascii in (True, False):
        path.write_text(json.dumps(values, ensure_ascii=is_ascii), encoding="utf-8")
        assert read_json(path) == values
