"""Rules of the house for all files of Python that a parser can check."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from .support.places import ROOT


def sources() -> list[Path]:
    folders = ("ChatTTS", "tests", "benchmarks", "examples")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def test_files_are_short() -> None:
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sources()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) >= 500
    }
    assert long == {}


def test_a_device_is_never_named_by_a_call() -> None:
    calls = [
        f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"
        for path in sorted((ROOT / "ChatTTS").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "cuda"
    ]
    assert calls == []


def test_no_file_names_a_path_of_one_machine() -> None:
    place = re.compile(r"(?<![\w.:/-])/(?:home|root|tmp|opt|mnt|srv|work\w*|Users)/\w")
    others = ["Makefile", ".ci/run", "pyproject.toml", "constraints.txt"]
    found = {
        f"{path.relative_to(ROOT).as_posix()}:{number}"
        for path in [*sources(), *(ROOT / name for name in others)]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if place.search(line)
    }
    assert found == set()
