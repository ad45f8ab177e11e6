"""Names of voices: which are valid, and the names of their files."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

from ..errors import VoiceError, shown

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}", re.ASCII)
_MOST_CHARACTERS = 64
_MOST_NAME_BYTES = 200  # of a name in its file's name, where file systems take 255
# Beside letters, accents and digits of any script. The first character is none of them but "_".
_NAME_SIGNS = frozenset(" _-.'\u2019\u00b7")
# Names of devices on Windows, with any file ending.
_DEVICES = re.compile(r"con|prn|aux|nul|(com|lpt)\d", re.IGNORECASE | re.ASCII)


def check_name(name: str) -> str:
    """Return ``name`` if it is a valid name of a voice.

    Raises:
        VoiceError: it is not 1 to 64 letters and digits of any script, with spaces, ``_ - . ' ·``
            between them; it is longer than 200 bytes as the name of a file, as 22 characters of
            Chinese are; or it is a device of Windows.
    """
    if not is_voice_name(name):
        raise VoiceError(
            f"a voice cannot be called {shown(name)}: use 1 to 64 letters, digits, _ or -, with "
            "single spaces, dots or apostrophes between them (22 at most in Chinese), as in anna_2"
        )
    return name


def folded(name: str) -> str:
    """Return a form of a name that does not depend on case, and on how accents are encoded."""
    return unicodedata.normalize("NFC", name.strip().casefold())


def is_voice_name(name: str) -> bool:
    """Return whether a voice may have this name; see :func:`check_name`."""
    if not isinstance(name, str) or _DEVICES.fullmatch(name):
        return False
    return _PLAIN_NAME.fullmatch(name) is not None or _is_display_name(name)


def _is_display_name(name: str) -> bool:
    """Return whether a name consists of words of any script."""
    kinds = [unicodedata.category(character)[0] for character in name]
    return (
        0 < len(name) <= _MOST_CHARACTERS
        and (kinds[0] in "LN" or name[0] == "_")
        and name == name.strip()
        and "  " not in name
        and unicodedata.is_normalized("NFC", name)
        and all(k in "LMN" or c in _NAME_SIGNS for k, c in zip(kinds, name, strict=True))
        and len(file_stem(name)) <= _MOST_NAME_BYTES
    )


def file_stem(name: str) -> str:
    """Return the name of a voice's file, without its ending: ASCII, and no dots."""
    return quote(name, safe="").replace(".", "%2E").replace("~", "%7E")
