"""Packed weights in a file: made once, and mapped from then on.

Where there is no place for the file, the weights are packed in memory.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from ChatTTS.errors import OutOfThreadsError
from ChatTTS.model.kernels.cpu.library import Team
from ChatTTS.model.llama.shard import Shard
from ChatTTS.model.llama.weights import LlamaFile
from ChatTTS.model.velocity.backends.cpu import packed_files, packing
from ChatTTS.utils.cache_files import UNFINISHED
from ChatTTS.weights.fingerprint import PageChecksum, fingerprint
from ChatTTS.weights.tensor_file import TensorFile

from .....support.file_tools import give_to_another_user
from .....support.native_tools import run_python
from .....support.velocity_models import (
    make_shape,
    make_tensors,
    packed_weights,
    save_llama,
)


@pytest.fixture
def file(tmp_path: Path) -> LlamaFile:
    """A small checkpoint."""
    return save_llama(tmp_path, make_shape())


def refuse(*_: object) -> None:
    raise AssertionError("the checkpoint was read")


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8"])
def test_packed_weights_are_mapped_the_second_time(
    team: Team, file: LlamaFile, cache: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    first = packed_weights(team, file, kind)
    assert [path.stat().st_size for path in cache.iterdir()] == [
        len(first.data) + PageChecksum.size
    ]
    monkeypatch.setattr(packing, "_MIN_CACHED", 1 << 40)
    in_memory = packed_weights(team, file, kind)
    monkeypatch.setattr(packing, "_MIN_CACHED", 0)
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


def test_a_map_is_private(team: Team, file: LlamaFile, cache: Path) -> None:
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


def test_kinds_have_files_of_their_own(team: Team, file: LlamaFile, cache: Path) -> None:
    for kind in ("float32", "bfloat16", "int8"):
        packed_weights(team, file, kind)
    assert len({path.stat().st_size for path in cache.iterdir()}) == 3


def test_another_checkpoint_of_equal_path_size_and_time(
    team: Team, tmp_path: Path, cache: Path
) -> None:
    """A change of any single tensor is noticed."""
    shape = make_shape()
    tensors = make_tensors(shape)
    path = tmp_path / "model.safetensors"
    spoken = []
    for name in (None, *tensors):
        changed = {n: tensor + 1 if n == name else tensor for n, tensor in tensors.items()}
        save_file(changed, path)
        os.utime(path, ns=(10**18, 10**18))
        weights = packed_weights(team, LlamaFile(path, shape), "float32")
        spoken.append(bytes(weights.data.numpy()))
    assert len(set(spoken)) == len(tensors) + 1


def test_a_copy_of_a_checkpoint_is_known_again(
    team: Team, tmp_path: Path, file: LlamaFile, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy of another container: its folder, inode number and change time differ."""
    first = packed_weights(team, file, "float32")
    (tmp_path / "other").mkdir()
    copy = tmp_path / "other" / "copy.safetensors"
    shutil.copy2(file.path, copy)
    monkeypatch.setattr(LlamaFile, "layer", refuse)
    assert packed_weights(team, LlamaFile(copy, file.shape), "float32").data.equal(first.data)


def pieces(values: Tensor) -> list[slice]:
    """The slices that a fingerprint reads of a long tensor, in numbers of four bytes."""
    middle = (len(values) - 1024) // 2
    return [slice(0, 1024), slice(middle, middle + 1024), slice(len(values) - 1024, None)]


def test_a_fingerprint_reads_three_pieces_of_each_tensor(tmp_path: Path) -> None:
    values = torch.zeros(100_000)
    path = tmp_path / "some.safetensors"

    def found() -> str:
        save_file({"a": torch.zeros(3), "b": values, "c": torch.zeros(0)}, path, {"made": "by us"})
        os.utime(path, ns=(1, 1))
        return fingerprint(TensorFile(path))

    before = found()
    for piece in pieces(values):
        for place in (piece.start, (piece.stop or len(values)) - 1):
            values[place] = 1
            assert found() != before
            values[place] = 0
    assert found() == before
    os.utime(path, ns=(2, 2))
    assert fingerprint(TensorFile(path)) != before


def change(content: bytes, at: int, by: bytes) -> bytes:
    return content[:at] + by + content[at + len(by) :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"too little",
        lambda content: bytes(10**6),
        lambda content: content[:-1],
        lambda content: bytes(len(content)),
        lambda content: change(content, 4096, bytes(512)),
        lambda content: change(content, len(content) // 2, bytes([content[len(content) // 2] ^ 1])),
        lambda content: change(content, 8192, content[:8192][4096:]),
        lambda content: change(content, 4096, content[4104:4112] + content[4096:4104]),
        lambda content: change(content, len(content) - 1, bytes([content[-1] ^ 1])),
    ],
    ids=["empty", "short", "long", "cut", "zeros", "hole", "bit", "page", "order", "checksum"],
)
def test_a_damaged_file_is_made_anew(
    team: Team,
    file: LlamaFile,
    cache: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[bytes], bytes],
) -> None:
    expected = packed_weights(team, file, "float32").data.clone()
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    path.unlink()  # not overwritten: it is mapped
    path.write_bytes(damage(whole))
    path.chmod(0o600)
    assert packed_weights(team, file, "float32").data.equal(expected)
    assert path.read_bytes() == whole
    (message,) = caplog.messages
    assert message.startswith(str(path))
    assert message.endswith("the weights are packed again")


def test_a_file_of_another_user_is_made_anew(
    team: Team, file: LlamaFile, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    packed_weights(team, file, "float32")
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    path.chmod(0o666)
    packed_weights(team, file, "float32")
    assert caplog.messages == [
        f"{path} may be written by other users (mode 0666): the weights are packed again"
    ]
    assert path.read_bytes() == whole
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_of_another_user_is_left_alone(
    team: Team,
    file: LlamaFile,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = packed_weights(team, file, "float32").data.clone()
    (path,) = cache.iterdir()
    damaged = bytes(path.stat().st_size)
    path.write_bytes(damaged)
    give_to_another_user(cache, monkeypatch)
    assert packed_weights(team, file, "float32").data.equal(expected)
    (message,) = caplog.messages
    assert "every start packs them again" in message
    assert "belongs to another user" in message
    assert path.read_bytes() == damaged


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


def assert_made_in_memory(
    team: Team, file: LlamaFile, cache: Path, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    """Check that weights are packed in memory, with one warning of why, and no file is left."""
    before = open_files()
    caplog.clear()
    weights = packed_weights(team, file, "float32")
    norm = weights.data[weights.offsets[-1, "final_norm"] :][: 4 * 64].view(torch.float32)
    assert norm.equal(file.final_norm())
    (message,) = caplog.messages
    assert "every start packs them again" in message
    assert why in message
    assert list(cache.iterdir()) == []
    assert open_files() <= before


def test_no_room_for_a_file(
    team: Team,
    tmp_path: Path,
    file: LlamaFile,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    full = shutil.disk_usage(tmp_path)._replace(free=5)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    assert_made_in_memory(team, file, cache, caplog, "no room")


@pytest.mark.parametrize("place", ["write", "replace"])
def test_a_disk_that_fills(
    team: Team,
    file: LlamaFile,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
) -> None:
    """The disk fills after the check of its room: at a write or at the rename."""

    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if place == "write":
        monkeypatch.setattr(PageChecksum, "digest", fill)  # the checksum is written last
    else:
        monkeypatch.setattr(Path, "replace", fill)
    assert_made_in_memory(team, file, cache, caplog, "No space left on device")


LITTLE_ROOM = """
import logging, os, resource, signal, sys
from pathlib import Path
from ChatTTS.model.velocity.backends.cpu import packing
from tests.support.velocity_models import make_shape, make_team, save_llama, wait_for_writers
logging.basicConfig(format="%(message)s")
packing._MIN_CACHED = 0
team, file = make_team(1), save_llama(Path(sys.argv[1]), make_shape())
os.environ["XDG_CACHE_HOME"] = sys.argv[1]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
weights = packing.packed_weights(team, file, "float32")
wait_for_writers()
assert len(weights.data) > 100_000 and weights.data.count_nonzero() > 40_000
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="this system limits no files")
def test_a_file_that_may_be_no_longer(team: Team, tmp_path: Path) -> None:
    """A child process reaches its limit on file sizes while it writes the file."""
    done = run_python(LITTLE_ROOM, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("packed weights cannot be kept") == 1
    assert "File too large" in done.stderr
    assert list((tmp_path / "chattts-velocity" / "packed").iterdir()) == []


def test_no_thread_for_a_file(
    team: Team,
    file: LlamaFile,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def give_none(thread: threading.Thread) -> None:
        raise OutOfThreadsError("the system gives none")

    monkeypatch.setattr(packed_files, "start_thread", give_none)
    assert_made_in_memory(team, file, cache, caplog, "the system gives none")


def test_what_was_killed_is_cleared_away(team: Team, file: LlamaFile, cache: Path) -> None:
    """Old leftovers of a killed process are removed, even by a start that packs nothing."""
    packed_weights(team, file, "float32")
    (path,) = cache.iterdir()
    old, new = (path.with_name(f"{UNFINISHED}{name}") for name in ("old", "new"))
    for left in (old, new):
        left.write_bytes(b"some")
    os.utime(old, (1, 1))
    packed_weights(team, file, "float32")
    assert set(cache.iterdir()) == {path, new}


def test_a_folder_that_may_only_be_read(
    team: Team, file: LlamaFile, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files in the folder are used."""

    def refuse_time(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    first = packed_weights(team, file, "float32")
    monkeypatch.setattr(LlamaFile, "layer", refuse)
    monkeypatch.setattr(os, "utime", refuse_time)
    assert packed_weights(team, file, "float32").data.equal(first.data)


def test_no_folder_for_a_file(team: Team, tmp_path: Path, file: LlamaFile, cache: Path) -> None:
    (tmp_path / "cache").write_text("a file is where the folder should be")
    weights = packed_weights(team, file, "int8")
    norm = weights.data[weights.offsets[-1, "final_norm"] :][: 4 * 64].view(torch.float32)
    assert norm.equal(file.final_norm())


def test_an_interruption_leaves_nothing(
    team: Team, file: LlamaFile, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_files()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LlamaFile, "final_norm", interrupt)
    with pytest.raises(KeyboardInterrupt):
        packed_weights(team, file, "float32")
    assert list(cache.iterdir()) == []
    assert open_files() <= before


def test_only_the_last_few_files_are_kept(team: Team, file: LlamaFile, cache: Path) -> None:
    packed_weights(team, file, "float32")
    (always,) = cache.iterdir()
    for number in range(8):
        os.utime(file.path, ns=(number, number))
        packed_weights(team, file, "int8")
        for path in cache.iterdir():  # time goes by
            os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 10**10))
        os.utime(always)  # as its use would
        assert len(list(cache.iterdir())) <= packed_files.FILES_KEPT
    assert always.exists()
    assert len(list(cache.iterdir())) == packed_files.FILES_KEPT


def test_the_files_of_all_ranks_are_kept(
    team: Team, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else ranks would remove one another's files, and each start would pack some anew."""
    shape = make_shape(kv_heads=4)
    file = save_llama(tmp_path, shape)
    shards = [Shard(shape, rank, 4, stage, 2) for rank in range(4) for stage in range(2)]
    for shard in shards:
        packed_weights(team, file, "int8", shard)
    assert len(list(cache.iterdir())) == len(shards) > packed_files.FILES_KEPT
    monkeypatch.setattr(LlamaFile, "layer", refuse)
    for shard in shards:
        packed_weights(team, file, "int8", shard)


def test_a_use_makes_a_file_recent(team: Team, file: LlamaFile, cache: Path) -> None:
    packed_weights(team, file, "float32")
    (path,) = cache.iterdir()
    os.utime(path, (1, 1))
    packed_weights(team, file, "float32")
    assert path.stat().st_mtime > 1


def test_a_small_model_needs_no_file(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    packed_weights(team, save_llama(tmp_path, make_shape()), "float32")
    assert not (tmp_path / "cache").exists()
