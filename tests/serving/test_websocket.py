"""Text in pieces over a WebSocket sounds like the whole text, and can be stopped at any time."""

from __future__ import annotations

import asyncio
import io
import json
import random
import threading
from collections.abc import Iterator
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.audio import to_int16
from ChatTTS.serving.errors import OverloadedError
from ChatTTS.serving.live.run import QueuedUtterance, Run, SeedState
from ChatTTS.serving.live.send_queue import SendQueue
from ChatTTS.serving.live.speech_queue import SpeechQueue
from ChatTTS.serving.observe.metrics import RequestRecord
from ChatTTS.serving.protocols.websocket.config import ContextConfig
from ChatTTS.serving.protocols.websocket.sender import ContextSender
from ChatTTS.serving.queue.tickets import Ticket
from ChatTTS.serving.requests.request import SpeechRequest
from ChatTTS.serving.speech.speech import Speech

from ..support.serving_tools import RunningServer, running_server
from ..support.websocket_tools import (
    EXTEND,
    LONG,
    SENTENCES,
    SPOKEN,
    TEXT,
    Speaker,
    is_over,
    refused,
    speaker,
)

SEED = 5


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(extend=EXTEND) as running:
        yield running


def offline(server: RunningServer, text: str, seed: int = SEED) -> NDArray[np.int16]:
    samples: NDArray[np.int16] = to_int16(server.offline(text, seed))
    return samples


@pytest.fixture(scope="module")
def whole(server: RunningServer) -> NDArray[np.int16]:
    return offline(server, TEXT)


def max_difference(first: NDArray[np.int16], second: NDArray[np.int16]) -> int:
    """Return the largest difference between two waveforms of equal length."""
    assert len(first) == len(second)
    return int(np.abs(first.astype(int) - second.astype(int)).max())


def pieces(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


# -- sound ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_text_in_pieces_sounds_as_the_whole(
    socket: Speaker, whole: NDArray[np.int16], size: int
) -> None:
    socket.say("session.config", seed=SEED)
    for piece in pieces(TEXT, size):
        socket.say("input.text", text=piece)
    socket.say("input.done")
    socket.until("session.done")
    start, done = socket.all("audio.start"), socket.all("audio.done")
    assert len(start) == len(done) == 1
    assert (start[0]["sample_rate"], start[0]["format"], start[0]["seed"]) == (24000, "pcm", SEED)
    assert (done[0]["text"], done[0]["finish_reason"]) == (TEXT, "length")
    assert done[0]["total_samples"] * 2 == done[0]["total_bytes"] == len(socket.audio[None])
    assert max_difference(socket.samples(), whole) <= 1


def test_each_utterance_is_told_when_it_begins(socket: Speaker) -> None:
    socket.say("session.config", seed=SEED)
    socket.say("input.text", text=TEXT)
    socket.say("input.done")
    positions = []
    while (message := socket.hear())["type"] != "session.done":
        if message["type"] == "text.spoken":
            positions.append(len(socket.audio[None]) // 2)
    told = socket.all("text.spoken")
    assert [m["utterance"] for m in told] == list(range(len(SENTENCES)))
    assert [m["position"] for m in told] == positions
    assert "".join(m["text"] for m in told) == TEXT


def test_a_divided_sentence_counts_as_several(socket: Speaker, server: RunningServer) -> None:
    most = server.chat.config.defaults.max_utterance_characters
    text = "It went " + "on and on " * (most // 10) + "until dawn. We went home."
    socket.say("session.config", seed=SEED)
    socket.say("input.text", text=text)
    socket.say("input.done")
    socket.until("session.done")
    assert [m["utterance"] for m in socket.all("text.spoken")] == [0, 2]
    assert max_difference(socket.samples(), offline(server, text)) <= 1


def test_only_the_first_utterance_of_a_run_is_hurried(
    socket: Speaker, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SpeechRequest] = []
    speak = server.service.speak

    def watched(request: SpeechRequest) -> Speech:
        asked.append(request)
        return speak(request)

    monkeypatch.setattr(server.service, "speak", watched)
    socket.say("session.config", low_latency=True)
    for _ in range(2):
        socket.say("input.text", text=TEXT)
        socket.say("input.flush")
        socket.until("audio.done")
    assert [request.low_latency for request in asked] == [True, False, False] * 2
    assert [request.first_utterance for request in asked] == list(range(6))


def test_a_refused_prefetch_is_tried_again(
    socket: Speaker,
    server: RunningServer,
    whole: NDArray[np.int16],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusals = [OverloadedError("no room")]
    take_ticket = server.service.take_ticket

    def crowded(request: SpeechRequest, *, resumes: bool = False) -> Ticket:
        if request.first_utterance == 1 and refusals:
            raise refusals.pop()
        return take_ticket(request, resumes=resumes)

    monkeypatch.setattr(server.service, "take_ticket", crowded)
    socket.say("session.config", seed=SEED)
    socket.say("input.text", text=TEXT)
    socket.say("input.done")
    socket.until("session.done")
    assert not refusals
    assert max_difference(socket.samples(), whole) <= 1


def test_after_a_flush_the_context_goes_on(socket: Speaker, whole: NDArray[np.int16]) -> None:
    socket.say("session.config", seed=SEED)
    for sentence in SENTENCES:
        socket.say("input.text", text=sentence)
        socket.say("input.flush")
    for sentence in SENTENCES:
        assert socket.until("audio.done")["text"] == sentence
    assert len({m["request_id"] for m in socket.all("audio.start")}) == len(SENTENCES)
    assert max_difference(socket.samples(), whole) <= 1
    socket.say("session.config", seed=SEED)  # the random draws begin again
    socket.say("input.text", text=TEXT)
    socket.say("input.flush")
    socket.until("audio.done")
    assert max_difference(socket.samples(), whole) <= 1


def test_quiet_flushes(socket: Speaker) -> None:
    socket.say("session.config", flush_after=30)
    socket.say("input.text", text="Hello there")
    assert socket.until("audio.done")["text"] == "Hello there"


def test_a_flush_without_text_is_answered(socket: Speaker) -> None:
    socket.say("input.flush")
    done = socket.until("audio.done")
    assert (done["total_bytes"], done["text"], done["finish_reason"]) == (0, "", None)
    socket.say("input.done")
    assert socket.hear() == {"type": "session.done"}


def test_base64(socket: Speaker, whole: NDArray[np.int16]) -> None:
    socket.say("session.config", seed=SEED, audio="base64")
    socket.say("input.text", text=TEXT)
    socket.say("input.done")
    socket.until("session.done")
    assert all("position" in m for m in socket.all("audio.delta"))
    assert max_difference(socket.samples(), whole) <= 1


def test_other_formats(socket: Speaker, whole: NDArray[np.int16]) -> None:
    socket.say("session.config", seed=SEED, response_format="flac")
    socket.say("input.text", text=TEXT)
    socket.say("input.flush")
    done = socket.until("audio.done")
    with av.open(io.BytesIO(socket.audio.pop(None))) as file:
        frames = [frame.to_ndarray() for frame in file.decode(audio=0)]
    samples = np.concatenate(frames, axis=1)[0]
    assert done["total_samples"] == len(samples)
    assert max_difference(samples, whole) <= 1


def test_another_rate_and_speed(socket: Speaker, whole: NDArray[np.int16]) -> None:
    socket.say("session.config", seed=SEED, sample_rate=8000, speed=2.0)
    socket.say("input.text", text=TEXT)
    socket.say("input.done")
    done = socket.until("audio.done")
    assert socket.all("audio.start")[0]["sample_rate"] == 8000
    assert len(socket.samples()) == done["total_samples"]
    assert done["total_samples"] == pytest.approx(len(whole) / 6, rel=0.02)


@pytest.mark.slow
def test_two_contexts_side_by_side(socket: Speaker, server: RunningServer) -> None:
    texts = {"a": TEXT, "b": "Somebody lit the lamp. Then it was dark again."}
    for name in texts:
        socket.say("session.config", name, seed=SEED)
    for n in range(max(map(len, texts.values()))):
        for name, text in texts.items():
            if n < len(text):
                socket.say("input.text", name, text=text[n])
    for name in texts:
        socket.say("input.done", name)
    for _ in texts:
        while socket.hear()["type"] != "session.done":
            pass
    for name, text in texts.items():
        assert socket.all("audio.done", name)[0]["text"] == text
        assert max_difference(socket.samples(name), offline(server, text)) <= 1


def test_framing_where_it_is_asked_for(socket: Speaker, whole: NDArray[np.int16]) -> None:
    socket.say("session.config", seed=SEED, framing=True)
    socket.say("input.text", text=TEXT)
    socket.say("input.done")
    socket.until("session.done")
    assert socket.all("audio.chunk")
    assert max_difference(socket.samples(), whole) <= 1


# -- cancel --------------------------------------------------------------------------------


@pytest.mark.slow
def test_cancel_and_go_on(socket: Speaker, server: RunningServer) -> None:
    socket.say("session.config", seed=SEED)
    socket.say("input.text", text=LONG)
    socket.say("input.flush")
    while len(socket.all("text.spoken")) < 2:
        socket.hear()
    socket.say("input.cancel")
    cancelled = socket.until("audio.cancelled")
    sent = socket.samples()
    assert cancelled["sent_samples"] == len(sent)
    spoken = cancelled["spoken_text"]
    assert LONG.startswith(spoken)
    assert spoken.startswith(socket.all("text.spoken")[0]["text"])
    assert len(spoken) < len(LONG)
    assert max_difference(sent, offline(server, LONG)[: len(sent)]) <= 1
    assert not socket.all("audio.done")
    assert server.becomes_idle()

    socket.say("session.config", seed=SEED)
    socket.say("input.text", text=TEXT)
    socket.say("input.done")
    socket.until("session.done")
    assert max_difference(socket.samples(), offline(server, TEXT)) <= 1


def test_cancel_with_what_was_played(socket: Speaker) -> None:
    socket.say("session.config", seed=SEED)
    socket.say("input.text", text=TEXT)
    socket.say("input.done")
    socket.until("session.done")
    second, third = (m["position"] for m in socket.all("text.spoken")[1:])
    socket.say("input.cancel", played_samples=second)
    assert socket.until("audio.cancelled") == {
        "type": "audio.cancelled",
        "sent_samples": 0,
        "spoken_text": SENTENCES[0],
        "is_exact": True,
    }
    socket.say("input.cancel", played_samples=(second + third) // 2)
    heard = socket.until("audio.cancelled")
    assert heard["is_exact"] is False
    assert SENTENCES[0] < heard["spoken_text"] < "".join(SENTENCES[:2])
    assert heard["spoken_text"].split() == TEXT.split()[: len(heard["spoken_text"].split())]


def test_cancel_of_nothing(socket: Speaker) -> None:
    socket.say("input.cancel", "x")
    cancelled = socket.until("audio.cancelled", "x")
    assert (cancelled["sent_samples"], cancelled["spoken_text"]) == (0, "")


def test_cancel_forgets_text_that_waits(socket: Speaker) -> None:
    socket.say("input.text", text="This is never said")
    socket.say("input.cancel")
    socket.say("input.text", text="Hello there.")
    socket.say("input.done")
    assert socket.until("audio.done")["text"] == "Hello there."


def test_cancel_after_done_ends_the_context(socket: Speaker) -> None:
    socket.say("input.text", text=LONG)
    socket.say("input.done")
    socket.until("audio.start")
    socket.say("input.cancel")
    socket.until("audio.cancelled")
    assert socket.hear() == {"type": "session.done"}


# -- ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_polite", [True, False])
def test_a_client_that_goes_away_frees_everything(server: RunningServer, is_polite: bool) -> None:
    with speaker(server) as socket:
        for name in ("a", "b"):
            socket.say("input.text", name, text=LONG)
        socket.until("text.spoken", "a")
        assert server.busy()
        if not is_polite:
            socket.connection.socket.shutdown(2)
    assert is_over(server)


@pytest.mark.slow
def test_a_client_that_does_not_read_makes_the_engine_wait(server: RunningServer) -> None:
    ended: list[RequestRecord] = []

    async def speak_to_nobody() -> tuple[int, int]:
        queue = SendQueue(None)  # type: ignore[arg-type]  # never run, so nothing is written
        sender = ContextSender(queue, None, lambda: False)
        speech_queue = SpeechQueue(
            server.service, "client", sender, lambda run: None, _nothing, skips_silence=False
        )
        for sentence in SENTENCES * 6:
            speech_queue.put(QueuedUtterance(run, sentence))
        before = (0, 0)
        while before != (len(ended), run.sent_bytes) or not run.sent_bytes:
            before = (len(ended), run.sent_bytes)
            await asyncio.sleep(0.5)
        assert speech_queue.is_active
        assert await speech_queue.cancel() is run
        return len(ended), run.sent_bytes

    run = Run(ContextConfig(), SeedState())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.service.metrics, "count_request", ended.append)
        spoken, sent = server.run(speak_to_nobody())
        assert spoken <= 5
        assert sent <= 4 << 15
    assert is_over(server)


async def _nothing() -> None:
    pass


def test_a_server_that_ends_finishes_texts_and_takes_no_new_ones() -> None:
    with running_server(extend=EXTEND) as server, speaker(server) as socket:
        socket.say("session.config", seed=SEED)
        socket.say("input.text", text=TEXT[:30])
        socket.say("input.flush", "other")
        socket.until("audio.done", "other")
        expected = offline(server, TEXT)
        server.call(server.service.admission.drain)
        server.service.state = "draining"
        assert refused(server) == (1013, "the server is shutting down")
        socket.say("input.text", "new", text="Hello")
        assert socket.until("error", "new")["error"]["code"] == "shutting_down"
        socket.say("input.text", text=TEXT[30:])
        socket.say("input.done")
        socket.until("text.spoken")
        dropped = server.run(server.service.close(20))
        socket.until("session.done")
        assert dropped == 0
        assert socket.all("audio.done")[0]["finish_reason"] in SPOKEN
        assert max_difference(socket.samples(), expected) <= 1


def test_an_engine_that_fails_is_told(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ValueError("a secret of the server")

    with speaker(server) as socket:
        monkeypatch.setattr(server.service, "open_stream", broken)
        socket.say("input.text", text=TEXT)
        socket.say("input.flush")
        for _ in SENTENCES:
            error = socket.until("error")["error"]
            assert (error["type"], error["code"]) == ("server_error", "internal_error")
            assert "secret" not in json.dumps(error)
        assert socket.until("audio.done")["finish_reason"] == "error"
    assert is_over(server)


def test_draws_of_contexts_differ() -> None:
    assert SeedState().seed != SeedState().seed


# -- fuzz ----------------------------------------------------------------------------------


def _any_message(draw: random.Random) -> str | bytes:
    name: dict[str, Any] = draw.choice(
        [{}, {}, {"context_id": draw.choice("abc")}, {"context_id": 7}]
    )
    kind = draw.choice(
        ["input.text"] * 5
        + ["input.flush", "input.flush", "input.cancel", "input.cancel", "input.done"]
        + ["session.config", "session.auth", "what"]
    )
    fields: dict[str, Any] = {}
    if kind == "input.text":
        fields["text"] = draw.choice([TEXT, "Hm", " ", "...", "[laugh]", "你好。", "\n", None])
    elif kind == "session.config":
        fields = draw.choice(
            [
                {"response_format": draw.choice(["mp3", "opus", "wav", "pcm", "mulaw"])},
                {"audio": draw.choice(["base64", "binary", 5])},
                {"flush_after": draw.choice([1, 50, None])},
                {"seed": draw.choice([1, -1, "x"]), "speed": draw.choice([1, 0.5, 4])},
            ]
        )
    elif kind == "input.cancel" and draw.random() < 0.5:
        fields["played_samples"] = draw.choice([0, 10_000, 10**30, -1, "x"])
    text = json.dumps({"type": kind, **name, **fields})
    chance = draw.random()
    if chance < 0.05:
        return text[: draw.randrange(len(text))]
    return text.encode() if chance < 0.1 else text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_sequence_of_messages_breaks_it(server: RunningServer, seed: int) -> None:
    draw = random.Random(seed)
    with speaker(server) as socket:
        reader = threading.Thread(target=socket.until_closed)
        reader.start()
        for _ in range(40):
            socket.connection.send(_any_message(draw))
            if draw.random() < 0.2:
                threading.Event().wait(0.02)
        if draw.random() < 0.5:
            socket.connection.close()
        else:
            socket.connection.socket.shutdown(2)
        reader.join(30)
        assert not reader.is_alive()
    assert is_over(server)
    with speaker(server) as socket:
        socket.say("input.text", text="Hello there.")
        socket.say("input.done")
        assert socket.until("audio.done")["finish_reason"] in SPOKEN
    assert is_over(server)
