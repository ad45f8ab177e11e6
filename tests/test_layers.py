"""Arrows between modules run downwards, also lazy ones and those for types; there is no circle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache

from .support.source_imports import imports_of, modules

# The names at the top of the package, from the lowest to the highest. One may import those on lines
# above its own, and no others.
LAYERS = """
languages
errors version coexistence
spoken_form
utils
text
params
config
checkpoints weights
audio
model
pipeline
loading
compat
voice_learning
voices
longform
core
testing
pytest_plugin
serving
cli
__main__
"""
# These packages give names from above, at first use: scripts know them by these names.
GIVES_NAMES_OF_OTHERS = {"ChatTTS", "ChatTTS.utils"}
# Folders with folders in them; within each the rooms have no circle either.
HOUSES = (
    "ChatTTS",
    "ChatTTS.model",
    "ChatTTS.model.velocity",
    "ChatTTS.model.velocity.backends",
    "ChatTTS.pipeline",
    "ChatTTS.serving",
    "ChatTTS.serving.protocols",
)

Arrows = Mapping[str, Iterable[str]]


@cache
def arrows() -> Arrows:
    """Return the modules of the package that each module imports."""
    found = {}
    for module in modules().keys() - GIVES_NAMES_OF_OTHERS:
        named = {_module(item.name) for item in imports_of(module)} - {"", module}
        # An import of `a.b` names `a` as well.
        parents = {n for n in named if any(other.startswith(f"{n}.") for other in named)}
        above = {n for n in named if module.startswith(f"{n}.")}
        found[module] = sorted(named - parents - above - GIVES_NAMES_OF_OTHERS)
    return found


def _module(name: str) -> str:
    """Return the module of the package that has an imported name; nothing for other packages."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name


def circles(graph: Arrows) -> list[tuple[str, ...]]:
    """Return the groups of names from each of which all others of the group are reached."""
    reached = {name: _reached(name, graph) for name in graph}
    return sorted(
        {
            tuple(sorted(other for other in reached[name] if name in reached.get(other, ())))
            for name in graph
            if name in reached[name]
        }
    )


def _reached(name: str, graph: Arrows) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[name])
    while waiting:
        if (other := waiting.pop()) not in found:
            found.add(other)
            waiting += graph.get(other, ())
    return found


def rooms(house: str) -> Arrows:
    """Return the arrows between the modules and folders of a folder."""
    depth = len(house.split(".")) + 1
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module, imported in arrows().items():
        if not module.startswith(f"{house}."):
            continue
        room = ".".join(module.split(".")[:depth])
        others = (".".join(n.split(".")[:depth]) for n in imported if n.startswith(f"{house}."))
        found[room] |= set(others) - {room}
    return found


def test_no_modules_import_each_other() -> None:
    assert circles(arrows()) == []


def test_no_folders_import_each_other() -> None:
    assert {house: circles(rooms(house)) for house in HOUSES} == {house: [] for house in HOUSES}


def test_every_arrow_runs_downwards() -> None:
    heights = {
        f"ChatTTS.{name}": height
        for height, names in enumerate(LAYERS.split("\n"))
        for name in names.split()
    }
    upwards = [
        f"{room} -> {other}"
        for room, others in rooms("ChatTTS").items()
        for other in others
        if heights[other] >= heights[room]
    ]
    assert upwards == []


def test_a_circle_is_found() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": []}
    assert circles(graph) == [("b", "c")]
