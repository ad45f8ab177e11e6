"""The origin policy: which web pages may use the server."""

from __future__ import annotations

import contextlib

import pytest

from ChatTTS.serving.errors import ForeignPageError
from ChatTTS.serving.origins import OriginPolicy
from ChatTTS.serving.settings import Settings

OWN, FOREIGN = "https://own.example", "https://evil.example"


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LocalHost"]
)
def test_the_server_knows_its_names(host: str) -> None:
    OriginPolicy(Settings()).check_name({"host": host})
    OriginPolicy(Settings(host="127.0.1.1")).check_name({"host": "127.0.1.1:8000"})


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example:8000"}, {"host": "127.0.0.1.evil"}, {"host": "[::1"}, {}],
)
def test_a_foreign_host_name_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ForeignPageError, match="--name"):
        OriginPolicy(Settings()).check_name(headers)
    with pytest.raises(ForeignPageError):
        OriginPolicy(Settings(host="127.0.1.1")).check_name(headers)


@pytest.mark.parametrize(
    "settings",
    [Settings(names=("evil.example",)), Settings(api_keys=("k",)), Settings(host="0.0.0.0")],
)
def test_host_names_are_not_checked_with_keys_or_on_a_network(settings: Settings) -> None:
    OriginPolicy(settings).check_name({"host": "evil.example"})


@pytest.mark.parametrize(
    ("method", "path", "is_refused"),
    [
        ("GET", "/v1/audio/voices", False),
        ("GET", "/tts", True),
        ("POST", "/v1/audio/speech", True),
        ("DELETE", "/v1/audio/voices/anna", True),
    ],
)
def test_foreign_pages_may_read(method: str, path: str, is_refused: bool) -> None:
    origins = OriginPolicy(Settings(cors_origins=(OWN,)))
    foreign = {"sec-fetch-site": "cross-site", "origin": FOREIGN}
    if is_refused:
        with pytest.raises(ForeignPageError, match="origin"):
            origins.check_request(method, path, foreign)
    else:
        origins.check_request(method, path, foreign)
    origins.check_request(method, path, foreign | {"origin": OWN})
    origins.check_request(method, path, foreign | {"sec-fetch-site": "same-origin"})
    origins.check_request(method, path, {})  # a program
    silent = {"host": "192.0.2.1:8000"}  # browsers send no site to IP addresses without TLS
    origins.check_request(method, path, silent | {"origin": "http://192.0.2.1:8000"})
    with pytest.raises(ForeignPageError) if is_refused else contextlib.nullcontext():
        origins.check_request(method, path, silent | {"origin": FOREIGN})
    OriginPolicy(Settings(cors_origins=("*",))).check_request(method, path, foreign)


def test_sockets_are_for_own_pages_and_programs() -> None:
    origins = OriginPolicy(Settings(cors_origins=(OWN,)))
    origins.check_socket({"host": "localhost:8000"})
    origins.check_socket({"host": "localhost:8000", "origin": "http://localhost:8000"})
    origins.check_socket({"host": "localhost:8000", "origin": OWN})
    with pytest.raises(ForeignPageError, match="origin"):
        origins.check_socket({"host": "localhost:8000", "origin": FOREIGN})
    with pytest.raises(ForeignPageError, match="origin"):
        origins.check_socket({"host": "localhost:8000", "origin": "http://localhost:9"})
    with pytest.raises(ForeignPageError, match="origin"):
        origins.check_socket({"host": "localhost:8000", "origin": "http://[x"})
