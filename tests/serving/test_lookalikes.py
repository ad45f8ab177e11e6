"""Names of voices that look like those of others."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from ..support.serving_tools import PATIENCE, running_server


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running_server(warm=False) as server:
        yield httpx.Client(base_url=server.url, timeout=PATIENCE)


def upload(client: httpx.Client, name: str) -> httpx.Response:
    form = {"name": name, "speaker": "clara:0.5,edith:0.5", "consent": "Anna agreed."}
    return client.post("/v1/audio/voices", data=form)


@pytest.mark.parametrize(
    "name",
    [
        "\u0435dith",
        "\uff45\uff44\uff49\uff54\uff48",
        "Ed\u0456th",
        "\u0430ll\u043ey",
        "\U0001d41e\U0001d41d\U0001d422\U0001d42d\U0001d421",
    ],
)
def test_a_voice_cannot_look_like_one_of_the_server(client: httpx.Client, name: str) -> None:
    answer = upload(client, name)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "name"


@pytest.mark.slow
def test_a_voice_cannot_look_like_an_uploaded_one(client: httpx.Client) -> None:
    assert upload(client, "Anna").status_code == 200
    assert "looks like" in upload(client, "\u0410nn\u0430").json()["error"]["message"]
    for name in (
        "Anna",
        "\u0410\u043d\u043d\u0430",
        "\u4f60\u597d",
        "\u039c\u03b1\u03c1\u03af\u03b1",
    ):
        assert upload(client, name).status_code == 200, name
