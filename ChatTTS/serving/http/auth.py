"""Authentication by API keys, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from ...errors import ConfigError
from ..errors import AuthenticationError

_LABEL_LENGTH = 12
_BEARER = "bearer "


class Authenticator:
    """Checks the API keys of clients; without any keys, every client is accepted.

    Args:
        keys: the valid keys.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        # Digests have equal lengths, so the time of a comparison does not depend on the key's.
        self._digests = [_digest(key) for key in keys]

    @property
    def is_open(self) -> bool:
        """Return whether clients need no key."""
        return not self._digests

    def client(self, authorization: str | None, address: str) -> str:
        """Return the client's name for limits and logs, which does not reveal its key.

        Args:
            authorization: the header ``Authorization``, or the key itself.
            address: the client's network address; its name if clients need no key.

        Raises:
            AuthenticationError: the key is missing or wrong.
        """
        if self.is_open:
            return address
        given = (authorization or "").strip()
        if given.lower().startswith(_BEARER):
            given = given[len(_BEARER) :].strip()
        if not given:
            raise AuthenticationError(
                "an API key is needed: send it as `Authorization: Bearer KEY`"
            )
        digest = _digest(given)
        # Every key is compared, so that the time does not tell which one matches.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(matches):
            raise AuthenticationError("this API key is not valid")
        return f"key-{digest.hex()[:_LABEL_LENGTH]}"


def read_keys(path: Path) -> tuple[str, ...]:
    """Return the keys of a file: one a line, without empty lines and those that begin with #.

    Raises:
        ConfigError: the file cannot be read, or contains no keys.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the API keys in {path} cannot be read: {error}") from error
    stripped = (line.strip() for line in lines)
    keys = tuple(line for line in stripped if line and not line.startswith("#"))
    if not keys:
        raise ConfigError(f"{path} contains no API key: write one per line, or leave the file out")
    return keys


def _digest(key: str) -> bytes:
    # The key that a client sends may contain lone surrogates.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
