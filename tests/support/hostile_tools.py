"""Checkpoints that mean harm: a small good one with one thing changed, and a child that tries
them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from .places import DATA, ROOT

GOOD = DATA / "model-a"
CONFIG, LLAMA = "config.json", "gpt/config.json"
ENGINES = ("standard", "velocity")
# Of the processor, for one checkpoint; a load of the good one takes 0.1.
SECONDS = 2.0
# Resident memory that a checkpoint of 4 MB may take more while it is tried.
MOST_GROWN = 300 << 20
PATIENCE = 240


class Raw(str):
    """A piece of JSON as it stands there, which no value of Python gives."""


@dataclass(frozen=True)
class Case:
    """One thing that is changed.

    Attributes:
        file: below ``asset``.
        key: in a JSON file the way to the value, parted by dots; else what it is called.
        value: what stands there instead.
        says: what the error must name besides the file's last name; ``None`` where speech is fine
            as well.
        make: puts something else at the path of the file.
        also: other files, with the key and the value that is changed there.
        dtype: to load with.
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
    """What the child says of a case; see ``hostile_child``."""

    id: str
    stage: str
    error: str | None
    message: str
    own: bool
    grown: int


def build(case: Case, folder: Path) -> Path:
    """A checkpoint whose other files are links to the good ones."""
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
    """The text of the good file with values changed; a key of nothing is the whole text."""
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
    """A maker of the good file of weights, where each tensor whose name ends so is changed."""

    def make(path: Path) -> None:
        asset = next(parent for parent in path.parents if parent.name == "asset")
        tensors = load_file(GOOD / "asset" / path.relative_to(asset))
        for end, change in changes.items():
            name = next(name for name in sorted(tensors) if name.endswith(end.replace("__", ".")))
            tensors[name] = change(tensors[name]).contiguous()
        save_file(tensors, path)

    return make


def run(cases: Sequence[Case], engines: Iterable[str], room: Path) -> dict[str, list[Answer]]:
    """What a child makes of each case on each engine, by the engine; it must live through all."""
    lines, ids = [], []
    folders = [build(case, room / str(number)) for number, case in enumerate(cases)]
    for engine in engines:
        for case, folder in zip(cases, folders, strict=True):
            ids.append((engine, case.id))
            order = {
                "id": case.id,
                "folder": str(folder),
                "good": str(GOOD),
                "engine": engine,
                "dtype": case.dtype,
                "seconds": SECONDS,
            }
            lines.append(json.dumps(order))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.hostile_child"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    answers = [Answer(**json.loads(line)) for line in done.stdout.splitlines()]
    following = ids[len(answers)] if len(answers) < len(ids) else None
    assert done.returncode == 0, f"at {following}: {done.returncode} {done.stderr[-2000:]}"
    found: dict[str, list[Answer]] = {engine: [] for engine in engines}
    for (engine, _), answer in zip(ids, answers, strict=True):
        found[engine].append(answer)
    return found


def complaint(case: Case, answer: Answer) -> str | None:
    """What is wrong with an answer; ``None`` where nothing is."""
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
