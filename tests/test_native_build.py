"""The kernels are compiled once and kept, and where that cannot be the engine says why and goes
on without them. A script stands in for the compiler where its result does not matter."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from numpy.linalg import _umath_linalg  # some shared library that is at hand

from ChatTTS.kept_files import KeptFolder
from ChatTTS.model.native import build, library
from ChatTTS.model.native.build import BuildError
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.llama import TorchLlama
from ChatTTS.model.velocity.model_loader import LoadedModel, ModelLoader

from .chat_tools import DATA
from .file_tools import give_to_another_user
from .velocity_models import make_team

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")

# $@ ends with: velocity.cpp -o FILE
COPY = 'for last; do :; done; echo run >> "$LOG"; cp "$KERNELS" "$last"'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; what this process has loaded already does not count."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "load", library.load.__wrapped__)
    return tmp_path / "cache" / "chattts-velocity" / "kernels"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files lie, of this process and of those that it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes a shell script the compiler."""

    def make(script: str) -> Path:
        path = tmp_path / "fake-c++"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))
        monkeypatch.setenv("LOG", str(tmp_path / "log"))
        return tmp_path / "log"

    return make


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real kernels of this machine."""
    make_team(1)
    path = tmp_path_factory.mktemp("compiled") / "kernels.so"
    path.write_bytes(build.library().code)
    return path


def load() -> LoadedModel:
    args = EngineArgs(DATA / "model-a", device="cpu", num_threads=1)
    return ModelLoader(args.create_engine_config()).load()


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def assert_falls_back(caplog: pytest.LogCaptureFixture, why: str) -> None:
    """Torch computes, and one warning says why the kernels do not."""
    caplog.clear()
    assert isinstance(load().llama, TorchLlama)
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert why in warnings[0]


def test_kept_kernels_are_not_compiled_again(
    cache: Path, compiler: Callable[[str], Path], compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELS", str(compiled))
    log = compiler(COPY)
    first, second = build.library(), build.library()
    assert first.code == second.code == compiled.read_bytes()
    assert (first.new, second.new) == (True, False)
    assert log.read_text() == "run\n"
    assert list(cache.iterdir()) == [first.path] == [second.path]  # nothing else is left there
    team = library.Team(1)
    held = torch.empty(team.packed_bytes("float32", 2, 3), dtype=torch.uint8)
    team.pack(torch.arange(6.0).view(2, 3), "float32", held)
    assert team.product(torch.ones(1, 3), held, "float32", 2).tolist() == [[3.0, 12.0]]


def test_the_name_tells_compiler_sources_and_machine(
    compiler: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler("true")
    names = {build.name()}
    monkeypatch.setattr(build, "_texts", lambda: ["another source"])
    names.add(build.name())
    monkeypatch.setattr(build, "_machine", lambda: "another machine")
    names.add(build.name())
    monkeypatch.setenv("CXX", os.environ["CXX"] + " -DOTHER")
    names.add(build.name())
    assert len(names) == 4


def test_the_named_processor_is_the_one_compiled_for(
    cache: Path, compiler: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler("true")
    assert "-march=native" in build._compiler() or "-mcpu=native" in build._compiler()
    monkeypatch.setenv("CXX", os.environ["CXX"] + " -march=x86-64-v2")
    named = [part for part in build._compiler() if part.startswith(("-march", "-mcpu"))]
    assert named == ["-march=x86-64-v2"]


def test_a_named_compiler_that_is_not_there(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler --fast")
    with pytest.raises(BuildError, match=r"no C\+\+ compiler was found \(no-such-compiler\).* CXX"):
        build.library()
    assert_falls_back(caplog, "no-such-compiler")


def test_no_compiler_at_all(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BuildError, match=r"c\+\+, g\+\+, clang\+\+"):
        build.library()
    assert_falls_back(caplog, "install one")
    assert not cache.exists()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'velocity.cpp:1: what is this?' >&2; echo more >&2; exit 3", "what is this"),
        ("exit 3", "exit status 3"),
        ("printf 'caf\\351: no such file' >&2; exit 1", "no such file"),
        ("exit 0", "could not make"),
        ("kill -9 $$", "exit status -9"),
    ],
)
def test_a_compiler_that_fails(
    cache: Path,
    temporary: Path,
    compiler: Callable[[str], Path],
    caplog: pytest.LogCaptureFixture,
    script: str,
    why: str,
) -> None:
    compiler(script)
    with pytest.raises(BuildError, match=why) as raised:
        build.library()
    assert "fake-c++" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert_falls_back(caplog, why)
    assert not cache.exists()
    assert list(temporary.iterdir()) == []


def test_a_compiler_that_hangs(
    cache: Path, temporary: Path, compiler: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler("exec sleep 60")
    monkeypatch.setattr(build, "_SECONDS", 1)
    with pytest.raises(BuildError, match="timed out"):
        build.library()
    assert list(temporary.iterdir()) == []


def test_a_compiler_that_cannot_be_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "c++ 'no end")
    with pytest.raises(BuildError, match="CXX"):
        build.library()


# ---------------------------------------------------------------- what is kept


def damage(cache: Path, how: Callable[[bytes], bytes]) -> Path:
    """Change what is kept in place, as a disk does."""
    (file,) = cache.iterdir()
    file.write_bytes(how(file.read_bytes()))
    return file


def flip(content: bytes) -> bytes:
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def zero(content: bytes) -> bytes:
    return content[:4096] + bytes(4096) + content[8192:]


@pytest.mark.parametrize(
    "how",
    [
        lambda content: b"",
        lambda content: content[:100],
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: content + b"more",
        lambda content: bytes(len(content)),
        flip,
        zero,
    ],
    ids=["empty", "cut", "half", "almost", "longer", "zeros", "a bit", "a page"],
)
def test_damaged_kernels_are_compiled_anew(
    cache: Path,
    compiler: Callable[[str], Path],
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    how: Callable[[bytes], bytes],
) -> None:
    monkeypatch.setenv("KERNELS", str(compiled))
    log = compiler(COPY)
    build.library()
    file = damage(cache, how)
    found = build.library()
    assert found.code == compiled.read_bytes()
    assert [record.getMessage() for record in caplog.records] == [
        f"{file} was damaged; the CPU kernels were compiled anew"
    ]
    assert list(cache.iterdir()) == [file]
    assert file.read_bytes() == found.code
    assert not build.library().new
    assert log.read_text() == "run\nrun\n"


CUT_WHILE_LOADED = """
from ChatTTS.kept_files import KeptFolder
from ChatTTS.model.native import build, library
team = library.Team(2)
build.library().path.open("r+b").truncate(0)
assert library.Team(1).packed_bytes("int8", 100, 100) > 0
print(team.about)
"""


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system loads files by their path")
def test_kernels_that_are_cut_while_they_are_loaded(
    cache: Path, compiler: Callable[[str], Path], compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, which the signal of a missing page would end."""
    monkeypatch.setenv("KERNELS", str(compiled))
    compiler(COPY)
    done = run_python(CUT_WHILE_LOADED)
    assert (done.returncode, done.stdout.strip()) == (0, library.Team(1).about), done.stderr


@pytest.mark.parametrize("memory", ["none", "refused"])
def test_kernels_of_a_system_without_files_in_memory(
    cache: Path,
    compiler: Callable[[str], Path],
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
    memory: str,
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "not allowed")

    if memory == "none":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    else:
        monkeypatch.setattr(os, "memfd_create", refuse, raising=False)
    monkeypatch.setenv("KERNELS", str(compiled))
    compiler(COPY)
    assert library.load().velocity_build()
    monkeypatch.setattr(KeptFolder, "_check", refuse)  # nor where they may be kept
    assert library.load().velocity_build()


def test_kernels_of_another_user_are_compiled_anew(
    cache: Path,
    compiler: Callable[[str], Path],
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("KERNELS", str(compiled))
    log = compiler(COPY)
    build.library()
    (file,) = cache.iterdir()
    file.chmod(0o664)
    assert build.library().new
    assert stat.S_IMODE(file.stat().st_mode) & 0o022 == 0
    assert caplog.messages == [
        f"{file} may be written by other users (mode 0664); the CPU kernels were compiled anew"
    ]
    planted = file.with_name("planted")
    file.rename(planted)
    file.symlink_to(planted)
    assert build.library().new
    assert not file.is_symlink()
    assert caplog.messages[1:] == [f"{file} is a link; the CPU kernels were compiled anew"]
    assert log.read_text() == "run\n" * 3


def test_a_cache_folder_of_another_user(
    cache: Path,
    compiler: Callable[[str], Path],
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing there is read or written; the kernels work all the same, and one warning says so."""
    monkeypatch.setenv("KERNELS", str(compiled))
    log = compiler(COPY)
    build.library()
    before = {path: path.stat() for path in cache.iterdir()}
    give_to_another_user(cache, monkeypatch)
    caplog.clear()
    assert not isinstance(load().llama, TorchLlama)
    assert len(caplog.messages) == 1
    assert "belongs to another user" in caplog.text
    assert "every start compiles them anew" in caplog.text
    assert "XDG_CACHE_HOME" in caplog.text
    assert log.read_text() == "run\n" * 2
    assert {path: path.stat() for path in cache.iterdir()} == before


def test_what_is_kept_by_another_system(
    cache: Path, compiler: Callable[[str], Path], compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, and yet not loaded here: it is compiled once more, for good."""
    compiler(f'for last; do :; done; cp "{_umath_linalg.__file__}" "$last"')
    build.library()
    monkeypatch.setenv("KERNELS", str(compiled))
    log = compiler(COPY)
    for _ in range(2):
        assert library.load().velocity_build()
    assert log.read_text() == "run\n"


@pytest.mark.parametrize("content", [b"", b"no library", b"\x7fELF" + bytes(100)])
def test_a_compiler_that_makes_no_library(
    tmp_path: Path,
    cache: Path,
    compiler: Callable[[str], Path],
    caplog: pytest.LogCaptureFixture,
    content: bytes,
) -> None:
    (tmp_path / "made").write_bytes(content)
    compiler(f'for last; do :; done; cp "{tmp_path}/made" "$last"')
    for _ in range(2):  # the second time it is kept
        with pytest.raises(BuildError, match=r"do not load .*CXX"):
            library.load()
        assert_falls_back(caplog, "do not load")


def test_a_library_of_something_else_is_named(cache: Path, compiler: Callable[[str], Path]) -> None:
    compiler(f'for last; do :; done; cp "{_umath_linalg.__file__}" "$last"')
    with pytest.raises(BuildError, match=r"velocity_build.*CXX"):
        library.load()


# ---------------------------------------------------------------- no place to keep it


def assert_works_unkept(caplog: pytest.LogCaptureFixture, why: str) -> None:
    """The kernels compute, and one warning says why they are not kept."""
    caplog.clear()
    assert not isinstance(load().llama, TorchLlama)
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "every start compiles them anew" in warnings[0]
    assert why in warnings[0]


def test_a_cache_folder_that_cannot_be_made(
    tmp_path: Path,
    cache: Path,
    compiler: Callable[[str], Path],
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("KERNELS", str(compiled))
    compiler(COPY)
    (tmp_path / "cache").write_text("a file is where the folder should be")
    assert_works_unkept(caplog, str(tmp_path / "cache"))


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT])
def test_a_cache_folder_that_takes_nothing(
    cache: Path,
    temporary: Path,
    compiler: Callable[[str], Path],
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: int,
) -> None:
    """Read-only from the first byte, or full at the last one."""
    monkeypatch.setenv("KERNELS", str(compiled))
    compiler(COPY)

    def refuse(handle: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", refuse)
    assert_works_unkept(caplog, os.strerror(error))
    assert list(cache.iterdir()) == list(temporary.iterdir()) == []


def test_a_cache_folder_that_cannot_be_read(
    cache: Path,
    compiler: Callable[[str], Path],
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("KERNELS", str(compiled))
    compiler(COPY)

    def forbid(path: Path) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    cache.mkdir(parents=True)
    monkeypatch.setattr(os, "listdir", forbid)
    assert_works_unkept(caplog, "Permission denied")


def test_no_room_among_temporary_files(
    cache: Path,
    temporary: Path,
    compiler: Callable[[str], Path],
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KERNELS", str(compiled))
    log = compiler(COPY.replace("cp ", 'echo "$last" >> "$LOG"; cp '))
    usage = shutil.disk_usage
    full = usage(temporary)._replace(free=1)
    monkeypatch.setattr(
        build.shutil, "disk_usage", lambda path: full if path == temporary else usage(path)
    )
    build.library()
    assert Path(log.read_text().splitlines()[1]).parent.parent == cache
    monkeypatch.setattr(build.shutil, "disk_usage", lambda path: full)
    with pytest.raises(BuildError, match=r"less than 64 MB of room; .*less than 64 MB of room"):
        build.library(anew=True)


LITTLE_ROOM = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))
from tests.test_native_build import load
print(type(load().llama).__name__)
"""


@pytest.mark.parametrize(
    ("room", "llama"), [("100_000", "TorchLlama"), ("resource.RLIM_INFINITY", "NativeLlama")]
)
def test_files_may_be_no_longer(
    cache: Path,
    temporary: Path,
    compiler: Callable[[str], Path],
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
    room: str,
    llama: str,
) -> None:
    monkeypatch.setenv("KERNELS", str(compiled))
    compiler(COPY + " || exit 1")
    done = run_python(LITTLE_ROOM.replace("ROOM", room))
    assert (done.returncode, done.stdout.strip()) == (0, llama), done.stderr
    assert done.stderr.count("velocity computes with torch alone") == (llama == "TorchLlama")
    assert list(temporary.iterdir()) == []


KILLED = """
from ChatTTS.model.native import build
build.library()
"""


def test_a_build_that_was_killed(
    cache: Path,
    temporary: Path,
    compiler: Callable[[str], Path],
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it left is cleared away once it is old; what is new may belong to a build at work."""
    monkeypatch.setenv("KERNELS", str(compiled))
    compiler("kill -9 $PPID; sleep 0.2")
    assert run_python(KILLED).returncode == -signal.SIGKILL
    (left,) = temporary.iterdir()
    compiler(COPY)
    build.library()
    assert list(temporary.iterdir()) == [left]
    os.utime(left, (1, 1))
    build.library(anew=True)
    assert list(temporary.iterdir()) == []


def test_the_compiler_keeps_its_own_files_there(
    cache: Path, temporary: Path, compiler: Callable[[str], Path]
) -> None:
    compiler('for last; do :; done; echo "$TMPDIR" > "$last"; echo > "$TMPDIR/left"')
    assert Path(build.library().code.decode().strip()).parent == temporary
    assert list(temporary.iterdir()) == []


# ---------------------------------------------------------------- two at once


def test_two_at_once_make_it_whole(
    cache: Path, compiler: Callable[[str], Path], compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both compile, and whoever comes last replaces a whole file by a whole file."""
    monkeypatch.setenv("KERNELS", str(compiled))
    # Each waits until the other has begun, too.
    log = compiler(
        COPY.replace("cp ", 'while [ $(wc -l < "$LOG") -lt 2 ]; do sleep 0.01; done; cp ')
    )
    code = (
        "from ChatTTS.model.native import build, library; library.load(); "
        "print(build.library().path)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: list[build.Library] = []
    thread = threading.Thread(target=lambda: found.append(build.library()))
    thread.start()
    said, _ = other.communicate(timeout=120)
    thread.join(60)
    assert [str(each.path) for each in found] == [said.strip()]
    assert log.read_text() == "run\nrun\n"
    assert list(cache.iterdir()) == [found[0].path]
    assert found[0].code == compiled.read_bytes()
    library.load()


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_the_library_needs_nothing_but_the_system(compiled: Path) -> None:
    """It is kept for years: no torch, no Python, and no folder of anybody's."""
    needed = subprocess.run(
        ["readelf", "-d", str(compiled)], capture_output=True, text=True, check=True
    ).stdout
    assert "torch" not in needed
    assert "python" not in needed
    assert "PATH" not in needed
