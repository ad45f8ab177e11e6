"""A server that speaks the protocols of other vendors, shared by their tests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.audio import to_int16
from ChatTTS.core import Chat

from ...support.serving_tools import RunningServer, brief_chat, running_server
from ...support.vendor_tools import EXTEND, KEY, SEED, TEXT, VOICE


@pytest.fixture(scope="session")
def chat() -> Iterator[Chat]:
    loaded = brief_chat()
    yield loaded
    loaded.unload()


@pytest.fixture(scope="session")
def server(chat: Chat) -> Iterator[RunningServer]:
    with running_server(chat=chat, extend=EXTEND) as running:
        yield running


@pytest.fixture(scope="session")
def keyed(chat: Chat) -> Iterator[RunningServer]:
    """A server with a key."""
    with running_server(chat=chat, extend=EXTEND, api_keys=(KEY,), warm=False) as running:
        yield running


@pytest.fixture(scope="session")
def whole(server: RunningServer) -> NDArray[np.int16]:
    """What `infer` gives for the text, voice and seed of these tests."""
    samples: NDArray[np.int16] = to_int16(server.offline(TEXT, SEED, VOICE))
    return samples
