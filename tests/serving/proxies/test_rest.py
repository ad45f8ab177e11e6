"""What OpenAI's client gets without a proxy, it gets through one; and so over every interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import openai
import pytest
from numpy.typing import NDArray

from ChatTTS.audio import to_int16

from ...support.process_tools import Process
from ...support.proxy_tools import ProxiedServer
from ..test_clients import (
    CLIENTS,
    SEED,
    SHORT,
    TEXT,
    VOICE,
    openai_client,
    test_create,
    test_create_gives_mp3_by_default,
    test_errors_are_those_of_the_client,
    test_events,
    test_models,
    test_speed,
    test_streaming_create,
    test_the_same_samples_everywhere,
    test_voices_differ,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client(server: ProxiedServer) -> Iterator[openai.OpenAI]:
    with openai_client(server) as client:
        yield client


@pytest.fixture(scope="module")
def offline(server: ProxiedServer) -> NDArray[np.int16]:
    sound: NDArray[np.int16] = to_int16(server.offline(SHORT, SEED, VOICE))
    return sound


@pytest.fixture(scope="module")
def whole(server: ProxiedServer) -> NDArray[np.int16]:
    sound: NDArray[np.int16] = to_int16(server.offline(TEXT, SEED, VOICE))
    return sound


@pytest.mark.parametrize("ask", CLIENTS[:-1], ids=lambda ask: ask.__name__)
def test_a_seed_gives_equal_bytes_with_and_without_a_proxy(
    server: ProxiedServer, servers: list[Process], ask: Callable[..., bytes]
) -> None:
    sounds = {ask(one) for one in (server, *servers)}
    assert len(sounds) == 1
    assert len(sounds.pop()) > 2 * 24_000
