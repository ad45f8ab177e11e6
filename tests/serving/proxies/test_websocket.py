"""What a client of WebSockets gets without a proxy, it gets through one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.audio import to_int16

from ...support.proxy_tools import ProxiedServer
from ...support.websocket_tools import TEXT, Speaker, speaker
from ..test_websocket import (
    SEED,
    test_a_divided_sentence_counts_as_several,
    test_a_flush_without_text_is_answered,
    test_after_a_flush_the_context_goes_on,
    test_another_rate_and_speed,
    test_base64,
    test_cancel_after_done_ends_the_context,
    test_cancel_and_go_on,
    test_cancel_forgets_text_that_waits,
    test_cancel_of_nothing,
    test_cancel_with_what_was_played,
    test_each_utterance_is_told_when_it_begins,
    test_framing_where_it_is_asked_for,
    test_other_formats,
    test_quiet_flushes,
    test_two_contexts_side_by_side,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def socket(server: ProxiedServer) -> Iterator[Speaker]:
    with speaker(server) as socket:
        yield socket


@pytest.fixture(scope="module")
def whole(server: ProxiedServer) -> NDArray[np.int16]:
    sound: NDArray[np.int16] = to_int16(server.offline(TEXT, SEED))
    return sound
