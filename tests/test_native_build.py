"""The kernels are compiled once and kept, and where that cannot be the engine says why and goes
on without them. A script stands in for the compiler where its result does not matter."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from numpy.linalg import _umath_linalg  # some shared library that is at hand

from ChatTTS.model.native import build, library
from ChatTTS.model.native.build import BuildError
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.llama import TorchLlama
from ChatTTS.model.velocity.model_loader import LoadedModel, ModelLoader

from .chat_tools import DATA
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
def compiled() -> Path:
    """The real kernels of this machine."""
    make_team(1)
    return build.library()


def load() -> LoadedModel:
    args = EngineArgs(DATA / "model-a", device="cpu", num_threads=1)
    return ModelLoader(args.create_engine_config()).load()


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
    first = build.library()
    assert first.parent == cache
    assert build.library() == first
    assert log.read_text() == "run\n"
    assert list(cache.iterdir()) == [first]  # nothing else is left there
    team = library.Team(1)
    held = torch.empty(team.packed_bytes("float32", 2, 3), dtype=torch.uint8)
    team.pack(torch.arange(6.0).view(2, 3), "float32", held)
    assert team.product(torch.ones(1, 3), held, "float32", 2).tolist() == [[3.0, 12.0]]


def test_the_name_tells_compiler_sources_and_machine(
    cache: Path, compiler: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler('for last; do :; done; echo > "$last"')
    names = {build.library().name}
    monkeypatch.setattr(build, "_texts", lambda: ["another source"])
    names.add(build.library().name)
    monkeypatch.setattr(build, "_machine", lambda: "another machine")
    names.add(build.library().name)
    monkeypatch.setenv("CXX", os.environ["CXX"] + " -DOTHER")
    names.add(build.library().name)
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
    assert list(cache.iterdir()) == []


def test_a_compiler_that_hangs(
    cache: Path, compiler: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler("exec sleep 60")
    monkeypatch.setattr(build, "_SECONDS", 1)
    with pytest.raises(BuildError, match="timed out"):
        build.library()
    assert list(cache.iterdir()) == []


def test_a_compiler_that_cannot_be_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "c++ 'no end")
    with pytest.raises(BuildError, match="CXX"):
        build.library()


def test_a_cache_folder_that_cannot_be_made(
    tmp_path: Path,
    cache: Path,
    compiler: Callable[[str], Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    compiler("exit 0")
    (tmp_path / "cache").write_text("a file is where the folder should be")
    with pytest.raises(BuildError, match="could not make"):
        build.library()
    assert_falls_back(caplog, str(cache))


def test_a_cache_folder_that_cannot_be_read(
    cache: Path,
    compiler: Callable[[str], Path],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler("exit 0")
    stat = Path.stat

    def forbid(path: Path, **how: bool) -> os.stat_result:
        if path.suffix == ".so":
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", forbid)
    with pytest.raises(BuildError, match="Permission denied"):
        build.library()
    assert_falls_back(caplog, "Permission denied")


@pytest.mark.parametrize("content", [b"", b"no library", b"\x7fELF" + bytes(100)])
def test_a_damaged_library_is_named(
    cache: Path,
    compiler: Callable[[str], Path],
    caplog: pytest.LogCaptureFixture,
    content: bytes,
) -> None:
    compiler('for last; do :; done; echo > "$last"')
    file = build.library()
    file.write_bytes(content)
    with pytest.raises(BuildError, match="delete it") as raised:
        library.load()
    assert str(file) in str(raised.value)
    assert_falls_back(caplog, str(file))


def test_a_library_of_something_else_is_named(cache: Path, compiler: Callable[[str], Path]) -> None:
    compiler(f'for last; do :; done; cp "{_umath_linalg.__file__}" "$last"')
    with pytest.raises(BuildError, match=r"velocity_build.*delete it"):
        library.load()


def test_two_at_once_make_it_whole(
    cache: Path, compiler: Callable[[str], Path], compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both compile, and whoever comes last replaces a whole file by a whole file."""
    monkeypatch.setenv("KERNELS", str(compiled))
    # Each waits until the other has begun, too.
    log = compiler(
        COPY.replace("cp ", 'while [ $(wc -l < "$LOG") -lt 2 ]; do sleep 0.01; done; cp ')
    )
    code = "from ChatTTS.model.native import library; print(library.load()._name)"
    other = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: list[Path] = []
    thread = threading.Thread(target=lambda: found.append(build.library()))
    thread.start()
    said, _ = other.communicate(timeout=120)
    thread.join(60)
    assert [str(path) for path in found] == [said.strip()]
    assert log.read_text() == "run\nrun\n"
    assert list(cache.iterdir()) == found
    assert found[0].read_bytes() == compiled.read_bytes()
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
