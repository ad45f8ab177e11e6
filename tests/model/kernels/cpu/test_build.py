"""The kernels are compiled once and kept.

Where they cannot be compiled, the engine says why and goes on without them. A script stands in for
the compiler where its result does not matter.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ChatTTS.model.kernels.cpu import build, library
from ChatTTS.model.kernels.cpu.build import BuildError

from ....support.native_tools import Workshop, assert_falls_back

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")


def name() -> str:
    return build._name(build._compiler())


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return Workshop(tmp_path, monkeypatch)


def test_kept_kernels_are_not_compiled_again(workshop: Workshop) -> None:
    first, second = build.library(), build.library()
    assert first.code == second.code == workshop.compiled.read_bytes()
    assert (first.new, second.new) == (True, False)
    assert workshop.runs == 1
    # No other file is left in the cache.
    assert list(workshop.cache.iterdir()) == [first.path] == [second.path]
    team = library.Team(1)
    held = torch.empty(team.packed_bytes("float32", 2, 3), dtype=torch.uint8)
    team.pack(torch.arange(6.0).view(2, 3), "float32", held)
    assert team.product(torch.ones(1, 3), held, "float32", 2).tolist() == [[3.0, 12.0]]


def test_the_first_start_says_why_it_waits(
    workshop: Workshop,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without logging set up, the line is on standard error."""
    build.library()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "compiling the CPU kernels" in said
    assert "once on this machine" in said
    build.library()
    assert capsys.readouterr().err == ""
    with caplog.at_level(logging.INFO, "ChatTTS"):
        build.library(anew=True)
    assert capsys.readouterr().err == ""
    assert "compiling the CPU kernels" in caplog.text


def test_the_name_tells_compiler_sources_and_machine(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.compiler("true")
    names = {name()}
    monkeypatch.setattr(build, "sources", lambda: "other sources")
    names.add(name())
    monkeypatch.setattr(build, "_machine", lambda: "another machine")
    names.add(name())
    monkeypatch.setenv("CXX", os.environ["CXX"] + " -DOTHER")
    names.add(name())
    assert len(names) == 4


def test_the_named_processor_is_the_one_compiled_for(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.compiler("true")
    assert "-march=native" in build._compiler() or "-mcpu=native" in build._compiler()
    monkeypatch.setenv("CXX", os.environ["CXX"] + " -march=x86-64-v2")
    named = [part for part in build._compiler() if part.startswith(("-march", "-mcpu"))]
    assert named == ["-march=x86-64-v2"]


def test_a_named_compiler_that_is_not_there(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler --fast")
    with pytest.raises(BuildError, match=r"no C\+\+ compiler was found \(no-such-compiler\).* CXX"):
        build.library()
    assert_falls_back(caplog, "no-such-compiler")


def test_no_compiler_at_all(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(build, "find_prebuilt", lambda variant: None)
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    with pytest.raises(BuildError, match=r"c\+\+, g\+\+, clang\+\+.* pip install ziglang"):
        build.library()
    assert_falls_back(caplog, "install one")
    assert not workshop.cache.exists()


def test_the_compiler_of_zig_where_there_is_no_other(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(build, "find_spec", lambda name: name == "ziglang")
    monkeypatch.setattr("ChatTTS.model.devices.instruction_sets.allows_amx", lambda: True)
    command = build._compiler()
    assert command[:4] == [sys.executable, "-m", "ziglang", "c++"]
    assert "-mcpu=native" in command


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'kernels.cpp:1: what is this?' >&2; echo more >&2; exit 3", "what is this"),
        ("exit 3", "exit status 3"),
        ("printf 'caf\\351: no such file' >&2; exit 1", "no such file"),
        ("exit 0", "could not make"),
        ("kill -9 $$", "exit status -9"),
    ],
)
def test_a_compiler_that_fails(
    workshop: Workshop, caplog: pytest.LogCaptureFixture, script: str, why: str
) -> None:
    workshop.compiler(script)
    with pytest.raises(BuildError, match=why) as raised:
        build.library()
    assert "fake-c++" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert_falls_back(caplog, why)
    assert not workshop.cache.exists()
    assert list(workshop.temporary.iterdir()) == []


def test_a_compiler_that_hangs(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop.compiler("exec sleep 60")
    monkeypatch.setattr(build, "_SECONDS", 1)
    with pytest.raises(BuildError, match="timed out"):
        build.library()
    assert list(workshop.temporary.iterdir()) == []


def test_a_compiler_that_cannot_be_named(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "c++ 'no end")
    with pytest.raises(BuildError, match="CXX"):
        build.library()


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_the_library_needs_nothing_but_the_system(workshop: Workshop) -> None:
    """The library is kept for years, so it needs no torch, no Python and no user's folder."""
    needed = subprocess.run(
        ["readelf", "-d", str(workshop.compiled)], capture_output=True, text=True, check=True
    ).stdout
    assert "torch" not in needed
    assert "python" not in needed
    assert "PATH" not in needed
