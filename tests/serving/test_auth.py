"""API keys: how they are read from a file, and which keys of a client are accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from ChatTTS.errors import ConfigError
from ChatTTS.serving.errors import AuthenticationError
from ChatTTS.serving.http.auth import Authenticator, read_keys
from ChatTTS.serving.settings import Settings


def test_keys_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    # As an editor on Windows saves it.
    path.write_text("\ufefffirst\n\n# a comment\n  # another one\n second \n", encoding="utf-8")
    assert read_keys(path) == ("first", "second")


def test_a_file_without_keys_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text(" # none\n")
    with pytest.raises(ConfigError, match="no API key"):
        read_keys(path)


@pytest.mark.parametrize("key", ["", "with space", "schlüssel", "line\nbreak"])
def test_keys_that_cannot_stand_in_a_header_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="API key"):
        Settings(api_keys=(key,))


def test_a_host_that_is_left_out_is_not_all_addresses() -> None:
    with pytest.raises(ConfigError, match="host"):
        Settings(host="")


@pytest.mark.parametrize("given", [None, "", "Bearer ", "Bearer wrong", "\ud800"])
def test_wrong_keys_are_refused(given: str | None) -> None:
    with pytest.raises(AuthenticationError):
        Authenticator(["key"]).client(given, "127.0.0.1")


def test_a_client_is_its_key() -> None:
    authenticator = Authenticator(["key", "other"])
    name = authenticator.client("Bearer key", "127.0.0.1")
    assert (
        name
        == authenticator.client("key", "192.0.2.1")
        != authenticator.client("other", "127.0.0.1")
    )
    assert "key" not in name.removeprefix("key-")
