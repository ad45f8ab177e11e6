"""The CPU kernels that a wheel brings: one library for each variant of its system.

``python -m recipes.wheels`` makes them. They are used where they were made from the sources that
lie beside them, so a checkout whose sources have changed compiles its own.
"""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

from ...devices.instruction_sets import Variant, architecture

FOLDER = Path(__file__).parent / "prebuilt"
CONTENTS = "contents.json"
ENDINGS = {"linux": "so", "windows": "dll", "macos": "dylib"}
_SOURCES = Path(__file__).parent


class DamagedError(Exception):
    """A prebuilt library is not what its list of contents says."""


def sources() -> str:
    """Return a hash of the kernels' sources, with the line ends of any system."""
    files = sorted([*_SOURCES.glob("*.h"), *_SOURCES.glob("*.cpp")])
    texts = "\0".join(f"{file.name}\0{file.read_text(encoding='utf-8')}" for file in files)
    return hashlib.sha256(texts.encode()).hexdigest()


def system() -> str:
    """Return this system's name as the folders of libraries have it, such as ``linux-x86_64``."""
    name = platform.system().lower()
    return f"{'macos' if name == 'darwin' else name}-{architecture()}"


def find_prebuilt(variant: Variant, folder: Path = FOLDER) -> tuple[bytes, Path] | None:
    """Return the content and file of the library for ``variant`` that came with the package.

    Returns:
        None where none did.

    Raises:
        DamagedError: there is one, but not as it was made.
    """
    contents = _contents(folder / CONTENTS)
    if contents is None or contents.get("sources") != sources():
        return None
    libraries = contents.get("libraries")
    expected = libraries.get(variant.name) if isinstance(libraries, dict) else None
    if contents.get("system") != system() or not isinstance(expected, str):
        return None
    path = folder / f"{variant.name}.{ENDINGS[system().partition('-')[0]]}"
    try:
        code = path.read_bytes()
    except OSError as error:
        raise DamagedError(f"{path} cannot be read ({error})") from error
    if hashlib.sha256(code).hexdigest() != expected:
        raise DamagedError(f"{path} was damaged")
    return code, path


def _contents(path: Path) -> dict[str, Any] | None:
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read ({error})") from error
    return contents if isinstance(contents, dict) else None
