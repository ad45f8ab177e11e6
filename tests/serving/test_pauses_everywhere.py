"""Breaks, emphasis and silence at both ends: the same samples over every interface."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from ChatTTS.audio import to_int16
from ChatTTS.audio.trim import AUDIBLE
from ChatTTS.cli.commands import main
from ChatTTS.pipeline.results import Waveforms

from ..support.protocol_clients import (
    OWN_CLIENTS,
    PROTOCOL_CLIENTS,
    ProtocolClient,
    by_rest,
    by_riva,
    by_websocket,
)
from ..support.server_tools import WholeServer, max_difference, samples, whole_server
from ..support.serving_tools import PATIENCE
from ..support.websocket_tools import speaker

VOICE, SEED = "edith", 3
DOCUMENT = (
    '<speak>Good <emphasis level="strong">morning</emphasis> there.<break time="600ms"/>'
    '<break time="100ms"/>We <emphasis>really</emphasis> do.<break strength="weak"/></speak>'
)
PLAIN = (
    'Good [emphasis:strong|morning] there. <break time="600ms"/><break time="100ms"/>'
    'We [emphasis:moderate|really] do. <break strength="weak"/>'
)
WORDS = ["Good", "morning", "there", "We", "really", "do"]
BEFORE, AFTER = 0.3, 0.45
PARAGRAPHS = (
    "The lamp was lit.\r\n\r\nWe went home.\n \n\n***\n\n"
    'Then it rained. <break time="400ms"/>\n\nThat was all.\n\n'
)
BETWEEN = 0.7
BROKEN = (
    'The lamp was lit. <break time="1s"/> <break strength="weak"/> Nobody knew '
    '[emphasis:strong|why]. <break time="500ms"/> We went home.'
)
WRITTEN = (
    "It rained.\n\n[pause:400ms] We went home.\n====\n\nThen it was late.\n\n"
    '<break time="1500ms"/>Nobody knew.<break strength="none"/>\n\nThat was all.\n\n***\n\u2029'
)


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    with whole_server(brief=False, wyoming_port=0) as running:
        yield running


def spoken(server: WholeServer, text: str, **options: Any) -> Waveforms:
    params = server.service.voices.parameters(VOICE) | {"manual_seed": SEED, "show_tqdm": False}
    waveforms: Waveforms = server.chat.infer(
        text, skip_refine_text=True, params_infer_code=params, **options
    )
    return waveforms


@pytest.fixture(scope="module")
def whole(server: WholeServer) -> NDArray[np.int16]:
    sound: NDArray[np.int16] = to_int16(spoken(server, DOCUMENT)[0])
    return sound


@pytest.fixture(scope="module")
def ended(server: WholeServer) -> NDArray[np.int16]:
    waveforms = spoken(server, DOCUMENT, silence_before=BEFORE, silence_after=AFTER)
    sound: NDArray[np.int16] = to_int16(waveforms[0])
    return sound


def silences(sound: NDArray[np.int16]) -> list[int]:
    """Return the samples of silence at the beginning, of long pauses, and at the end."""
    heard = np.flatnonzero(np.abs(sound / 32767) >= AUDIBLE * 0.999)
    gaps = np.diff(heard) - 1
    return [int(heard[0]), *map(int, gaps[gaps > 6000]), int(len(sound) - 1 - heard[-1])]


@pytest.mark.slow
@pytest.mark.parametrize("ask", [*OWN_CLIENTS, *PROTOCOL_CLIENTS], ids=lambda ask: ask.__name__)
@pytest.mark.parametrize("text", [DOCUMENT, PLAIN], ids=["document", "plain"])
def test_every_interface_has_the_samples_of_python(
    ask: ProtocolClient, text: str, server: WholeServer, whole: NDArray[np.int16]
) -> None:
    assert max_difference(samples(ask(server, text, VOICE, SEED)), whole) <= 1


@pytest.fixture(scope="module")
def broken(server: WholeServer) -> NDArray[np.int16]:
    sound: NDArray[np.int16] = to_int16(spoken(server, BROKEN)[0])
    return sound


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 40])
def test_breaks_in_text_that_comes_in_parts_are_exact(
    size: int, server: WholeServer, broken: NDArray[np.int16]
) -> None:
    with speaker(server) as socket:
        socket.say("session.config", voice=VOICE, seed=SEED)
        for at in range(0, len(BROKEN), size):
            socket.say("input.text", text=BROKEN[at : at + size])
        socket.say("input.flush")
        socket.until("audio.done")
        assert len(socket.all("text.spoken")) == 3
        assert max_difference(samples(socket.samples().tobytes()), broken) <= 1
    assert silences(broken)[1:-1] == [30_000, 12_000]


@pytest.fixture(scope="module")
def part(server: WholeServer) -> Callable[[str], NDArray[np.int16]]:
    """A function that speaks a text with pauses between paragraphs, once."""

    @cache
    def speak(text: str) -> NDArray[np.int16]:
        sound: NDArray[np.int16] = to_int16(spoken(server, text, paragraph_pause=BETWEEN)[0])
        return sound

    return speak


def test_paragraphs_are_parted_once_and_a_written_break_stands_alone(
    part: Callable[[str], NDArray[np.int16]],
) -> None:
    first, *pauses, last = silences(part(PARAGRAPHS))
    assert pauses == [16_800, 16_800, 9600]
    assert min(first, last) > 0  # the ends are no borders between paragraphs


@pytest.mark.slow
@pytest.mark.parametrize("ask", OWN_CLIENTS)
def test_own_interfaces_part_paragraphs(
    ask: Any, server: WholeServer, part: Callable[[str], NDArray[np.int16]]
) -> None:
    found = samples(ask(server, PARAGRAPHS, VOICE, SEED, paragraph_pause=BETWEEN))
    assert max_difference(found, part(PARAGRAPHS)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("text", [PARAGRAPHS, WRITTEN], ids=["paragraphs", "written"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_paragraphs_in_text_that_comes_in_parts(
    size: int, text: str, server: WholeServer, part: Callable[[str], NDArray[np.int16]]
) -> None:
    with speaker(server) as socket:
        socket.say("session.config", voice=VOICE, seed=SEED, paragraph_pause=BETWEEN)
        for at in range(0, len(text), size):
            socket.say("input.text", text=text[at : at + size])
        socket.say("input.flush")
        socket.until("audio.done")
        assert max_difference(samples(socket.samples().tobytes()), part(text)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("ask", [by_rest, by_websocket, by_riva])
def test_paragraphs_of_documents_are_parted(
    ask: Any, server: WholeServer, part: Callable[[str], NDArray[np.int16]]
) -> None:
    document = "<speak><p>The lamp was lit.</p><p>We went home.</p><p>It rained.</p></speak>"
    whole = part(document)
    assert silences(whole)[1:-1] == [16_800, 16_800]
    assert (
        max_difference(samples(ask(server, document, VOICE, SEED, paragraph_pause=BETWEEN)), whole)
        <= 1
    )


@pytest.mark.slow
def test_the_tempo_leaves_the_pauses_of_paragraphs(server: WholeServer) -> None:
    fields = {"paragraph_pause": BETWEEN, "speed": 1.5}
    sound = by_rest(server, "The lamp was lit.\n\nWe went home.", VOICE, SEED, **fields)
    _, *pauses, _ = silences(samples(sound))
    assert pauses == [pytest.approx(16_800, abs=480)]


@pytest.mark.slow
@pytest.mark.parametrize("ask", OWN_CLIENTS)
def test_both_ends_have_the_silence_that_is_asked_for(
    ask: Any, server: WholeServer, ended: NDArray[np.int16]
) -> None:
    fields = {"silence_before": BEFORE, "silence_after": AFTER}
    assert max_difference(samples(ask(server, DOCUMENT, VOICE, SEED, **fields)), ended) <= 1


def test_the_silence_is_exact(whole: NDArray[np.int16], ended: NDArray[np.int16]) -> None:
    _, *rest = silences(whole)
    assert rest == [16_800, 6000]
    assert silences(ended) == [7200, 16_800, 10_800]  # in place of the last break


def test_python_streams_the_document(server: WholeServer, ended: NDArray[np.int16]) -> None:
    options: dict[str, Any] = {"silence_before": BEFORE, "silence_after": AFTER}
    options["word_times"] = True
    whole = spoken(server, DOCUMENT, **options)
    params = server.service.voices.parameters(VOICE) | {"manual_seed": SEED, "show_tqdm": False}
    with server.chat.stream(
        DOCUMENT, skip_refine_text=True, params_infer_code=params, **options
    ) as stream:
        pieces = list(stream)
    assert np.array_equal(np.concatenate([piece.samples for piece in pieces]), whole[0])
    assert np.array_equal(to_int16(whole[0]), ended)
    words = [each for piece in pieces for each in piece.words]
    assert words == whole.words[0]
    assert [each.text for each in words] == WORDS
    assert words[0].start == pytest.approx(BEFORE, abs=0.05)
    assert stream.finish_reason == whole.finish_reasons[0] == "stop"
    chunks = spoken(server, DOCUMENT, stream=True, silence_before=BEFORE, silence_after=AFTER)
    assert np.array_equal(np.concatenate(list(chunks), axis=1)[0], whole[0])


@pytest.mark.slow
def test_the_command_has_them(
    server: WholeServer, ended: NDArray[np.int16], tmp_path: Path
) -> None:
    del server
    out = tmp_path / "said.wav"
    ends = ["--silence-before", str(BEFORE), "--silence-after", str(AFTER)]
    given = ["--seed", str(SEED), "--voice", VOICE, "--dtype", "float32", "--guard", "off"]
    common = ["say", "--model", "bundled", *given, *ends, "-q", DOCUMENT, "-o", str(out)]
    for more in ([], ["--stream"]):
        assert main([*common, *more]) == 0
        found, _ = soundfile.read(out, dtype="int16")
        assert max_difference(found, ended) <= 1


def test_words_come_with_their_times(server: WholeServer) -> None:
    fields = {"timestamp_granularities": ["word"], "silence_before": BEFORE, "speed": 2.0}
    answer = json.loads(by_rest(server, PLAIN, VOICE, SEED, **fields))
    words = answer["words"]
    assert [word["word"] for word in words] == WORDS
    assert [PLAIN[w["start_character"] : w["end_character"]] for w in words] == WORDS
    assert words[0]["start"] == pytest.approx(BEFORE, abs=0.03)


@pytest.mark.slow
def test_a_run_of_the_websocket_ends_with_its_silence_once(server: WholeServer) -> None:
    """Its sentences are requests of their own."""
    text = "The lamp was lit. Nobody knew why. We went home."
    plain = samples(by_websocket(server, text, VOICE, SEED))
    given = samples(by_websocket(server, text, VOICE, SEED, silence_before=0.0, silence_after=0.5))
    heard = np.flatnonzero(np.abs(plain / 32767) >= AUDIBLE * 0.999)
    assert max_difference(given[:-12_000], plain[heard[0] : heard[-1] + 1]) <= 1
    assert not given[-12_000:].any()


def test_emphasis_without_word_times_is_told(
    server: WholeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(server.service), "gives_word_times", property(lambda _: False))
    body = {"input": PLAIN, "voice": VOICE, "seed": SEED, "response_format": "pcm"}
    path = f"{server.url}/v1/audio/speech"
    answer = httpx.post(path, json=body, timeout=PATIENCE)
    (warning,) = json.loads(answer.headers["x-warnings"])
    assert warning.startswith("emphasis has no effect")
    refused = httpx.post(path, json={**body, "strict": True}, timeout=PATIENCE)
    assert refused.status_code == 400
    assert "emphasis has no effect" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"silence_before": -1}, "silence_before"),
        ({"silence_after": 61}, "silence_after"),
        ({"paragraph_pause": 61}, "paragraph_pause"),
        ({"input": "a\n\n***\n\n" * 12, "paragraph_pause": 60}, "add up to more than 600 s"),
        ({"input": "<speak>" + "<p>a</p>" * 12 + "</speak>", "paragraph_pause": 60}, "add up to"),
        ({"input": "[emphasis:loud|a] b"}, "has no level of emphasis"),
        ({"input": 'a <break time="1h"/> b'}, "is not a break"),
        ({"input": '<speak><emphasis level="loud">a</emphasis></speak>'}, "has a level of"),
    ],
)
def test_wrong_values_are_told(fields: dict[str, Any], message: str, server: WholeServer) -> None:
    body = {"input": "Hello.", **fields}
    answer = httpx.post(f"{server.url}/v1/audio/speech", json=body, timeout=PATIENCE)
    assert answer.status_code in (400, 422)
    assert message in answer.text
