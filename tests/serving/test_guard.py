"""The guard over REST, the WebSocket and gRPC: what clients are told, and what is spoken again."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.audio import to_int16
from ChatTTS.errors import ConfigError
from ChatTTS.pipeline.alignment.faults import FaultFinder, FaultKind, FrameFault, Limits
from ChatTTS.serving.server import make_service
from ChatTTS.serving.settings import Settings

from ..support.riva_tools import NATIVE, connected, samples
from ..support.serving_tools import RunningServer, running_server
from ..support.websocket_tools import EXTEND, speaker

TEXT = "We went home."
SEED = 5
# A skip of "went", which frame 40 should have spoken.
FOUND = {"kind": "skipped", "text": "went", "words": 1, "start_character": 3, "end_character": 7}
START = 40 * 512 / 24_000


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server without a guard of its own."""
    with running_server(brief=False, extend=EXTEND, result_cache_bytes=1 << 22) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(server: RunningServer) -> Iterator[RunningServer]:
    """A server that guards all speech."""
    with running_server(extend=EXTEND, chat=server.chat, warm=False, guard="retry") as running:
        yield running


def scripted(monkeypatch: pytest.MonkeyPatch, *attempts: bool) -> None:
    """Let the guard find the skip in these attempts; of later ones, in none."""
    left = list(attempts)

    def faults(self: FaultFinder, limits: Limits) -> list[FrameFault]:
        is_faulty = bool(left) and left.pop(0)
        return [FrameFault(FaultKind.SKIPPED, 1, 2, 40, 40)] if is_faulty else []

    monkeypatch.setattr(FaultFinder, "faults", faults)
    monkeypatch.setattr(FaultFinder, "new_leaps", lambda self, limits: [])


def offline(server: RunningServer, guard: str | None) -> NDArray[np.int16]:
    params = server.service.voices.parameters(None) | {"manual_seed": SEED}
    [samples] = server.chat.infer(
        TEXT, skip_refine_text=True, params_infer_code=params, guard=guard
    )
    return to_int16(samples)


def ask(
    server: RunningServer, path: str = "/v1/audio/speech", *, again: bool = False, **fields: Any
) -> httpx.Response:
    """Ask for the text; ``again`` may be answered from the result cache."""
    if not again:
        server.service.results.clear()
    body = {"input": TEXT, "seed": SEED, "response_format": "pcm", **fields}
    answer = httpx.post(server.url + path, json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer


def is_near(audio: bytes, expected: NDArray[np.int16]) -> bool:
    """Return whether the sound is that, up to rounding."""
    found = np.frombuffer(audio, "<i2").astype(int)
    return len(found) == len(expected) and int(np.abs(found - expected).max()) <= 1


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(block.removeprefix("data: ")) for block in answer.text.split("\n\n")[:-1]]


def told(speed: float = 1.0) -> list[dict[str, Any]]:
    start = round(START / speed, 3)
    return [{**FOUND, "start": start, "end": start}]


# ------------------------------------------------------------------ REST


@pytest.mark.slow
def test_a_whole_file_tells_how_many_faults_it_has(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = offline(server, None)
    for guard, script, faults, retries in (
        ("report", [True], "1", "0"),
        ("report", [False], "0", "0"),
        ("retry", [True] * 4, "1", "3"),
    ):
        scripted(monkeypatch, *script)
        answer = ask(server, guard=guard, stream=False)
        assert (answer.headers["x-faults"], answer.headers["x-retries"]) == (faults, retries)
        assert is_near(answer.content, plain)


@pytest.mark.slow
def test_faulty_speech_is_spoken_again_before_it_is_sent(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, True)
    second = offline(server, "retry")
    assert not np.array_equal(second, offline(server, None))
    for stream in (False, True):
        scripted(monkeypatch, True)
        answer = ask(server, guard="retry", stream=stream)
        assert is_near(answer.content, second)
    assert "x-faults" not in answer.headers, "they are not known when a stream begins"


@pytest.mark.slow
def test_an_object_has_the_faults(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: dict[str, Any] = {"timestamp_granularities": ["word"]}
    scripted(monkeypatch, True)
    found = ask(server, guard="report", speed=2.0, **timed).json()
    assert (found["faults"], found["retries"]) == (told(2.0), 0)
    assert [word["word"] for word in found["words"]] == ["We", "went", "home"]
    assert ask(server, guard="report", speed=2.0, again=True, **timed).json() == found
    scripted(monkeypatch, True)
    retried = ask(server, guard="retry", speed=2.0, again=True, **timed).json()
    assert (retried["faults"], retried["retries"]) == ([], 1)
    plain = ask(server, speed=2.0, again=True, **timed).json()
    assert (plain["faults"], plain["retries"]) == (None, None)


def test_events_have_the_faults(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, True)
    *deltas, done = events(ask(server, guard="report", stream_format="sse"))
    assert [fault for delta in deltas for fault in delta["faults"]] == done["faults"] == told()
    assert done["retries"] == 0
    assert not any("words" in delta for delta in deltas)
    sound = b"".join(base64.b64decode(delta["audio"]) for delta in deltas)
    assert is_near(sound, offline(server, None))
    for given in events(ask(server, guard="none", stream_format="sse")):
        assert not {"faults", "retries"} & given.keys()


@pytest.mark.slow
def test_the_server_has_a_default(guarded: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole speech is spoken again, and streamed speech is not held back."""
    scripted(monkeypatch, True)
    done = events(ask(guarded, stream_format="sse"))[-1]
    assert (done["faults"], done["retries"]) == (told(), 0)
    assert "x-faults" not in ask(guarded, guard="none", stream=False).headers
    plain = {"text": TEXT, "format": "pcm", "seed": SEED}
    captioned = {"stream": False, "return_timestamps": False}
    for path, fields in (
        ("/v1/audio/speech", {"stream": False}),
        ("/tts", plain),
        ("/dev/captioned_speech", captioned),
    ):
        scripted(monkeypatch, True)
        answer = ask(guarded, path, **fields)
        assert (answer.headers["x-faults"], answer.headers["x-retries"]) == ("0", "1")


@pytest.mark.slow
def test_items_of_a_batch(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, True)
    items = [{"input": TEXT, "guard": "report"}]
    path = "/v1/audio/speech/batch"
    [result] = ask(server, path, items=items, guard="retry").json()["data"]
    assert (result["faults"], result["retries"]) == (told(), 0)
    [result] = ask(server, path, items=[{"input": TEXT}]).json()["data"]
    assert (result["faults"], result["retries"]) == (None, None)


def test_what_is_refused(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, body = f"{server.url}/v1/audio/speech", {"input": TEXT, "guard": "retry"}
    answer = httpx.post(url, json=body | {"guard": "repeat"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "guard")
    with pytest.raises(ConfigError, match="guard must be"):
        Settings(guard="repeat")
    monkeypatch.setattr(server.service, "_gives_attention", False)
    answer = httpx.post(url, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "guard")
    monkeypatch.setattr(server.chat.gpt, "gives_attention", False)
    with pytest.raises(ConfigError, match="chattts align"):
        server.call(lambda: make_service(server.chat, Settings(voices=tmp_path, guard="report")))


@pytest.mark.slow
def test_faults_are_counted(
    guarded: RunningServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def counts() -> tuple[float, float]:
        value = guarded.service.metrics.registry.get_sample_value
        faults = value("chattts_faults_total", {"kind": "skipped"}) or 0.0
        return faults, value("chattts_retries_total") or 0.0

    before = counts()
    caplog.set_level("INFO", "ChatTTS.serving.requests")
    scripted(monkeypatch, *[True] * 4)
    ask(guarded, stream=False)
    assert counts() == (before[0] + 1, before[1] + 3)
    assert "faults=1 retries=3" in caplog.text


# ------------------------------------------------------------------ WebSocket and gRPC


@pytest.mark.slow
def test_faults_have_their_place_in_the_run(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "It was very cold last night, and there was snow on the road. " + TEXT

    def faults(self: FaultFinder, limits: Limits) -> list[FrameFault]:
        is_second = self._count == len(TEXT.split())
        return [FrameFault(FaultKind.SKIPPED, 1, 2, 40, 40)] if is_second else []

    monkeypatch.setattr(FaultFinder, "faults", faults)
    monkeypatch.setattr(FaultFinder, "new_leaps", lambda self, limits: [])
    for guard in ("report", "retry"):
        with speaker(server) as socket:
            socket.say("session.config", guard=guard, seed=SEED)
            socket.say("input.text", text=text)
            socket.say("input.flush")
            done = socket.until("audio.done")
            spans = socket.all("text.spoken")
            found = [fault for m in socket.all("text.faults") for fault in m["faults"]]
            assert not socket.all("text.words")
        [fault] = found
        start = spans[1]["position"] / 24_000 + START
        assert fault["start"] == pytest.approx(start, abs=0.001)
        assert done["text"][fault["start_character"] : fault["end_character"]] == "went"


@pytest.mark.slow
def test_a_socket_is_told_nothing_unless_it_asks(
    guarded: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, True)
    with speaker(guarded) as socket:
        socket.say("session.config", guard="repeat")
        assert socket.until("error")["error"]["param"] == "guard"
        socket.say("session.config", seed=SEED)
        socket.say("input.text", text=TEXT)
        socket.say("input.flush")
        socket.until("audio.done")
        assert not socket.all("text.faults")
        assert is_near(socket.samples().tobytes(), offline(guarded, None))


@pytest.mark.slow
def test_riva(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, True)
    second = offline(server, "retry")
    configuration = NATIVE["custom_configuration"]
    with connected(server) as client:
        for guard, expected in (("retry", second), ("report", offline(server, None))):
            settings = {**NATIVE, "custom_configuration": configuration | {"guard": guard}}
            scripted(monkeypatch, True)
            whole = client.speech.synthesize(TEXT, **settings)
            assert is_near(samples(whole.audio).tobytes(), expected)
            server.service.results.clear()
        settings["custom_configuration"] = {"guard": "repeat"}
        with pytest.raises(grpc.RpcError, match="retry, report or none"):
            client.speech.synthesize(TEXT, **settings)


@pytest.mark.slow
def test_the_default_of_riva(guarded: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, True)
    second = offline(guarded, "retry")
    with connected(guarded) as client:
        scripted(monkeypatch, True)
        whole = client.speech.synthesize(TEXT, **NATIVE).audio
        assert is_near(samples(whole).tobytes(), second)
        scripted(monkeypatch, True)
        parts = client.speech.synthesize_online(TEXT, **NATIVE)
        streamed = b"".join(part.audio for part in parts)
        assert is_near(streamed, offline(guarded, None))
