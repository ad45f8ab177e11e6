"""The imports of the package's modules, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .places import ROOT

PACKAGE = ROOT / "ChatTTS"


@dataclass(frozen=True)
class Import:
    """One imported name in absolute form, such as `ChatTTS.model.dvae` or `torch.nn`."""

    name: str
    lazy: bool  # inside a function
    typing_only: bool  # under `if TYPE_CHECKING:`


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module of the package, by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports_of(module: str) -> tuple[Import, ...]:
    path = modules()[module]
    is_package = path.name == "__init__.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(parsed_imports(tree, module if is_package else module.rpartition(".")[0]))


def parsed_imports(
    node: ast.AST, package: str, lazy: bool = False, typing_only: bool = False
) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, lazy, typing_only)
    elif isinstance(node, ast.ImportFrom):
        base = base_of(node, package)
        yield Import(base, lazy, typing_only)
        for alias in node.names:
            if f"{base}.{alias.name}" in modules():
                yield Import(f"{base}.{alias.name}", lazy, typing_only)
    lazy = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    if isinstance(node, ast.If):
        typing_only = typing_only or ast.unparse(node.test) == "TYPE_CHECKING"
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield from parsed_imports(child, package, lazy, typing_only)


def base_of(node: ast.ImportFrom, package: str) -> str:
    """Return the absolute name of the X in `from X import y`."""
    if node.level == 0:
        return node.module or ""
    parents = package.split(".")
    parents = parents[: len(parents) - (node.level - 1)]
    return ".".join([*parents, node.module] if node.module else parents)


def is_in(name: str, roots: tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(root + ".") for root in roots)


def within(parent: str, names: str) -> tuple[str, ...]:
    return tuple(f"{parent}.{name}" for name in names.split())
