"""The licences of what a plain install brings: ``make licences`` prints and checks them.

Packages state their licence in one of three ways, the newest of which is an SPDX expression. The
older ones are translated here. Whatever is not known to be allowed fails.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]

# Licences that ask a program which uses a package for no more than a notice.
ALLOWED = frozenset(
    [
        "0BSD",
        "Apache-2.0",
        "BSD",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "CNRI-Python",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "Zlib",
    ]
)
_EXCEPTIONS = frozenset({"Apache-2.0 WITH LLVM-exception"})
# Packages under the LGPL, or with a library under it, that docs/licences.md names.
LESSER = {
    "soundfile": "LGPL-2.1-or-later",  # libsndfile, in its wheels
    "soxr": "",
}
# Libraries that the CUDA builds of torch bring, under NVIDIA's own licence.
_OF_NVIDIA = ("nvidia-", "cuda-")
# How classifiers and the field License say it.
_SPDX = {
    "Apache Software License": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "BSD License": "BSD",
    "BSD 3-Clause License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


@dataclass(frozen=True)
class Package:
    """A package of a plain install, its licence as SPDX, and whether that is allowed."""

    name: str
    version: str
    licence: str

    @property
    def is_allowed(self) -> bool:
        """Whether a company may use the package with no more than a notice, or it is named."""
        if self.name.startswith(_OF_NVIDIA):
            return True
        return is_allowed(self.licence, ALLOWED | _lesser(self.name))


def _lesser(name: str) -> frozenset[str]:
    versions = ("2.1", "3.0") if name in LESSER else ()
    return frozenset(f"LGPL-{v}-{end}" for v in versions for end in ("only", "or-later"))


def is_allowed(expression: str, allowed: frozenset[str] = ALLOWED) -> bool:
    """Return whether an SPDX expression can be met with allowed licences alone.

    ``AND`` binds more than ``OR``, and parentheses more than both.
    """
    inner = re.search(r"\(([^()]*)\)", expression)
    if inner is not None:
        word = "MIT" if is_allowed(inner[1], allowed) else "refused"
        return is_allowed(
            f"{expression[: inner.start()]}{word}{expression[inner.end() :]}", allowed
        )
    choices = [re.split(r"\s+AND\s+", part) for part in re.split(r"\s+OR\s+", expression)]
    known = allowed | _EXCEPTIONS
    return any(all(licence.strip() in known for licence in parts) for parts in choices)


def licence_of(metadata: Mapping[str, list[str]]) -> str:
    """Return the licence as SPDX, or as the package says it; empty where it says nothing.

    Args:
        metadata: all values by the names of their fields.
    """
    if expression := metadata.get("License-Expression"):
        return expression[0]
    ends = [line.split(" :: ") for line in metadata.get("Classifier", ())]
    said = [end[-1] for end in ends if end[0] == "License" and end[-1] != "OSI Approved"]
    said = said or metadata.get("License", [""])[0].strip().splitlines()[:1]
    return " AND ".join(_SPDX.get(words, words) for words in said)


def plain_install() -> list[Package]:
    """Return the packages that pip installs without an extra, as they are installed here.

    Raises:
        PackageNotFoundError: one of them is not installed.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    for needed in map(Requirement, project["dependencies"]):
        if needed.marker is None or needed.marker.evaluate():
            _collect(needed, found, seen)
    packages = []
    for name, installed in sorted(found.items()):
        fields = installed.metadata
        metadata = {field: [str(v) for v in fields.get_all(field) or []] for field in fields}
        licence = " AND ".join(filter(None, (licence_of(metadata), LESSER.get(name, ""))))
        packages.append(Package(name, installed.version, licence))
    return packages


def _collect(
    wanted: Requirement, found: dict[str, Distribution], seen: set[tuple[str, str]]
) -> None:
    """Add what a requirement brings to ``found``, by name; ``seen`` are packages and extras."""
    name = canonicalize_name(wanted.name)
    for extra in {"", *wanted.extras}:
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        found[name] = distribution(name)
        for line in found[name].requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                _collect(needed, found, seen)


def main() -> int:
    try:
        packages = plain_install()
    except PackageNotFoundError as error:
        print(f"not installed: {error}", file=sys.stderr)
        return 1
    for package in packages:
        mark = " " if package.is_allowed else "!"
        print(f"{mark} {package.name:26} {package.version:12} {package.licence or 'no licence'}")
    refused = [package.name for package in packages if not package.is_allowed]
    print(f"{len(packages)} packages; not allowed: {', '.join(refused) or 'none'}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
