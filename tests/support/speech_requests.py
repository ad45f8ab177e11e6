"""The usual request for speech over REST, with further fields."""

from __future__ import annotations

from typing import Any

import httpx

SHORT = "Good night."


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    """Ask for ``SHORT`` as PCM; return the answer, whatever it is."""
    body = {"input": SHORT, "response_format": "pcm", "seed": 1, **fields}
    return client.post("/v1/audio/speech", json=body)


def spoken(client: httpx.Client, **fields: Any) -> httpx.Response:
    """Ask for ``SHORT`` as PCM; return the answer, which has the sound."""
    answer = ask(client, **fields)
    assert answer.status_code == 200, answer.text
    return answer
