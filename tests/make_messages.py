"""Write all messages for users into docs/messages.md: `python -m tests.make_messages`.

A message is the text of an error that the package makes, of a warning, or of a line of the log from
`warning` upwards. They stand under the name of their error and not under that of their module, so
that the page says what callers catch, and a module may move. Values are in braces.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from .support.places import ROOT
from .support.source_imports import modules

PAGE = ROOT / "docs" / "messages.md"

_HEAD = """# Messages

All texts with which ChatTTS refuses something or warns, under the names of their errors. `python -m
tests.make_messages` collects them from the source, and a test compares them. A value that is filled
in is in braces, in the words of the source. What clients of the server get beside the text is under
[errors](%s); the classes of errors are in [the reference](reference/errors.md).
"""
_LEVELS = frozenset({"warning", "error", "exception", "critical"})
_WARNINGS, _LOG = "Warnings", "Log"
_ENDINGS = ("Error", "Exception", "Exit", "Warning", "SocketClose")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def messages() -> dict[str, set[str]]:
    """Return the messages by the names of their errors, `Warnings` and `Log`."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in modules().values():
        for kind, texts in messages_of(ast.parse(path.read_text(encoding="utf-8"))).items():
            found[kind] |= texts
    return found


def messages_of(tree: ast.Module) -> dict[str, set[str]]:
    """Return the messages of one module by the names of their errors.

    A text without a space is the name of a field or a code, and no message.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for kind, text in _of_scope(tree, "", {}):
        if " " in text.strip():
            found[kind].add(" ".join(text.split()))
    return found


def page() -> str:
    """Return the text of the page."""
    parts = [_HEAD % "serving/rest.md#errors"]
    found = messages()
    for kind in (*sorted(found.keys() - {_WARNINGS, _LOG}), _WARNINGS, _LOG):
        lines = "\n".join(sorted(found[kind], key=lambda text: (text.lower(), text)))
        parts.append(f"## {kind}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


def _of_scope(
    scope: ast.AST, owner: str, outer: Mapping[str, Sequence[ast.expr]]
) -> Iterator[tuple[str, str]]:
    """Yield the kinds and texts of a module, class or function.

    Args:
        scope: whose body is searched.
        owner: the class that it belongs to.
        outer: the values of the names around it.
    """
    names = dict(outer)
    inner: list[ast.AST] = []
    calls: list[ast.Call] = []
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, _Function | ast.ClassDef | ast.Lambda):
            inner.append(node)
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and node.value is not None:
                    names[target.id] = [*names.get(target.id, ()), node.value]
        if isinstance(node, ast.Call):
            calls.append(node)
        waiting += ast.iter_child_nodes(node)
    for call in calls:
        kind = _kind(call, owner)
        if kind is not None:
            arguments = [*call.args, *(each.value for each in call.keywords)]
            for argument in arguments[:1] if kind in (_LOG, _WARNINGS) else arguments:
                yield from ((kind, text) for text in _texts(argument, names))
    for node in inner:
        if isinstance(node, ast.ClassDef):
            yield from _of_scope(node, node.name, {})
        else:
            yield from _of_scope(node, owner, names)


def _kind(call: ast.Call, owner: str) -> str | None:
    """Return under what the message of a call stands; `None` for calls without one."""
    function = call.func
    if isinstance(function, ast.Name) and function.id.endswith(_ENDINGS):
        return function.id
    if not isinstance(function, ast.Attribute):
        return None
    of = ast.unparse(function.value)
    if of == "super()" and function.attr == "__init__" and owner.endswith(_ENDINGS):
        return owner
    if of == "warnings" and function.attr == "warn":
        return _WARNINGS
    if function.attr in _LEVELS and of.rpartition(".")[2].lower().endswith(("logger", "log")):
        return _LOG
    return function.attr if function.attr.endswith(_ENDINGS) else None


def _texts(node: ast.expr, names: Mapping[str, Sequence[ast.expr]], depth: int = 0) -> list[str]:
    """Return the texts that an expression may have, with values in braces."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return ["".join(_part(part, names) for part in node.values)]
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body, names, depth), *_texts(node.orelse, names, depth)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left = _texts(node.left, names, depth) or [f"{{{ast.unparse(node.left)}}}"]
        right = _texts(node.right, names, depth) or [f"{{{ast.unparse(node.right)}}}"]
        return [first + second for first in left for second in right]
    if isinstance(node, ast.Name) and depth < 3:
        found = [_texts(value, names, depth + 1) for value in names.get(node.id, ())]
        return [text for texts in found for text in texts]
    return []


def _part(part: ast.expr, names: Mapping[str, Sequence[ast.expr]]) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    return f"{{{ast.unparse(part.value)}}}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
