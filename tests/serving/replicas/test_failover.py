"""Streams whose replicas die: the listener gets the undisturbed stream, or one error."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ChatTTS.checkpoints import assets
from ChatTTS.errors import (
    ChatTTSError,
    EngineDeadError,
    GenerationError,
    NothingToSpeakError,
    TextError,
)
from ChatTTS.model.velocity.metrics import Metrics
from ChatTTS.pipeline.results import DurationError, EmptySpeechError, Fit, Piece
from ChatTTS.serving.errors import UnavailableError, as_serving_error
from ChatTTS.serving.observe.engine_metrics import ENGINE_METRICS
from ChatTTS.serving.observe.metrics import ServerMetrics
from ChatTTS.serving.replicas.failover import FailoverStream, Patience
from ChatTTS.serving.replicas.front import KnownReplicas, ReplicatedModel
from ChatTTS.serving.replicas.messages import Alive, Failed, ReplicaState
from ChatTTS.serving.requests.jobs import RefineJob, SpeechJob
from ChatTTS.utils.lru import CacheCounts

from ...support.replica_fakes import LENGTHS, PRINT, FakePool, Life, faults, pieces, sound, words

T = TypeVar("T")

QUICK = Patience(seconds=20, pause=0)
TOTAL = sum(LENGTHS)
JOB = SpeechJob(
    "one two three",
    {"spk_smp": "a sample", "txt_smp": "its words"},
    {},
    7,
    word_times=True,
    guard="report",
)


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(work())


def ignore(state: ReplicaState) -> None:
    pass


async def opened(pool: FakePool, job: SpeechJob = JOB) -> FailoverStream:
    stream = FailoverStream(job, pool, QUICK, ignore)
    await stream.open()
    return stream


async def heard(pool: FakePool, job: SpeechJob = JOB) -> tuple[list[Piece], FailoverStream]:
    stream = await opened(pool, job)
    return [piece async for piece in stream], stream


def check_undisturbed(got: list[Piece], job: SpeechJob = JOB) -> None:
    """Check samples, positions, words, texts and ends of pieces against one whole replica."""
    assert b"".join(p.samples.tobytes() for p in got) == sound(job).tobytes()
    starts = itertools.accumulate((len(p.samples) for p in got), initial=0)
    assert [p.position for p in got] == list(starts)[:-1]
    assert tuple(w for p in got for w in p.words) == (words(TOTAL) if job.word_times else ())
    assert tuple(f for p in got for f in p.faults) == (faults(TOTAL) if job.guard else ())
    assert [(p.utterance, p.text) for p in got if p.finish_reason == "stop"] == [
        (0, "one two"),
        (1, "three"),
    ]
    assert all(len(p.samples) for p in got)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_stream_is_whole_wherever_its_replica_dies(size: int) -> None:
    async def main() -> None:
        count = len(pieces(JOB, size)) + 2  # with Opened and Ended
        ways = itertools.product(range(count), (1, 3, 100), ((1, 1), (9, 0), (0, 9)))
        for cut, other, (lag, other_lag) in ways:
            pool = FakePool([Life(size, lag, dies_after=cut), Life(other, other_lag)])
            got, stream = await heard(pool)
            check_undisturbed(got)
            assert (stream.lost, stream.finish_reason) == (1, "stop")
            assert pool.jobs == [JOB, JOB]
            assert pool.closed == 2

    run(main)


def test_a_stream_survives_two_losses_at_any_places() -> None:
    async def main() -> None:
        for first, second in itertools.product(range(9), range(9)):
            pool = FakePool([Life(4, dies_after=first), Life(3, dies_after=second), Life(5)])
            got, stream = await heard(pool)
            check_undisturbed(got)
            assert stream.lost == 2

    run(main)


def test_an_engine_that_stops_is_a_lost_replica() -> None:
    dead = EngineDeadError("an error of the device ended it")
    pool = FakePool([Life(4, dies_after=3, fails=dead), Life(dies_after=0, fails=dead), Life()])
    got, stream = run(lambda: heard(pool))
    check_undisturbed(got)
    assert stream.lost == 2
    assert pool.avoided == ["replica-0", "replica-1"]


@pytest.mark.parametrize("cut", [1, 4])
def test_a_replica_that_hangs_is_lost_and_avoided(cut: int) -> None:
    async def main() -> None:
        pool = FakePool([Life(dies_after=cut, hangs=True), Life()])
        stream = FailoverStream(JOB, pool, replace(QUICK, silence=0.02), ignore)
        await stream.open()
        check_undisturbed([piece async for piece in stream])
        assert pool.avoided == ["replica-0"]
        assert pool.closed == 2

    run(main)


def test_a_replica_that_is_slow_but_alive_is_not_lost() -> None:
    class Slow(FakePool):
        async def speak(self, job: SpeechJob) -> Any:
            async for message in super().speak(job):
                for _ in range(8 if isinstance(message, Piece) else 0):
                    await asyncio.sleep(0.01)
                    yield Alive()
                yield message

    async def main() -> None:
        job = replace(JOB, word_times=False)
        pool = Slow([Life(size=20)])
        stream = FailoverStream(job, pool, replace(QUICK, silence=0.06), ignore)
        await stream.open()
        check_undisturbed([piece async for piece in stream], job)
        assert stream.lost == 0

    run(main)


def test_voices_and_the_seed_travel_with_every_try() -> None:
    speaker = replace(JOB, voice={"spk_emb": "uploaded"}, word_times=False, seed=11)
    pool = FakePool([Life(dies_after=4), Life(dies_after=2), Life()])
    got, _ = run(lambda: heard(pool, speaker))
    check_undisturbed(got, speaker)
    assert [job.voice for job in pool.jobs] == [{"spk_emb": "uploaded"}] * 3
    assert {job.seed for job in pool.jobs} == {11}
    assert sound(speaker).tobytes() != sound(replace(speaker, voice={})).tobytes()


OTHER = replace(PRINT, dtype="bfloat16")


def test_a_replica_of_another_fingerprint_does_not_go_on() -> None:
    async def main() -> list[Piece]:
        stream = await opened(FakePool([Life(dies_after=3), Life(fingerprint=OTHER)]))
        got = [await stream.__anext__(), await stream.__anext__()]
        with pytest.raises(UnavailableError, match="would sound different"):
            await stream.__anext__()
        return got

    got = run(main)
    assert b"".join(p.samples.tobytes() for p in got) == sound(JOB)[:8].tobytes()


def test_before_the_first_sample_any_fingerprint_serves() -> None:
    pool = FakePool([Life(dies_after=1), Life(fingerprint=OTHER)])
    got, _ = run(lambda: heard(pool))
    check_undisturbed(got)


@pytest.mark.parametrize("other", [Life(shift=1e-6), Life(ends_early=True, size=2)])
def test_a_replica_that_computes_other_samples_is_found_out(other: Life) -> None:
    with pytest.raises(UnavailableError, match="would sound different"):
        run(lambda: heard(FakePool([Life(dies_after=3), other])))


def test_a_job_that_kills_replicas_ends() -> None:
    pool = FakePool([Life(dies_after=1)])
    with pytest.raises(UnavailableError, match="6 replicas were lost"):
        run(lambda: heard(pool))
    assert len(pool.jobs) == QUICK.most_lost + 1


def test_progress_renews_the_patience() -> None:
    lives = [Life(1, dies_after=2 + place) for place in range(TOTAL)]
    got, stream = run(lambda: heard(FakePool([*lives, Life()])))
    check_undisturbed(got)
    assert stream.lost == TOTAL


def test_no_replica_in_time_is_an_error() -> None:
    class Nowhere(FakePool):
        async def speak(self, job: SpeechJob) -> Any:
            await asyncio.sleep(3600)
            yield

    async def main() -> None:
        stream = FailoverStream(JOB, Nowhere([Life()]), Patience(seconds=0.02), ignore)
        with pytest.raises(UnavailableError, match="in time"):
            await stream.open()

    run(main)


@pytest.mark.parametrize(
    "error",
    [
        TextError("too long"),
        NothingToSpeakError("..."),
        GenerationError("NaN"),
        EmptySpeechError(["one", "two"], None),
    ],
)
@pytest.mark.parametrize("place", [0, 3])
def test_errors_of_the_job_are_not_retried(error: ChatTTSError, place: int) -> None:
    pool = FakePool([Life(dies_after=place, fails=error), Life()])
    with pytest.raises(type(error)) as caught:
        run(lambda: heard(pool))
    assert str(caught.value) == str(error)
    if isinstance(error, EmptySpeechError):
        assert isinstance(caught.value, EmptySpeechError)
        assert caught.value.texts == error.texts
    assert len(pool.jobs) == 1


def test_an_unknown_kind_of_error_keeps_its_base_and_message() -> None:
    class OwnError(TextError):
        pass

    error = Failed.of(OwnError("of a plugin")).error()
    assert type(error) is TextError
    assert str(error) == "of a plugin"


def test_leaving_ends_the_job_on_the_replica() -> None:
    async def main() -> FakePool:
        pool = FakePool([Life()])
        stream = await opened(pool)
        await stream.__anext__()
        assert pool.closed == 0
        await asyncio.to_thread(stream.close)
        with pytest.raises(StopAsyncIteration):
            await stream.__anext__()
        assert stream.finish_reason == "abort"
        return pool

    assert run(main).closed == 1


def test_leaving_wakes_a_listener() -> None:
    class Silent(FakePool):
        async def speak(self, job: SpeechJob) -> Any:
            async for message in super().speak(job):
                yield message
                if isinstance(message, Piece):
                    await asyncio.sleep(3600)

    async def main() -> None:
        stream = await opened(Silent([Life()]))
        await stream.__anext__()
        waiting = asyncio.ensure_future(stream.__anext__())
        await asyncio.sleep(0)
        stream.leave()
        with pytest.raises(StopAsyncIteration):
            await waiting

    run(main)


def test_a_client_that_leaves_while_a_job_begins_ends_it_on_the_replica() -> None:
    class Slow(FakePool):
        """Needs some time to accept a job, and to give it up."""

        async def speak(self, job: SpeechJob) -> Any:
            try:
                await asyncio.sleep(3600)
                yield
            finally:
                for _ in range(5):
                    await asyncio.sleep(0)
                self.closed += 1

    async def main() -> FakePool:
        pool = Slow([Life()])
        beginning = asyncio.ensure_future(front(pool).open_stream(JOB, threading.Event()))
        await asyncio.sleep(0.01)
        while not beginning.done():  # as a cancel scope does
            beginning.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await beginning
        return pool

    assert run(main).closed == 1


# ------------------------------------------------------------------ the model of the front


def front(pool: FakePool) -> ReplicatedModel:
    return ReplicatedModel(pool, pool.facts(), assets.locate("bundled"), patience=QUICK)


def test_other_calls_go_to_another_replica_too() -> None:
    job, interrupt = RefineJob("so", {}), threading.Event()
    model = front(FakePool([Life(dies_after=0), Life(dies_after=0), Life()]))
    assert model.refine(job, interrupt) == "SO"
    recording = np.zeros(3, dtype=np.float32)
    assert front(FakePool([Life(dies_after=0), Life()])).encode_sample(recording, 9) == "3 at 9"
    with pytest.raises(UnavailableError):
        front(FakePool([Life(dies_after=0)])).refine(job, interrupt)
    with pytest.raises(TextError, match="too long"):
        front(FakePool([Life(fails=TextError("too long"))])).refine(job, interrupt)


def test_the_front_ends_all_its_streams() -> None:
    async def main() -> None:
        model = front(FakePool([Life()]))
        interrupt = threading.Event()
        first = await model.open_stream(JOB, interrupt)
        await first.__anext__()
        model.interrupt()
        await asyncio.sleep(0)
        with pytest.raises(StopAsyncIteration):
            await first.__anext__()
        interrupt.set()
        second = await model.open_stream(JOB, interrupt)
        await asyncio.sleep(0)
        with pytest.raises(StopAsyncIteration):
            await second.__anext__()

    run(main)


class Cluster:
    """A cluster that knows which replicas run.

    Attributes:
        living: their names; ``None`` while it does not answer.
    """

    def __init__(self, *living: str) -> None:
        self.living: set[str] | None = set(living)
        self.known = KnownReplicas(lambda: self.living)

    def figures(self) -> dict[str, float]:
        """Return the figures of ``/metrics`` by their names."""
        metrics = ServerMetrics()
        metrics.watch(queue=lambda: (0, 0), engines=self.known.engines, caches=self.known.caches)
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families(metrics.render().decode())
            for sample in family.samples
        }


def test_counts_of_lost_replicas_stay_and_their_memory_goes() -> None:
    cluster = Cluster("a", "b")
    sizes = {"block_bytes": 64, "block_positions": 32}
    cluster.known.on_state(ReplicaState("a", Metrics(generated_tokens=5, blocks=7, **sizes)))
    cluster.known.on_state(ReplicaState("b", Metrics(generated_tokens=2, blocks=7, **sizes)))
    cluster.known.on_state(ReplicaState("a", Metrics(generated_tokens=6, blocks=7, **sizes)))
    told = cluster.figures()
    assert told["chattts_engine_tokens_total"] == 8
    assert (told["chattts_engines"], told["chattts_kv_blocks"]) == (2, 14)
    assert told["chattts_kv_bytes"] == 14 * 64
    cluster.living = {"b", "c"}  # a was killed, perhaps while idle, and c has not spoken yet
    told = cluster.figures()
    assert told["chattts_engine_tokens_total"] == 8
    assert (told["chattts_engines"], told["chattts_kv_blocks"]) == (1, 7)
    assert told["chattts_kv_bytes"] == 7 * 64
    cluster.living = None
    assert cluster.figures()["chattts_engines"] == 2  # not known: those that were heard of


def test_caches_of_lost_replicas_hold_nothing_and_their_counts_stay() -> None:
    cluster = Cluster("a", "b")
    first, second = CacheCounts(5, 2, 2, 20), CacheCounts(1, 1, 1, 7)
    cluster.known.on_state(ReplicaState("a", Metrics(), {"speakers": first}))
    cluster.known.on_state(ReplicaState("b", Metrics(), {"speakers": second, "samples": first}))
    assert cluster.known.caches() == {"speakers": CacheCounts(6, 3, 3, 27), "samples": first}
    cluster.living = {"b"}
    told = cluster.figures()
    assert told["chattts_speakers_cache_hits_total"] == 6
    assert told["chattts_speakers_cache_misses_total"] == 3
    assert told["chattts_speakers_cache_weight"] == 7


def test_each_metric_of_two_replicas_combines_in_its_own_way() -> None:
    cluster = Cluster("large", "small")
    large = Metrics(
        blocks=90, used_blocks=9, touched_blocks=30, block_bytes=100, block_positions=16
    )
    small = Metrics(
        blocks=10, used_blocks=10, touched_blocks=10, block_bytes=300, block_positions=32
    )
    cluster.known.on_state(ReplicaState("large", replace(large, prompt_positions=5)))
    cluster.known.on_state(ReplicaState("small", replace(small, prompt_positions=2)))
    told = cluster.figures()
    assert told["chattts_kv_blocks"] == 100
    assert told["chattts_kv_blocks_used"] == 19
    assert told["chattts_kv_usage"] == told["vllm:kv_cache_usage_perc"] == 0.19
    assert told["chattts_kv_bytes"] == 90 * 100 + 10 * 300
    assert told["chattts_kv_touched_bytes"] == 30 * 100 + 10 * 300
    assert told["chattts_kv_block_positions"] == 32
    assert told["chattts_prompt_positions_total"] == 7
    cluster.living = {"large"}
    told = cluster.figures()
    assert (told["chattts_kv_usage"], told["chattts_kv_block_positions"]) == (0.1, 16)
    assert told["chattts_prompt_positions_total"] == 7


def test_metrics_without_any_replica_are_zero() -> None:
    told = Cluster().figures()
    assert {told[metric.name] for metric in ENGINE_METRICS} == {0}


def test_a_time_that_is_too_short_keeps_its_kind() -> None:
    fit = Fit(0.5, 1.0, 0.0, 1.5, 3.0, 1.03, 0.0, ("[speed_9]",))
    error = Failed.of(DurationError(["hello."], [fit], None)).error()
    assert as_serving_error(error).code == "duration_too_short"
    assert "the shortest time that it can take is 1.50 s" in str(error)
