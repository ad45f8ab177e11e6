"""What Riva's client gets without a proxy, it gets through one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import pytest
import riva.client
from numpy.typing import NDArray

from ChatTTS.audio.pcm import to_int16

from ...support.proxy_tools import ProxiedServer
from ...support.riva_tools import TEXT
from ..test_riva import (
    test_a_document_of_ssml_is_spoken,
    test_a_recording_sets_the_voice,
    test_a_stream_gives_them_too,
    test_a_stream_keeps_its_audio_settings,
    test_a_stream_without_text_says_so,
    test_a_text_gives_the_samples_of_the_library,
    test_a_text_is_complete_before_the_next_one_comes,
    test_a_voice_by_its_own_name,
    test_flac_is_lossless,
    test_g711,
    test_ids_and_seeds_are_told,
    test_opus_of_several_texts_is_one_file,
    test_other_rates_have_the_same_length,
    test_reflection_describes_all_services,
    test_speed_and_unused_settings,
    test_texts_of_a_stream_are_spoken_as_one_that_is_cut,
    test_the_configuration_lists_voices_that_can_be_asked_for,
    test_the_first_settings_hold_for_the_others,
    test_words_have_the_times_of_the_library,
)

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class ProxiedClient:
    """Riva's client, its generated methods, and its channel."""

    speech: riva.client.SpeechSynthesisService
    stub: Any
    channel: grpc.Channel


@pytest.fixture(scope="module")
def client(server: ProxiedServer) -> Iterator[ProxiedClient]:
    with server.riva_client() as speech:
        yield ProxiedClient(speech, speech.stub, speech.auth.channel)


@pytest.fixture(scope="module")
def offline(server: ProxiedServer) -> NDArray[np.int16]:
    sound: NDArray[np.int16] = to_int16(server.offline(TEXT, 5))
    return sound
