"""The benchmark of streams runs and reports every figure; no test depends on speed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.common import comparison
from benchmarks.common.random_checkpoint import config_from, write_checkpoint
from benchmarks.cpu import chat_child
from benchmarks.cpu.streaming import __main__ as streaming
from benchmarks.cpu.streaming import child as streaming_child
from benchmarks.cpu.streaming.figures import Streamed, ratios, summary
from benchmarks.cpu.streaming.player import Chunk, Playback
from benchmarks.cpu.streaming.plot import draw
from benchmarks.cpu.streaming.report import table

from ..support.benchmark_tools import (
    PUBLISHED,
    TINY,
    FakePublishedChat,
    InProcessChild,
    arguments,
    peer_python,
    run_command,
)

SMALL = "--prompt 10 --frames 80 --threads 1 --rounds 2 --streams 1 3 --memory-seconds 12"
QUICK = [*TINY.split(), *SMALL.split(), "--kv-memory", "4MB"]
WAYS = {"bfloat16 exact", "bfloat16 low latency", "peer"}
SAMPLES = (2 * 80 - 1) * 256
FIGURES = {
    *("first_s", "first_worst_s", "step_ms", "steps", "beyond_ms", "beyond_60_ms"),
    *("rtf", "offline_rtf", "rtf_ratio", "underruns", "silent_s", "delay_s"),
}


class StreamingPublishedChat(FakePublishedChat):
    """A fake published ``Chat`` that streams two chunks, 1000 s and 2000 s after the call."""

    @staticmethod
    def stream(texts: list[str], frames: int) -> dict[str, Any]:
        rest = (2 * frames - 1) * 256 - 12000
        chunks = [[1000.0, 12000, frames * len(texts)], [2000.0, rest, frames * len(texts)]]
        done = {"prompts": [len(text.split()) + 4 for text in texts]}
        done["frames"] = [frames] * len(texts)
        return {"stream_s": 4000.0, "chunks": [chunks] * len(texts), **done}


class StreamingChild(InProcessChild):
    """An in-process child whose published package streams."""

    published = StreamingPublishedChat


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Run the whole command at the tiny size, all in this process."""
    monkeypatch.setattr(StreamingChild, "calls", [], raising=False)
    monkeypatch.setattr(comparison, "ChildProcess", StreamingChild)
    args = arguments(
        monkeypatch, streaming, *QUICK, "--dtypes", "bfloat16", "--peer-python", "unused"
    )
    config = config_from(args)
    write_checkpoint(tmp_path, config)
    yield streaming.measure(args, config, tmp_path)
    chat_child.chat.unload()


def test_streaming_reports_every_figure(report: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = streaming.as_json(report)
    assert '"chunks"' not in written
    kept = json.loads(written)
    for ours, whole in zip(kept["results"], report["results"], strict=True):
        for way, records in ours["rounds"].items():
            for record, own in zip(records, whole["rounds"][way], strict=True):
                record["chunks"] = own["chunks"]
    assert kept == report
    assert report["command"].startswith("python ")
    assert set(report["machine"]) == {"cpu", "cores", "system"}
    assert report["settings"]["memory_seconds"] == 12
    assert set(report["low_latency"]) >= {"first", "lookahead"}
    assert set(report["sides"]) == {"bfloat16", "peer"}
    assert set(report["ways"]) == WAYS
    assert [result["streams"] for result in report["results"]] == [1, 3]
    for result in report["results"]:
        assert set(result["summary"]) == set(result["rounds"]) == WAYS
        for way, rounds in result["rounds"].items():
            assert set(result["summary"][way]) == FIGURES
            assert len(rounds) == 2
            for record in rounds:
                check_record(record, result["streams"])
        assert result["summary"]["peer"]["delay_s"] == 1000 - 0.5
        assert result["summary"]["peer"]["underruns"] == result["streams"]
        assert set(result["ratios"]) == WAYS - {"peer"}
        for ratio in result["ratios"].values():
            assert ratio["first sound"]["median"] > ratio["first sound"]["min"] > 1
            assert ratio["whole stream"]["min"] > 1

    memory = report["memory"]["bfloat16"]
    assert memory["frames"] == [469, 562]
    assert memory["state"][0] == memory["state"][1] > 0
    assert len(memory["resident"]) == 2

    printed = table(report)
    for words in (*report["ways"].values(), "times sooner", "underruns", "keeps", "lookahead"):
        assert words in printed
    draw(report, tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 1000


def check_record(record: dict[str, Any], streams: int) -> None:
    """Check that chunks are complete and in order of time, and that figures match them."""
    assert set(record) == FIGURES | {"stream_s", "offline_s", "generate_s", "chunks"}
    assert len(record["chunks"]) == streams
    for chunks in record["chunks"]:
        assert chunks  # on a busy machine all of a stream may have come when it is first read
        assert sum(samples for _, samples, _ in chunks) == SAMPLES
        times = [seconds for seconds, _, _ in chunks]
        assert times[0] > 0
        assert times == sorted(times)
        assert times[-1] <= record["stream_s"]
        generated = [frames for _, _, frames in chunks]
        assert generated[0] > 0
        assert generated == sorted(generated)
        assert generated[-1] <= 80 * streams
    assert record["rtf_ratio"] == record["stream_s"] / record["offline_s"]


@pytest.mark.thorough
def test_streaming_never_gives_a_text_twice(report: dict[str, Any]) -> None:
    """A repeated prompt would be in the prefix cache and cost less."""
    own = "benchmarks.cpu.streaming.child"
    asked = {own: list[str](), PUBLISHED: list[str]()}
    handlers = set()
    for module, do, given in StreamingChild.calls:
        if "texts" in given:
            asked[module] += given["texts"]
            handlers.add((module, do))

    # One and three streams, a warm-up and two rounds each, in four and two handlers.
    assert len(asked[own]) == (1 + 3) * 3 * 4
    assert len(asked[PUBLISHED]) == (1 + 3) * 3 * 2
    assert {do for module, do in handlers if module == own} == {
        *("generate", "run", "stream", "low_latency")
    }
    spoken = [text for texts in asked.values() for text in texts]
    assert len(set(spoken)) == len(spoken)


def chunks_at(*times: float, samples: int = 12000) -> list[Chunk]:
    return [Chunk(time, samples, 10 * (index + 1)) for index, time in enumerate(times)]


def test_player_pauses_where_nothing_is_there() -> None:
    # Chunks of 0.5 s. The second comes in time, the third 0.5 s late, the fourth with the third.
    played = Playback.of(chunks_at(1.0, 1.25, 2.5, 2.5))

    assert (played.underruns, played.silent_s, played.delay_s) == (1, 0.5, 0.5)
    assert played.line == (
        *((1.0, 0.0), (1.5, 0.5), (2.0, 1.0)),
        *((2.5, 1.0), (3.0, 1.5), (3.5, 2.0)),
    )
    # A pause delays all later chunks: without it the fourth would have been late.
    again = Playback.of(chunks_at(1.0, 1.75, 2.25, 3.0))
    assert (again.underruns, again.silent_s, again.delay_s) == (2, 0.5, 0.5)


def test_players_delay_is_just_enough() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        times = np.cumsum(random.uniform(0, 1.0, size=12)).tolist()
        chunks = chunks_at(*times)
        delay = Playback.of(chunks).delay_s
        assert delay >= 0
        assert Playback.of(chunks, delay + 1e-9).underruns == 0
        assert (delay > 0) == (Playback.of(chunks).underruns > 0)
        if delay:
            assert Playback.of(chunks, delay - 1e-6).underruns > 0


@pytest.mark.smoke
def test_stream_figures_follow_their_definitions() -> None:
    # Two streams of 375 frames are 16 seconds of audio.
    figures = Streamed(
        streams=2,
        frames=375,
        stream_s=8.0,
        chunks=[chunks_at(0.5, 1.5), chunks_at(1.0, 1.25)],
        offline_s=4.0,
        generate_s=3.75,
    ).figures

    assert figures == pytest.approx(
        {
            "first_s": 0.75,
            "first_worst_s": 1.0,
            "step_ms": 10.0,
            "steps": 5.0,
            "beyond_ms": 700.0,
            "beyond_60_ms": 150.0,
            "rtf": 0.5,
            "offline_rtf": 0.25,
            "rtf_ratio": 2.0,
            "underruns": 1,
            "silent_s": 0.5,
            "delay_s": 0.5,
        }
    )


def test_rounds_are_summed_up_and_compared_pair_by_pair() -> None:
    def rounds(*firsts: float, whole: float) -> list[Streamed]:
        return [
            Streamed(1, 80, whole * first, [chunks_at(first, 3.0 * first)], 1.0, 1.0)
            for first in firsts
        ]

    ours, peer = rounds(1.0, 2.0, 4.0, whole=4), rounds(2.0, 12.0, 12.0, whole=6)
    found = summary(ours)

    assert (found["first_s"], found["first_worst_s"]) == (2.0, 4.0)
    assert (found["rtf_ratio"], found["delay_s"], found["silent_s"]) == (8.0, 7.5, 7.5)
    assert ratios(ours, peer) == {
        "first sound": {"median": 3.0, "min": 2.0, "max": 6.0},
        "whole stream": {"median": 4.5, "min": 3.0, "max": 9.0},
    }


def test_streams_that_lose_sound_are_found_out() -> None:
    chunks = [chunks_at(1.0, 2.0), chunks_at(1.0, 2.0)]
    streaming._check("a side", chunks, 24000, 0)
    streaming._check("a side", chunks, 25000, 0.05)
    for wanted, may_lose in ((24001, 0), (23999, 0.05), (26000, 0.05)):
        with pytest.raises(RuntimeError, match=rf"a side gave \[24000, 24000\].*not {wanted}"):
            streaming._check("a side", chunks, wanted, may_lose)


def test_side_streams_each_text_in_its_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def stream(text: str, *, low_latency: bool, **_: Any) -> Iterator[Any]:
        asked.append((text, low_latency))
        if text == "bad":
            raise ValueError("no such word")
        for length in (5, 7):
            yield SimpleNamespace(samples=np.zeros(length, dtype=np.float32))

    engine = object()
    pretended = SimpleNamespace(stream=stream, gpt=SimpleNamespace(engine=engine))
    monkeypatch.setattr(streaming_child, "chat", pretended)

    exact = streaming_child.stream(["a", "b"], 3)
    early = streaming_child.low_latency(["c"], 3)

    assert sorted(asked[:2]) == [("a", False), ("b", False)]
    assert asked[2:] == [("c", True)]
    for answer in (exact, early):
        for chunks in answer["chunks"]:
            assert [samples for _, samples, _ in chunks] == [5, 7]
            assert 0 < chunks[0][0] < chunks[1][0] < answer["stream_s"]
    with pytest.raises(ValueError, match="no such word"):
        streaming_child.stream(["a", "bad"], 3)
    assert pretended.gpt.engine is engine


def test_sides_leave_the_users_cache_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    args = arguments(monkeypatch, streaming, "--dtypes", "int8", "float32", "int8")
    sides = streaming.sides(args, tmp_path)

    assert [side.key for side in sides] == ["int8", "float32"]
    assert all(side.load["use_vllm"] for side in sides)
    assert {side.environment["XDG_CACHE_HOME"] for side in sides} == {str(tmp_path)}


@pytest.mark.parametrize(
    "bad", ["--dtypes float16", "--memory-seconds 10", "--streams 0", "--frames 4090"]
)
def test_settings_that_make_no_sense_are_refused(
    bad: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        arguments(monkeypatch, streaming, *bad.split())
    assert bad.split()[0] in capsys.readouterr().err


def run_streaming(tmp_path: Path, *given: str) -> dict[str, Any]:
    report, printed = run_command("cpu.streaming", tmp_path, *QUICK, *given)
    assert "underruns" in printed
    return report


@pytest.mark.thorough
def test_streaming_runs_all_its_processes(tmp_path: Path) -> None:
    report = run_streaming(tmp_path, "--plot", str(tmp_path / "out.png"))

    assert set(report["sides"]) == set(report["memory"]) == {"bfloat16", "float32"}
    assert all("ratios" not in result for result in report["results"])
    assert (tmp_path / "out.png").exists()


@pytest.mark.peer
def test_streaming_runs_the_peer_beside_ours(tmp_path: Path) -> None:
    report = run_streaming(tmp_path, "--dtypes", "float32", "--peer-python", peer_python())

    assert report["sides"]["peer"]["versions"]["package"] == "ChatTTS 0.2.5"
    for result in report["results"]:
        assert set(result["ratios"]) == {"float32 exact", "float32 low latency"}
        for record in result["rounds"]["peer"]:
            assert len(record["chunks"]) == result["streams"]
            assert all(len(chunks) > 1 for chunks in record["chunks"])
            assert record["steps"] > 1
