"""Cached kernels are whole and belong to this user.

Where none can be cached, they are compiled at every start, and one warning says why.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from numpy.linalg import _umath_linalg  # some shared library that is at hand

from ChatTTS.model.kernels.cpu import build, library
from ChatTTS.model.kernels.cpu.build import BuildError
from ChatTTS.model.velocity.layers import Llama
from ChatTTS.utils.cache_files import CacheFolder

from ....support.file_tools import give_to_another_user
from ....support.native_tools import COPY, Workshop, assert_falls_back, load, run_python
from ....support.places import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return Workshop(tmp_path, monkeypatch)


# ---------------------------------------------------------------- what is kept


def damage(cache: Path, how: Callable[[bytes], bytes]) -> Path:
    """Damage the kept kernels in place, as a failing disk does."""
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
    workshop: Workshop,
    caplog: pytest.LogCaptureFixture,
    how: Callable[[bytes], bytes],
) -> None:
    build.library()
    file = damage(workshop.cache, how)
    found = build.library()
    assert found.code == workshop.compiled.read_bytes()
    assert [record.getMessage() for record in caplog.records] == [
        f"{file} was damaged; the CPU kernels were compiled again"
    ]
    assert list(workshop.cache.iterdir()) == [file]
    assert file.read_bytes() == found.code
    assert not build.library().new
    assert workshop.runs == 2


CUT_WHILE_LOADED = """
from ChatTTS.model.kernels.cpu import build, library
team = library.Team(2)
build.library().path.open("r+b").truncate(0)
assert library.Team(1).packed_bytes("int8", 100, 100) > 0
print(team.about)
"""


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system loads files by their path")
@pytest.mark.slow
def test_kernels_that_are_cut_while_they_are_loaded(workshop: Workshop) -> None:
    """The child process would be ended by the signal of a missing page (SIGBUS)."""
    done = run_python(CUT_WHILE_LOADED)
    assert (done.returncode, done.stdout.strip()) == (0, library.Team(1).about), done.stderr


@pytest.mark.parametrize("memory", ["none", "refused"])
def test_kernels_of_a_system_without_files_in_memory(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "not allowed")

    if memory == "none":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    else:
        monkeypatch.setattr(os, "memfd_create", refuse, raising=False)
    assert library.load().chattts_build()
    monkeypatch.setattr(CacheFolder, "_check", refuse)  # nor where kernels may be kept
    assert library.load().chattts_build()


def test_kernels_of_another_user_are_compiled_anew(
    workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    build.library()
    (file,) = workshop.cache.iterdir()
    file.chmod(0o664)
    assert build.library().new
    assert stat.S_IMODE(file.stat().st_mode) & 0o022 == 0
    assert caplog.messages == [
        f"{file} may be written by other users (mode 0664); the CPU kernels were compiled again"
    ]
    planted = file.with_name("planted")
    file.rename(planted)
    file.symlink_to(planted)
    assert build.library().new
    assert not file.is_symlink()
    assert caplog.messages[1:] == [f"{file} is a link; the CPU kernels were compiled again"]
    assert workshop.runs == 3


def test_a_cache_folder_of_another_user(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder is neither read nor written; the kernels still work, and one warning says so."""
    build.library()
    before = {path: path.stat() for path in workshop.cache.iterdir()}
    give_to_another_user(workshop.cache, monkeypatch)
    caplog.clear()
    assert not isinstance(load().llama, Llama)
    assert len(caplog.messages) == 1
    assert "belongs to another user" in caplog.text
    assert "every start compiles them again" in caplog.text
    assert "XDG_CACHE_HOME" in caplog.text
    assert workshop.runs == 2
    assert {path: path.stat() for path in workshop.cache.iterdir()} == before


def test_what_is_kept_by_another_system(workshop: Workshop) -> None:
    """A whole library that this system cannot load is compiled anew once, and kept."""
    other = Path(_umath_linalg.__file__).read_bytes()
    build._write_cache(CacheFolder("kernels"), build._name(build._compiler()), other)
    for _ in range(2):
        assert library.load().chattts_build()
    assert workshop.runs == 1


@pytest.mark.parametrize("content", [b"", b"no library", b"\x7fELF" + bytes(100)])
def test_a_compiler_that_makes_no_library(
    workshop: Workshop, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / "made").write_bytes(content)
    workshop.compiler(f'for last; do :; done; cp "{tmp_path}/made" "$last"')
    for _ in range(2):  # the second time it is kept
        with pytest.raises(BuildError, match=r"do not load .*CXX"):
            library.load()
        assert_falls_back(caplog, "do not load")


def test_a_library_of_something_else_is_named(workshop: Workshop) -> None:
    workshop.compiler(f'for last; do :; done; cp "{_umath_linalg.__file__}" "$last"')
    with pytest.raises(BuildError, match=r"chattts_build.*CXX"):
        library.load()


# ---------------------------------------------------------------- no place to keep it


def assert_works_unkept(caplog: pytest.LogCaptureFixture, why: str) -> None:
    """The kernels compute, and one warning says why they are not kept."""
    caplog.clear()
    assert not isinstance(load().llama, Llama)
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "every start compiles them again" in warnings[0]
    assert why in warnings[0]


def test_a_cache_folder_that_cannot_be_made(
    workshop: Workshop,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "cache").write_text("a file is where the folder should be")
    assert_works_unkept(caplog, str(tmp_path / "cache"))


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT])
def test_a_cache_folder_that_takes_nothing(
    workshop: Workshop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: int,
) -> None:
    """The disk is read-only from the first byte, or full at the last one."""

    def refuse(handle: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", refuse)
    assert_works_unkept(caplog, os.strerror(error))
    assert list(workshop.cache.iterdir()) == list(workshop.temporary.iterdir()) == []


def test_a_cache_folder_that_cannot_be_read(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def forbid(path: Path) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    workshop.cache.mkdir(parents=True)
    monkeypatch.setattr(os, "listdir", forbid)
    assert_works_unkept(caplog, "Permission denied")


def test_no_room_among_temporary_files(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop.compiler(COPY.replace("cp ", 'echo "$last" >> "$LOG"; cp '))
    usage = shutil.disk_usage
    full = usage(workshop.temporary)._replace(free=1)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: full if path == workshop.temporary else usage(path)
    )
    build.library()
    assert Path(workshop.log.read_text().splitlines()[1]).parent.parent == workshop.cache
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(BuildError, match=r"less than 64 MB of room; .*less than 64 MB of room"):
        build.library(anew=True)


LITTLE_ROOM = """
import resource, signal
from ChatTTS.model.kernels.cpu import build
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    build.library()
except build.BuildError as error:
    print(error)
"""


@pytest.mark.slow
def test_files_may_be_no_longer(workshop: Workshop) -> None:
    """The limit on file sizes ends the compiler half-way, in a process of its own."""
    workshop.compiler(COPY + " || exit 1")
    done = run_python(LITTLE_ROOM)
    assert re.search(r"File (too large|size limit exceeded)", done.stdout), done.stderr
    assert list(workshop.temporary.iterdir()) == []


KILLED = """
from ChatTTS.model.kernels.cpu import build
build.library()
"""


@pytest.mark.slow
def test_a_build_that_was_killed(workshop: Workshop) -> None:
    """Old leftovers are removed; new files stay, since they may belong to a running build."""
    workshop.compiler("kill -9 $PPID; sleep 0.2")
    assert run_python(KILLED).returncode == -signal.SIGKILL
    (left,) = workshop.temporary.iterdir()
    workshop.compiler(COPY)
    build.library()
    assert list(workshop.temporary.iterdir()) == [left]
    os.utime(left, (1, 1))
    build.library(anew=True)
    assert list(workshop.temporary.iterdir()) == []


def test_the_compiler_keeps_its_own_files_there(workshop: Workshop) -> None:
    workshop.compiler('for last; do :; done; echo "$TMPDIR" > "$last"; echo > "$TMPDIR/left"')
    assert Path(build.library().code.decode().strip()).parent == workshop.temporary
    assert list(workshop.temporary.iterdir()) == []


# ---------------------------------------------------------------- two at once


@pytest.mark.slow
def test_two_at_once_make_it_whole(workshop: Workshop) -> None:
    """Both processes compile, and the last one replaces a whole file by a whole file."""
    # Each process waits until the other one has begun, too.
    workshop.compiler(
        COPY.replace("cp ", 'while [ $(wc -l < "$LOG") -lt 2 ]; do sleep 0.01; done; cp ')
    )
    code = (
        "from ChatTTS.model.kernels.cpu import build, library; library.load(); "
        "print(build.library().path)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: list[build.Library] = []
    thread = threading.Thread(target=lambda: found.append(build.library()))
    thread.start()
    said, _ = other.communicate(timeout=120)
    thread.join(60)
    assert [str(each.path) for each in found] == [said.strip()]
    assert workshop.runs == 2
    assert list(workshop.cache.iterdir()) == [found[0].path]
    assert found[0].code == workshop.compiled.read_bytes()
    library.load()
