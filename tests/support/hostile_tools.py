"""Hostile checkpoints: a small good one with one change, and a child process that tries them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from .places import DATA, ROOT

GOOD = DATA / "model-a"
CONFIG, LLAMA = "config.json", "gpt/config.json"
ENGINES = ("standard", "velocity")
# Seconds of CPU time for one checkpoint; a load of the good one takes 0.1 s.
SECONDS = 2.0
# Bytes that resident memory may grow while a checkpoint of 4 MB is tried.
MOST_GROWN = 300 << 20
PATIENCE = 1200


class Raw(str):
    """A piece of literal JSON that ``json.dumps`` makes of no Python value."""


@dataclass(frozen=True)
class Case:
    """One change to the good checkpoint.

    Attributes:
        file: path of the file, relative to ``asset``.
        key: in a JSON file the dotted path to the value; else the name of the change.
        value: the new value.
        says: what the error must name besides the file's last name; ``None`` where speech is fine
            as well.
        make: creates something else at the path of the file.
        also: further changes, each (file, key, value).
        dtype: the dtype that the checkpoint is loaded with.
    """

    file: str
    key: str
    value: Any = None
    says: tuple[str, ...] | None = None
    make: Callable[[Path], object] | None = None
    also: tuple[tuple[str, str, Any], ...] = ()
    dtype: str = "float32"

    @property
    def id(self) -> str:
        return f"{self.file}:{self.key}={str(self.value)[:40]}:{self.dtype}"


@dataclass(frozen=True)
class Answer:
    """The child's answer to a case; see ``hostile_child``."""

    id: str
    stage: str
    error: str | None
    message: str
    own: bool
    grown: int


def build(case: Case, folder: Path) -> Path:
    """Make a checkpoint with the changes of a case; its other files are links to the good ones."""
    changed = {case.file, *(file for file, _, _ in case.also)}
    for path in sorted((GOOD / "asset").rglob("*")):
        name = path.relative_to(GOOD / "asset")
        target = folder / "asset" / name
        if path.is_file() and name.as_posix() not in changed:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path)
    for file in changed:
        target = folder / "asset" / file
        target.parent.mkdir(exist_ok=True)
        own = [(case.key, case.value)] if file == case.file else []
        if file == case.file and case.make is not None:
            case.make(target)
        else:
            others = [(key, value) for name, key, value in case.also if name == file]
            target.write_text(changed_json(file, own + others), encoding="utf-8")
    return folder


def changed_json(file: str, changes: Sequence[tuple[str, Any]]) -> str:
    """Return the text of the good file with changes; an empty key replaces the whole text."""
    source = GOOD / "asset" / file
    values = json.loads(source.read_text("utf-8")) if source.exists() else {}
    raw: dict[str, Raw] = {}
    for key, value in changes:
        if not key:
            return str(value)
        *ways, last = key.split(".")
        part = values
        for way in ways:
            part = part.setdefault(way, {})
        if isinstance(value, Raw):
            mark = f"@@{len(raw)}@@"
            part[last], raw[f'"{mark}"'] = mark, value
        else:
            part[last] = value
    text = json.dumps(values)
    for mark, value in raw.items():
        text = text.replace(mark, value)
    return text


def weights(**changes: Callable[[Tensor], Tensor]) -> Callable[[Path], None]:
    """Return a maker of the weights file; it changes the first tensor with each name ending."""

    def make(path: Path) -> None:
        asset = next(parent for parent in path.parents if parent.name == "asset")
        tensors = load_file(GOOD / "asset" / path.relative_to(asset))
        for end, change in changes.items():
            name = next(name for name in sorted(tensors) if name.endswith(end.replace("__", ".")))
            tensors[name] = change(tensors[name]).contiguous()
        save_file(tensors, path)

    return make


def run(cases: Sequence[tuple[Case, Sequence[str]]], room: Path) -> list[tuple[Case, str, Answer]]:
    """Run a child on each case with its engines; return its answers. It must survive all cases."""
    tried = []
    for number, (case, engines) in enumerate(cases):
        folder = build(case, room / str(number))
        tried += [(case, engine, folder) for engine in engines]
    tried.sort(key=lambda own: own[1])
    orders = [
        {
            "id": case.id,
            "folder": str(folder),
            "good": str(GOOD),
            "engine": engine,
            "dtype": case.dtype,
            "seconds": SECONDS,
        }
        for case, engine, folder in tried
    ]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.hostile_child"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        input="\n".join(map(json.dumps, orders)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    answers = [Answer(**json.loads(line)) for line in done.stdout.splitlines()]
    following = orders[len(answers)]["id"] if len(answers) < len(orders) else None
    assert done.returncode == 0, f"at {following}: {done.returncode} {done.stderr[-2000:]}"
    return [
        (case, engine, answer) for (case, engine, _), answer in zip(tried, answers, strict=True)
    ]


def complaint(case: Case, answer: Answer) -> str | None:
    """Return what is wrong with an answer, or ``None``."""
    if answer.grown > MOST_GROWN:
        return f"takes {answer.grown >> 20} MB"
    if answer.stage == "spoke":
        return None if case.says is None else "is accepted"
    if not answer.own:
        return f"is a raw {answer.error} at {answer.stage}: {answer.message}"
    if len(answer.message) > 1500 or "\n" in answer.message.strip():
        return f"is told at length: {answer.message[:300]}"
    if case.says is not None:
        missing = [
            word for word in (Path(case.file).name, *case.says) if word not in answer.message
        ]
        return f"does not name {missing}: {answer.message}" if missing else None
    return None
