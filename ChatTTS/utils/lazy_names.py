"""Names of a package that are imported with their modules at first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any


def lazy_names(
    package: str,
    names: Mapping[str, Iterable[str]],
    instead: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    Args:
        package: its name.
        names: of the package, by the modules that define them; the modules are names, too.
        instead: what to do instead of using names that the package does not have.
    """
    homes = {name: module for module, defined in names.items() for name in defined}

    def load(name: str) -> Any:
        if name in names:
            return import_module(f"{package}.{name}")
        if name not in homes:
            remedy = f": {instead[name]}" if name in instead else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{remedy}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return load, lambda: sorted({*vars(sys.modules[package]), *homes, *names})
