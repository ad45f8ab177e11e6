"""The model's process over a pair of sockets in this process: its messages, calls and deaths."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from ChatTTS.errors import EngineDeadError, TextError
from ChatTTS.model.lora.names import AdapterInfo
from ChatTTS.model.velocity.metrics import Metrics
from ChatTTS.serving.replicas.failover import FailoverStream, Patience
from ChatTTS.serving.replicas.messages import (
    Alive,
    Ended,
    Failed,
    Message,
    Opened,
    ReplicaState,
)
from ChatTTS.serving.replicas.model_process import connection, program
from ChatTTS.serving.replicas.model_process.connection import Connection
from ChatTTS.serving.replicas.model_process.plain_data import WireError
from ChatTTS.serving.replicas.model_process.pool import ProcessPool
from ChatTTS.serving.replicas.model_process.program import Answers, answer
from ChatTTS.serving.replicas.model_process.wire import (
    CONNECTION,
    Answer,
    Decoder,
    Leave,
    Recording,
    Start,
    Taken,
    encode,
    receive,
)
from ChatTTS.serving.replicas.options import LoadOptions
from ChatTTS.serving.replicas.pool import Facts, ReplicaLostError
from ChatTTS.serving.requests.jobs import RefineJob, SpeechJob
from ChatTTS.text.lexicon import Lexicon
from ChatTTS.utils.lru import CacheCounts

from ...support.replica_fakes import PRINT, FakePool, Life, pieces, sound

LEXICON = Lexicon.of(
    {"nginx": "engine x", "US": {"say": "u s", "exact": True}, "data": {"ipa": "ˈdeɪtə"}}
)
JOB = SpeechJob(
    "one two three",
    {"spk_smp": "a sample", "txt_smp": "its words"},
    {"manual_seed": 2**62, "temperature": 0.1, "top_P": None},
    7,
    word_times=True,
    guard="report",
    duration=2.5,
    lexicon=LEXICON,
)
FACTS = Facts(PRINT, True, False, None, {"anna": AdapterInfo(None, "abc")}, ("en", "xx"))
LOAD = LoadOptions("custom", "/a", None, "float32", 1, "2 sequences", normalizers=(("xx", "m:f"),))
QUICK = Patience(seconds=20, pause=0, silence=None)
STATE = ReplicaState(
    "replica-0",
    Metrics(generated_tokens=10, model_seconds=0.5),
    {"speakers": CacheCounts(1, 2, 3, 4)},
)
OPENED = Opened(PRINT, ("one", "two"), STATE, ("x",))


# ------------------------------------------------------------------ messages


@pytest.mark.parametrize(
    "message",
    [
        Start(LOAD, "name", "text", 30),
        FACTS,
        JOB,
        replace(JOB, text="half a letter, as JSON of clients may have it: \ud800"),
        RefineJob("so", {"manual_seed": 3}, None, LEXICON),
        Taken(240_000),
        Leave(),
        Answer("so"),
        Alive(3),
        OPENED,
        Ended(None, OPENED.state),
        Failed("TextError", "too long", ("a",), None, ("b",), ("en",)),
    ],
    ids=lambda message: type(message).__name__,
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_messages_arrive_as_they_were_sent(message: Any, size: int) -> None:
    data, decoder = encode(4, message) + encode(5, Leave()), Decoder()
    got = [each for at in range(0, len(data), size) for each in decoder.feed(data[at : at + size])]
    assert got == [(4, message), (5, Leave())]


def test_samples_arrive_beside_their_fields() -> None:
    given = pieces(JOB, 5)
    data = b"".join(encode(1, piece) for piece in given)
    got = [message for _, message in Decoder().feed(data)]
    for piece, other in zip(given, got, strict=True):
        assert type(other) is type(piece)
        assert other.samples.tobytes() == piece.samples.tobytes()
        assert replace(other, samples=piece.samples) == piece
    samples = np.arange(5, dtype=np.float32)
    [(_, recording)] = Decoder().feed(encode(1, Recording(samples, 16_000)))
    assert isinstance(recording, Recording)
    assert recording.samples.tobytes() == samples.tobytes()


class Version(str):
    """A text of another class, as torch's version is."""


def test_values_of_other_classes_travel_as_plain_ones() -> None:
    facts = replace(FACTS, fingerprint=replace(PRINT, torch=Version("2.13.0")))
    [(_, got)] = Decoder().feed(encode(1, facts))
    assert got == FACTS
    job = replace(JOB, sampling={"manual_seed": np.int64(3), "temperature": np.float64(0.1)})
    [(_, travelled)] = Decoder().feed(encode(1, job))
    assert travelled == job


def frame(header: Any, body: bytes = b"") -> bytes:
    told = json.dumps(header).encode()
    return struct.pack("<II", len(told), len(body)) + told + body


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 8,
        struct.pack("<II", 2, 0) + b"no",
        frame({"call": 1}),
        frame([1, "os.system", {}]),
        frame(["1", "Leave", {}]),
        frame([1, "Leave", {"more": 1}]),
        frame([1, "Leave", {}], b"1234"),
        frame([1, "Answer", {}]),
        frame([1, "Answer", {"text": 1}]),
        frame([1, "Answer", ["text"]]),
        frame([1, "Recording", {"sample_rate": True}], b"1234"),
        frame([1, "Recording", {"sample_rate": 9}], b"123"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        list(Decoder().feed(data))


def test_a_socket_is_read_up_to_the_end_of_a_message() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(encode(CONNECTION, FACTS) + encode(1, Leave()))
        assert receive(ours) == FACTS
        assert receive(ours) == Leave()
        theirs.close()
        assert receive(ours) is None


# ------------------------------------------------------------------ calls


@dataclass
class FakeReplica:
    """A replica of one life, whose process may die.

    Attributes:
        life: how it speaks.
        dies_after: messages after which its process is gone.
        closed: how many streams have ended.
        given: samples of the last stream that were asked for.
        unrecorded: what it says of its recordings.
    """

    life: Life = field(default_factory=Life)
    dies_after: int | None = None
    closed: int = 0
    given: int = 0
    unrecorded: int = 0
    die: Callable[[], None] = lambda: None
    refining: threading.Event = field(default_factory=threading.Event)

    async def speak(self, job: SpeechJob) -> AsyncGenerator[Message, None]:
        count = self.given = 0
        try:
            async for message in FakePool([self.life]).speak(job):
                if count == self.dies_after:
                    self.die()
                    await asyncio.sleep(3600)
                self.given += len(getattr(message, "samples", ()))
                yield message
                await asyncio.sleep(0)
                count += 1
        finally:
            self.closed += 1

    def refine(self, job: RefineJob, interrupt: threading.Event) -> str | Failed:
        if job.text == "forever":
            self.refining.set()
            interrupt.wait()
        if job.text == "wrong":
            raise KeyError
        return FakePool([self.life]).refine(job, interrupt)

    def encode_sample(self, samples: Any, sample_rate: int) -> str | Failed:
        return FakePool([self.life]).encode_sample(samples, sample_rate)


class FakeProcess:
    """A process that is a task of this loop."""

    def __init__(self, replica: FakeReplica, name: str = "replica-0") -> None:
        self.name, self.killed = name, 0
        self.end, self._theirs = socket.socketpair()
        replica.die = self.kill
        self.task = asyncio.ensure_future(answer(self._theirs, replica))  # type: ignore[arg-type]

    def kill(self) -> None:
        self.killed += 1
        self.end.shutdown(socket.SHUT_RDWR)


def with_pool(
    work: Callable[[ProcessPool, list[FakeProcess]], Coroutine[Any, Any, None]],
    *replicas: FakeReplica,
) -> None:
    """Run ``work`` with a pool of the first replica, whose process the others follow."""

    async def run() -> None:
        pool, processes = ProcessPool(), list[FakeProcess]()

        async def one_after_another() -> None:
            for replica in replicas:
                processes.append(process := FakeProcess(replica))
                pool.use(process)  # type: ignore[arg-type]
                await process.task
                process.end.close()

        following = asyncio.ensure_future(one_after_another())
        await asyncio.sleep(0)
        await work(pool, processes)
        following.cancel()
        await asyncio.wait([following, *(process.task for process in processes)])

    asyncio.run(asyncio.wait_for(run(), 60))


async def heard(pool: ProcessPool, job: SpeechJob = JOB) -> tuple[bytes, FailoverStream]:
    stream = FailoverStream(job, pool, QUICK, lambda state: None)
    await stream.open()
    return b"".join([piece.samples.tobytes() async for piece in stream]), stream


def test_many_streams_share_a_connection() -> None:
    async def work(pool: ProcessPool, processes: list[FakeProcess]) -> None:
        jobs = [replace(JOB, seed=seed) for seed in range(5)]
        got = await asyncio.gather(*(heard(pool, job) for job in jobs))
        assert [each for each, _ in got] == [sound(job).tobytes() for job in jobs]
        assert {stream.lost for _, stream in got} == {0}
        assert pool.living() == {"replica-0"}

    with_pool(work, FakeReplica())


def test_the_front_knows_what_a_process_still_records() -> None:
    async def work(pool: ProcessPool, processes: list[FakeProcess]) -> None:
        assert pool.unrecorded == 0
        await heard(pool)
        while not pool.unrecorded:
            await asyncio.sleep(0)
        assert pool.unrecorded == 35

    with_pool(work, FakeReplica(unrecorded=35))


@pytest.mark.parametrize("cut", [0, 1, 4])
def test_streams_go_on_with_the_next_process(cut: int) -> None:
    async def work(pool: ProcessPool, processes: list[FakeProcess]) -> None:
        got = await asyncio.gather(heard(pool), heard(pool))
        assert [each for each, _ in got] == [sound(JOB).tobytes()] * 2
        assert {stream.lost for _, stream in got} == {1}
        assert len(processes) == 2

    with_pool(work, FakeReplica(dies_after=cut), FakeReplica(Life(size=3)))


def test_a_process_whose_engine_has_stopped_is_ended() -> None:
    async def work(pool: ProcessPool, processes: list[FakeProcess]) -> None:
        got, stream = await heard(pool)
        assert (got, stream.lost) == (sound(JOB).tobytes(), 1)
        assert processes[0].killed == 1

    dead = Life(dies_after=3, fails=EngineDeadError("an error of the device ended it"))
    with_pool(work, FakeReplica(dead), FakeReplica())


def test_leaving_ends_the_job_in_the_process() -> None:
    replica = FakeReplica(Life(dies_after=3, hangs=True))

    async def work(pool: ProcessPool, processes: list[FakeProcess]) -> None:
        stream = FailoverStream(JOB, pool, QUICK, lambda state: None)
        await stream.open()
        await stream.__anext__()
        assert replica.closed == 0
        await stream.aclose()
        while not replica.closed:
            await asyncio.sleep(0)

    with_pool(work, replica)


def test_a_client_that_reads_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "AHEAD_SAMPLES", 6)
    monkeypatch.setattr(connection, "_TOLD_SAMPLES", 2)
    replica = FakeReplica(Life(size=2))

    async def work(pool: ProcessPool, processes: list[FakeProcess]) -> None:
        taken = 0
        async with aclosing(pool.speak(JOB)) as messages:
            async for message in messages:
                for _ in range(50):  # the process is as quick as it can be
                    await asyncio.sleep(0)
                taken += len(getattr(message, "samples", ()))
                assert replica.given - taken <= 6
                if isinstance(message, Ended):
                    break
        assert taken == len(sound(JOB))
        # Another stream is not held up by one that waits.
        async with aclosing(pool.speak(JOB)) as messages:
            await messages.__anext__()
            assert (await heard(pool))[0] == sound(JOB).tobytes()

    with_pool(work, replica)


def test_errors_of_a_job_are_told() -> None:
    async def work(pool: ProcessPool, processes: list[FakeProcess]) -> None:
        with pytest.raises(TextError, match="too long"):
            await heard(pool)
        assert len(processes) == 1

    with_pool(work, FakeReplica(Life(dies_after=2, fails=TextError("too long"))))


def test_other_calls_are_answered() -> None:
    async def work(pool: ProcessPool, processes: list[FakeProcess]) -> None:
        never = threading.Event()
        with pytest.raises(ReplicaLostError, match="no stream"):
            await asyncio.to_thread(pool.refine, RefineJob("so", {}), never)
        await heard(pool)
        assert await asyncio.to_thread(pool.refine, RefineJob("so", {}), never) == "SO"
        recording = np.zeros(3, dtype=np.float32)
        assert await asyncio.to_thread(pool.encode_sample, recording, 9) == "3 at 9"
        failed = await asyncio.to_thread(pool.refine, RefineJob("wrong", {}), never)
        assert isinstance(failed, Failed)
        assert "KeyError" in failed.message
        left = threading.Event()
        left.set()
        assert await asyncio.to_thread(pool.refine, RefineJob("forever", {}), left) == ""

    with_pool(work, FakeReplica())


def test_other_calls_end_with_their_process() -> None:
    replica = FakeReplica()

    async def work(pool: ProcessPool, processes: list[FakeProcess]) -> None:
        await heard(pool)
        never = threading.Event()
        asking = asyncio.ensure_future(
            asyncio.to_thread(pool.refine, RefineJob("forever", {}), never)
        )
        await asyncio.to_thread(replica.refining.wait)
        processes[0].kill()
        with pytest.raises(ReplicaLostError, match="gone"):
            await asking

    with_pool(work, replica)


def test_a_process_that_says_nothing_is_lost() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        lost: list[None] = []
        connection = Connection("a", lambda: lost.append(None), beat_seconds=0.001)
        await asyncio.get_running_loop().create_connection(lambda: connection, sock=ours)
        with pytest.raises(ReplicaLostError, match="said nothing"):
            await connection.call(JOB).__anext__()
        assert (lost, connection.is_open) == ([None], False)
        with pytest.raises(ReplicaLostError, match="said nothing"):
            await connection.call(JOB).__anext__()
        theirs.close()

    asyncio.run(run())


class Transport(asyncio.Transport):
    """Notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        self.written.append(data)


def test_what_is_ready_in_one_turn_leaves_in_one_write() -> None:
    async def run() -> None:
        answers, transport = Answers(FakeReplica()), Transport()  # type: ignore[arg-type]
        answers.connection_made(transport)
        calls = (encode(call, replace(JOB, seed=call)) for call in range(1, 9))
        answers.data_received(b"".join(calls))
        while answers._calls:
            await asyncio.sleep(0)
        told = [[call for call, _ in Decoder().feed(data)] for data in transport.written]
        assert told == [list(range(1, 9))] * len(pieces(JOB, 4)) + [list(range(1, 9))] * 2

    asyncio.run(run())


def test_frames_wait_in_order_while_the_front_reads_slowly() -> None:
    async def run() -> None:
        answers, transport = Answers(FakeReplica()), Transport()  # type: ignore[arg-type]
        answers.connection_made(transport)
        frames = [encode(call, Leave()) for call in range(6)]
        answers.write(frames[0])
        answers.pause_writing()
        for frame in frames[1:4]:
            answers.write(frame)
            await asyncio.sleep(0)
        assert not transport.written
        answers.resume_writing()
        for frame in frames[4:]:
            answers.write(frame)
            await asyncio.sleep(0)
        assert b"".join(transport.written) == b"".join(frames)

    asyncio.run(run())


def test_no_write_is_much_longer_than_the_transport_takes_at_once() -> None:
    async def run() -> None:
        answers, transport = Answers(FakeReplica()), Transport()  # type: ignore[arg-type]
        answers.connection_made(transport)
        for _ in range(4):
            answers.write(bytes(program._WRITE_BYTES // 2))
        await asyncio.sleep(0)
        assert [len(data) for data in transport.written] == [program._WRITE_BYTES] * 2

    asyncio.run(run())
