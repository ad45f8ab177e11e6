"""The references of docstrings, such as those to classes and to files, lead to something."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from .support.places import ROOT
from .support.source_imports import base_of

FOLDERS = ("ChatTTS", "benchmarks", "examples", "recipes", "tests")
ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod|obj):`~?([^`]+)`")
FILE = re.compile(r"``([\w/]+\.(?:cpp|h|py))``")

Scope = ast.Module | ast.ClassDef


@dataclass(frozen=True)
class Docstring:
    """A docstring, its module, and the classes around it, the inmost last."""

    text: str
    module: str
    classes: tuple[ast.ClassDef, ...]


@cache
def sources() -> dict[str, Path]:
    """Return the file of every module, by its dotted name."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(sources()[module].read_text(encoding="utf-8"))


def package_of(module: str) -> str:
    is_package = sources()[module].name == "__init__.py"
    return module if is_package else module.rpartition(".")[0]


def docstrings(
    module: str, node: ast.AST | None = None, classes: tuple[ast.ClassDef, ...] = ()
) -> Iterator[Docstring]:
    """Yield the docstrings of a module, or those below a node of it."""
    for child in ast.iter_child_nodes(node or tree_of(module)):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            yield Docstring(str(child.value.value), module, classes)
        inner = (*classes, child) if isinstance(child, ast.ClassDef) else classes
        if not isinstance(child, ast.expr):
            yield from docstrings(module, child, inner)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module or a class; of its functions and classes, no nodes inside."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from statements(child)


@cache
def members(scope: Scope) -> dict[str, ast.AST]:
    """Return what a module or a class defines or imports, by name; also attributes of ``self``."""
    found: dict[str, ast.AST] = {}
    for node in statements(scope):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name: node for alias in node.names}
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = node
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = node
    for node in ast.walk(scope) if isinstance(scope, ast.ClassDef) else ():
        match node:
            case ast.Attribute(value=ast.Name(id="self")):
                found.setdefault(node.attr, node)
    return found


def leads(names: list[str], module: str, scope: Scope | None = None) -> bool:
    """Return whether dotted names are defined, seen from a module or from a class in it."""
    if not names:
        return True
    first, *rest = names
    if scope is None and f"{module}.{first}" in sources():
        return leads(rest, f"{module}.{first}")
    if module not in sources():
        return False
    target = members(scope or tree_of(module)).get(first)
    if isinstance(target, ast.ImportFrom):
        base = base_of(target, package_of(module))
        original = {alias.asname or alias.name: alias.name for alias in target.names}[first]
        return leads([original, *rest], base) if base in sources() else not rest
    if isinstance(target, ast.ClassDef):
        return leads(rest, module, target)
    if target is not None:
        return not rest
    bases = scope.bases if isinstance(scope, ast.ClassDef) else []
    return any(leads([*ast.unparse(base).split("."), *names], module) for base in bases)


def resolves(name: str, module: str, classes: tuple[ast.ClassDef, ...] = ()) -> bool:
    """Return whether a name in a docstring leads to something.

    It is looked up in the classes around the docstring, in the module, and from the top. Dots in
    front of it are packages, as in an import.
    """
    names = name.lstrip(".").split(".")
    if dots := len(name) - len(name.lstrip(".")):
        parents = package_of(module).split(".")
        return leads(names, ".".join(parents[: len(parents) - dots + 1]))
    return (
        any(leads(names, module, scope) for scope in (*classes, None))
        or (names[0] in FOLDERS and leads(names[1:], names[0]))
        or hasattr(builtins, name)
    )


def test_names_resolve() -> None:
    found = [(each, name) for each in all_docstrings() for name in ROLE.findall(each.text)]
    assert len(found) > 300
    dead = [
        f"{each.module}: {name}"
        for each, name in found
        if not resolves(name, each.module, each.classes)
    ]
    assert dead == []


def test_files_of_the_package_are_there() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    files = ["/" + path.relative_to(ROOT).as_posix() for path in paths]
    found = [
        (each.module, name)
        for each in all_docstrings()
        if each.module.startswith("ChatTTS")
        for name in FILE.findall(each.text)
    ]
    assert len(found) > 20
    dead = [each for each in found if not any(file.endswith(f"/{each[1]}") for file in files)]
    assert dead == []


@cache
def all_docstrings() -> list[Docstring]:
    """Return the docstrings of all modules that refer to something."""
    texts = {module: path.read_text(encoding="utf-8") for module, path in sources().items()}
    return [
        docstring
        for module, text in texts.items()
        if ROLE.search(text) or FILE.search(text)
        for docstring in docstrings(module)
    ]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Attribution", False),
        ("ChatTTS.model.random_numbers", True),
        ("ChatTTS.model.random_number", False),
        ("AttentionProbe.row", True),
        ("AttentionProbe.column", False),
        ("replace", True),
        (".plan.StepPlan.steps", True),
        (".plan.StepPlan.stages", False),
        ("..random_numbers.DrawKey", True),
        ("..random_numbers.AttentionProbe", False),
        ("....ChatTTS", False),
    ],
)
def test_dead_names_are_found(name: str, found: bool) -> None:
    assert resolves(name, "ChatTTS.model.velocity.input_batch") == found


def test_names_of_a_class_are_found() -> None:
    """Attributes, and what it inherits."""
    module = "ChatTTS.model.velocity.executor.in_process"
    own = members(tree_of(module))["InProcessExecutor"]
    assert isinstance(own, ast.ClassDef)
    for name in ("depth", "_worker", "stages", "execute_model"):
        assert resolves(name, module, (own,))
        assert not resolves(name, module)
    assert not resolves("width", module, (own,))
