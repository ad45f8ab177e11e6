"""Assembly of rows of samples: in order, none lost, none twice, silence only after the end."""

import asyncio
import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.model.generation import Cancellation, Delta, FinishReason
from ChatTTS.pipeline import assembly, waveform_buffer
from ChatTTS.pipeline.assembly import WaveformAssembler
from ChatTTS.pipeline.decode.schedules import FixedSize, JustInTime, PlaybackClock
from ChatTTS.pipeline.decode.utterance_decoder import UtteranceDecoder
from ChatTTS.pipeline.decode.worker import MAX_FRAMES, DecodeWorker
from ChatTTS.pipeline.results import Piece
from ChatTTS.pipeline.stream_generation import GenerationThread
from ChatTTS.pipeline.utterance import Utterance, UtteranceUpdate
from ChatTTS.utils.fair_lock import NoLock

from ..support.decode_fakes import HOP, FakeSynthesizer

SYNTHESIZER: Any = FakeSynthesizer(reach=5)
MADE: list[WaveformAssembler] = []


@pytest.fixture(autouse=True)
def _leave() -> Iterator[None]:
    """Wait for the decoding threads, which other tests would see."""
    yield
    while MADE:
        MADE.pop().leave()


def assembler_of(
    utterances: Sequence[Utterance], batch: int | None = 1, *, waits_for_consumer: bool = False
) -> WaveformAssembler:
    def decoder(utterance: Utterance, playback: PlaybackClock) -> UtteranceDecoder:
        paced = JustInTime(playback, 2 * HOP)
        return UtteranceDecoder(SYNTHESIZER, FixedSize(batch, 2 * HOP) if batch else paced)

    rows = 1 + max(utterance.text_index for utterance in utterances)
    assembler = WaveformAssembler(
        DecodeWorker(NoLock()), utterances, rows, decoder, waits_for_consumer=waits_for_consumer
    )
    MADE.append(assembler)
    return assembler


def sounds(utterance: Utterance, frames: int) -> np.ndarray:
    """The samples of an utterance that is decoded at once."""
    first = 100_000 * utterance.text_index + 10_000 * utterance.index + 1
    values = first + 2 * HOP * np.arange(frames)[:, None] + np.arange(2 * HOP)
    return values.flatten()[: max(0, 2 * frames - 1) * HOP].astype(np.float32)


def update(
    utterance: Utterance, start: int, count: int, finish: FinishReason | None
) -> UtteranceUpdate:
    first = 100_000 * utterance.text_index + 10_000 * utterance.index + 1
    hiddens = (first + 2 * HOP * torch.arange(start, start + count)).unsqueeze(1)
    ids = torch.zeros(count, 4, dtype=torch.int64)
    return UtteranceUpdate(utterance, Delta(0, ids, hiddens, finish))


def speak(assembler: WaveformAssembler, lengths: dict[Utterance, int], dice: random.Random) -> None:
    """Push all frames of all utterances, in any order, as a thread would."""
    at, running = dict.fromkeys(lengths, 0), list(lengths)
    while running:
        u = dice.choice(running)
        count = min(dice.randint(1, 5), lengths[u] - at[u])
        finish = FinishReason.STOP if at[u] + count == lengths[u] else None
        assembler.push(update(u, at[u], count, finish))
        at[u] += count
        if finish:
            running.remove(u)


@pytest.mark.slow_for("*-[4-9]-*", "*-[12][0-9]-*")
@pytest.mark.parametrize("in_a_loop", [False, True])
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("batch", [None, 1, 6])
def test_joined_chunks_are_the_rows(seed: int, batch: int | None, in_a_loop: bool) -> None:
    dice = random.Random(seed)
    utterances = [
        Utterance(row, index, f"text {row}.{index}")
        for row in range(dice.randint(1, 4))
        for index in range(dice.randint(1, 3))
    ]
    lengths = {u: dice.choice([0, 1, 2, 7, 30, 61]) for u in utterances}
    assembler = assembler_of(utterances, batch)
    least, most = dice.choice([(1, None), (1, 5), (9, 9), (40, None)])
    thread = threading.Thread(target=speak, args=(assembler, lengths, dice))
    thread.start()
    chunks = []

    async def take_all() -> None:
        while (
            chunk := await assembler.wait_async(lambda: assembler.take(least, most))
        ) is not None:
            chunks.append(chunk)

    if in_a_loop:
        asyncio.run(take_all())
    else:
        while (chunk := assembler.wait(lambda: assembler.take(least, most))) is not None:
            chunks.append(chunk)
    thread.join()
    assert all(0 < chunk.shape[1] <= (most or 10**9) for chunk in chunks)
    rows = len(assembler.texts)
    joined = np.concatenate(chunks, axis=1) if chunks else np.zeros((rows, 0), np.float32)
    for row in range(rows):
        own = [u for u in utterances if u.text_index == row]
        expected = np.concatenate([sounds(u, lengths[u]) for u in own])
        np.testing.assert_array_equal(joined[row, : len(expected)], expected)
        assert not joined[row, len(expected) :].any()
        assert [spoken.samples for spoken in assembler.texts[row].utterances] == [
            len(sounds(u, lengths[u])) for u in own
        ]
        assert assembler.texts[row].finish_reason == "stop"
    assert sorted(assembler.empty_texts) == sorted(u.text for u in utterances if not lengths[u])


@pytest.mark.parametrize("seed", range(10))
def test_pieces_belong_to_one_utterance_each(seed: int) -> None:
    dice = random.Random(seed)
    utterances = [Utterance(0, index, f"text {index}") for index in range(4)]
    lengths = {u: dice.choice([0, 1, 7, 30]) for u in utterances}
    assembler = assembler_of(utterances, None)
    pieces: list[Piece] = []
    thread = threading.Thread(target=speak, args=(assembler, lengths, dice))
    thread.start()
    while (
        piece := assembler.wait(lambda: assembler.piece(sum(len(p.samples) for p in pieces)))
    ) is not None:
        pieces.append(piece)
    thread.join()
    for u in utterances:
        own = [piece for piece in pieces if piece.utterance == u.index]
        assert {piece.text for piece in own} <= {u.text}
        joined = np.concatenate([piece.samples for piece in own] or [np.zeros(0, np.float32)])
        np.testing.assert_array_equal(joined, sounds(u, lengths[u]))
        assert [piece.finish_reason for piece in own] == [None] * (len(own) - 1) + ["stop"] * bool(
            own
        )
    ends = np.cumsum([len(piece.samples) for piece in pieces])
    assert [piece.position for piece in pieces] == [0, *ends[:-1]][: len(pieces)]


def test_whole_rows_and_their_worst_finish_reason() -> None:
    utterances = [Utterance(0, 0, "a"), Utterance(0, 1, "b"), Utterance(1, 0, "c")]
    assembler = assembler_of(utterances)
    assembler.push(update(utterances[1], 0, 3, FinishReason.LENGTH))
    assembler.push(update(utterances[2], 0, 2, FinishReason.ABORT))
    assert assembler.wait(lambda: assembler.texts[1].finish_reason) == "abort"
    assert assembler.texts[0].finish_reason is None
    assembler.push(update(utterances[0], 0, 4, FinishReason.STOP))
    assert assembler.wait(lambda: assembler.is_complete or None)
    assert [row.finish_reason for row in assembler.texts] == ["length", "abort"]
    first, second = assembler.waveforms()
    expected = np.concatenate([sounds(utterances[0], 4), sounds(utterances[1], 3)])
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(second, sounds(utterances[2], 2))
    assert assembler.wait(assembler.take) is None


def test_silence_stands_around_what_is_heard_alone() -> None:
    heard, empty = (Utterance(row, 0, "a", before=100, after=50) for row in range(2))
    assembler = assembler_of([heard, empty])
    assembler.push(update(empty, 0, 0, FinishReason.STOP))
    assembler.push(update(heard, 0, 2, FinishReason.STOP))
    assert assembler.wait(lambda: assembler.is_complete or None)
    first, second = assembler.waveforms()
    np.testing.assert_array_equal(first, np.pad(sounds(heard, 2), (100, 50)))
    assert len(second) == 0


def test_a_row_that_has_nothing_yet_holds_the_others_back() -> None:
    utterances = [Utterance(0, 0, "a"), Utterance(1, 0, "b")]
    assembler = assembler_of(utterances)
    assembler.push(update(utterances[0], 0, 40, None))
    assert assembler.wait(lambda: assembler.texts[0].utterances[0].samples or None)
    assert assembler.take() is None
    assembler.push(update(utterances[1], 0, 0, FinishReason.STOP))
    chunk = assembler.wait(assembler.take)
    assert chunk is not None
    np.testing.assert_array_equal(chunk[0], sounds(utterances[0], 40)[: chunk.shape[1]])
    assert not chunk[1].any()


def test_utterances_are_decoded_in_the_order_in_which_they_are_heard() -> None:
    utterances = [Utterance(0, 0, "a"), Utterance(0, 1, "b")]
    assembler = assembler_of(utterances)
    assembler.push(update(utterances[1], 0, 40, FinishReason.STOP))
    assembler.push(update(utterances[0], 0, 20, None))
    assert assembler.wait(lambda: assembler.texts[0].utterances[0].samples or None)
    assert assembler.texts[0].utterances[1].samples == 0
    assembler.push(update(utterances[0], 20, 0, FinishReason.STOP))
    assert assembler.wait(lambda: assembler.is_complete or None)
    (samples,) = assembler.waveforms()
    assert len(samples) == 39 * HOP + 79 * HOP


def test_what_is_far_ahead_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waveform_buffer, "_DECODED_AHEAD", 10 * 2 * HOP)
    monkeypatch.setattr(assembly, "_GENERATED_AHEAD", 300 * 2 * HOP)
    utterances = [Utterance(0, 0, "a"), Utterance(1, 0, "b")]
    assembler, pushed = assembler_of(utterances, waits_for_consumer=True), threading.Semaphore(0)

    def generate() -> None:
        for frame in range(500):
            for u in utterances:
                assembler.push(update(u, frame, 1, FinishReason.STOP if frame == 499 else None))
                pushed.release()

    thread = threading.Thread(target=generate, daemon=True)
    thread.start()
    for _ in range(2 * 300):
        assert pushed.acquire(timeout=10)
    assert not pushed.acquire(timeout=0.1)  # the reader has taken no output yet
    (spoken,) = assembler.texts[0].utterances
    deadline = time.monotonic() + 10
    while spoken.samples < 80 and time.monotonic() < deadline:  # poll: a wait lifts the limit
        time.sleep(0.01)
    # A turn that began with room may go beyond the limit, but not by more than a turn.
    assert 80 <= spoken.samples <= (10 + MAX_FRAMES) * 2 * HOP
    chunks = []
    while (chunk := assembler.wait(lambda: assembler.take(1, 240))) is not None:
        chunks.append(chunk)
    thread.join(10)
    joined = np.concatenate(chunks, axis=1)
    for row, u in enumerate(utterances):
        np.testing.assert_array_equal(joined[row], sounds(u, 500))


def test_a_waiting_reader_gets_more_than_the_limit_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waveform_buffer, "_DECODED_AHEAD", 10 * 2 * HOP)
    monkeypatch.setattr(assembly, "_GENERATED_AHEAD", 30 * 2 * HOP)
    first, second = Utterance(0, 0, "a"), Utterance(0, 1, "b")
    assembler = assembler_of([first, second], waits_for_consumer=True)

    def generate() -> None:
        # The later utterance is far ahead before the one that is heard first has begun.
        assembler.push(update(second, 0, 100, None))
        assembler.push(update(first, 0, 100, FinishReason.STOP))
        assembler.push(update(second, 100, 1, FinishReason.STOP))

    thread = threading.Thread(target=generate, daemon=True)
    thread.start()
    chunks = []
    # A chunk that is larger than the limit of samples that lie ready.
    while (chunk := assembler.wait(lambda: assembler.take(150 * 2 * HOP))) is not None:
        chunks.append(chunk)
    thread.join(10)
    assert len(chunks[0][0]) >= 150 * 2 * HOP
    expected = [sounds(first, 100), sounds(second, 101)]
    np.testing.assert_array_equal(np.concatenate(chunks, axis=1)[0], np.concatenate(expected))


def test_what_comes_just_before_the_loop_waits_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    utterance = Utterance(0, 0, "a")
    assembler = assembler_of([utterance])
    lock = assembler.worker.lock

    class Late:
        def __enter__(self) -> None:
            lock.acquire()

        def __exit__(self, *error: object) -> None:
            lock.release()
            with lock:
                assembler.notify()  # after the last check, before the wait begins

    monkeypatch.setattr(assembler.worker, "lock", Late())

    async def read() -> np.ndarray | None:
        pushed = asyncio.to_thread(assembler.push, update(utterance, 0, 9, FinishReason.STOP))
        return (await asyncio.gather(assembler.wait_async(assembler.take), pushed))[0]

    assert asyncio.run(asyncio.wait_for(read(), 10)) is not None


def test_an_error_comes_behind_what_was_ready() -> None:
    utterance = Utterance(0, 0, "a")
    assembler = assembler_of([utterance])
    assembler.push(update(utterance, 0, 10, None))
    assert assembler.wait(lambda: assembler.texts[0].utterances[0].samples or None)
    assembler.fail(ValueError("broken"))
    assembler.fail(ValueError("later"))
    assert assembler.wait(assembler.take) is not None
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            assembler.wait(assembler.take)
    assembler.push(update(utterance, 10, 1, None))  # this has no effect


def test_generation_does_not_wait_for_a_reader_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "_GENERATED_AHEAD", 1)
    utterance = Utterance(0, 0, "a")
    assembler = assembler_of([utterance], waits_for_consumer=True)
    assembler.push(update(utterance, 0, 10, None))
    thread = threading.Thread(
        target=assembler.push, args=(update(utterance, 10, 1, None),), daemon=True
    )
    thread.start()
    assembler.close()
    thread.join(10)
    assert not thread.is_alive()
    assert assembler.wait(assembler.take) is None


def test_a_generation_ends_once_no_reader_takes_from_it() -> None:
    utterance = Utterance(0, 0, "a")
    assembler = assembler_of([utterance])
    assembler.fail(ValueError("broken"))
    updates = iter([update(utterance, 0, 1, None)] * 3)
    production = GenerationThread(updates, assembler, Cancellation())
    production.begin()
    production.close()
    assert len(list(updates)) == 2
