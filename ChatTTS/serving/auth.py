"""Who asks: API keys, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from ..errors import ConfigError
from .errors import AuthenticationError

_LABEL_LENGTH = 12
_BEARER = "bearer "


class Authenticator:
    """Lets in who has a key; everybody, where there are no keys.

    Args:
        keys: that open it.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        # Digests have one length, so comparing them tells nothing about the keys' lengths.
        self._digests = [_digest(key) for key in keys]

    @property
    def is_open(self) -> bool:
        """Whether nobody needs a key."""
        return not self._digests

    def client(self, authorization: str | None, address: str) -> str:
        """What the client is called, for limits and logs; never its key.

        Args:
            authorization: the header ``Authorization``, or the key itself.
            address: where it comes from: its name where nobody needs a key.

        Raises:
            AuthenticationError: no key, or one that does not open.
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
        # All are compared, so that the time does not tell which one came near.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(matches):
            raise AuthenticationError("this API key is not known here")
        return f"key-{digest.hex()[:_LABEL_LENGTH]}"


def read_keys(path: Path) -> tuple[str, ...]:
    """The keys of a file, one a line; empty lines and those that begin with # do not count.

    Raises:
        ConfigError: the file cannot be read, or has no keys.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the API keys in {path} cannot be read: {error}") from error
    stripped = (line.strip() for line in lines)
    keys = tuple(line for line in stripped if line and not line.startswith("#"))
    if not keys:
        raise ConfigError(f"{path} holds no API key: write one a line, or leave the file out")
    return keys


def _digest(key: str) -> bytes:
    # What a client gives as its key need not be text that can be encoded.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
