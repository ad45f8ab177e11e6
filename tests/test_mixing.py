"""Rows of samples: in order, none lost, none twice, silence only behind the end."""

import random

import numpy as np
import pytest
import torch

from ChatTTS.mixing import RowMixer
from ChatTTS.model.generation import Delta, FinishReason
from ChatTTS.speech import Gain, Utterance

HOP, REACH = 4, 5


class Counting:
    """Stands in for the synthesizer: frame t of value v sounds as v + 0, v + 1, ... + 2 HOP - 1."""

    hop, reach = HOP, REACH

    def length(self, frames: int) -> int:
        return max(0, 2 * frames - 1) * HOP

    def frames(self, ids: torch.Tensor, hiddens: torch.Tensor) -> torch.Tensor:
        return hiddens

    def samples(self, frames: torch.Tensor) -> torch.Tensor:
        sounds = frames + torch.arange(2 * HOP)
        return sounds.flatten().float()[: self.length(len(frames))]

    def begin(self) -> list[torch.Tensor]:
        return []

    def advance(
        self, state: list[torch.Tensor], frames: torch.Tensor | None, *, last: bool
    ) -> torch.Tensor:
        given = max(0, 2 * sum(map(len, state)) - REACH) * HOP
        if frames is not None:
            state.append(frames)
        count = sum(map(len, state))
        end = self.length(count) if last else max(0, 2 * count - REACH) * HOP
        return self.samples(torch.cat(state))[given:end] if state else torch.empty(0)


def sounds(utterance: Utterance, frames: int) -> np.ndarray:
    """What an utterance sounds like when decoded at once."""
    first = 100_000 * utterance.row + 10_000 * utterance.index + 1
    values = first + 2 * HOP * np.arange(frames)[:, None] + np.arange(2 * HOP)
    return values.flatten()[: max(0, 2 * frames - 1) * HOP].astype(np.float32)


def delta(utterance: Utterance, start: int, count: int, finish: FinishReason | None) -> Gain:
    first = 100_000 * utterance.row + 10_000 * utterance.index + 1
    hiddens = (first + 2 * HOP * torch.arange(start, start + count)).unsqueeze(1)
    ids = torch.zeros(count, 4, dtype=torch.int64)
    return Gain(utterance, Delta(0, ids, hiddens, finish))


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("batch", [None, 1, 6])
def test_joined_chunks_are_the_rows(seed: int, batch: int | None) -> None:
    dice = random.Random(seed)
    utterances = [
        Utterance(row, index, f"text {row}.{index}")
        for row in range(dice.randint(1, 4))
        for index in range(dice.randint(1, 3))
    ]
    lengths = {u: dice.choice([0, 1, 2, 7, 30, 61]) for u in utterances}
    mixer = RowMixer(Counting(), utterances, batch)
    at = dict.fromkeys(utterances, 0)
    chunks, running = [], list(utterances)
    least, most = dice.choice([(1, None), (1, 5), (9, 9), (40, None)])
    while running:
        u = dice.choice(running)
        count = min(dice.randint(1, 5), lengths[u] - at[u])
        finish = FinishReason.STOP if at[u] + count == lengths[u] else None
        mixer.push(delta(u, at[u], count, finish))
        at[u] += count
        if finish:
            running.remove(u)
        while (chunk := mixer.take(least, most)) is not None:
            assert chunk.shape[1] > 0
            assert most is None or chunk.shape[1] <= most
            chunks.append(chunk)
    rows = len(mixer.rows)
    joined = np.concatenate(chunks, axis=1) if chunks else np.zeros((rows, 0), np.float32)
    for row in range(rows):
        own = [u for u in utterances if u.row == row]
        expected = np.concatenate([sounds(u, lengths[u]) for u in own])
        np.testing.assert_array_equal(joined[row, : len(expected)], expected)
        assert not joined[row, len(expected) :].any()
        assert [spoken.samples for spoken in mixer.rows[row].utterances] == [
            len(sounds(u, lengths[u])) for u in own
        ]
        assert mixer.rows[row].finish_reason == "stop"
    assert sorted(mixer.empty_texts) == sorted(u.text for u in utterances if not lengths[u])


def test_whole_rows_and_their_worst_finish_reason() -> None:
    utterances = [Utterance(0, 0, "a"), Utterance(0, 1, "b"), Utterance(1, 0, "c")]
    mixer = RowMixer(Counting(), utterances)
    mixer.push(delta(utterances[1], 0, 3, FinishReason.LENGTH))
    mixer.push(delta(utterances[2], 0, 2, FinishReason.ABORT))
    assert [row.finish_reason for row in mixer.rows] == [None, "abort"]
    mixer.push(delta(utterances[0], 0, 4, FinishReason.STOP))
    assert [row.finish_reason for row in mixer.rows] == ["length", "abort"]
    first, second = mixer.whole()
    expected = np.concatenate([sounds(utterances[0], 4), sounds(utterances[1], 3)])
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(second, sounds(utterances[2], 2))


def test_a_row_that_has_nothing_yet_holds_the_others_back() -> None:
    utterances = [Utterance(0, 0, "a"), Utterance(1, 0, "b")]
    mixer = RowMixer(Counting(), utterances, 1)
    mixer.push(delta(utterances[0], 0, 40, None))
    assert mixer.take() is None
    mixer.push(delta(utterances[1], 0, 0, FinishReason.STOP))
    chunk = mixer.take()
    assert chunk is not None
    np.testing.assert_array_equal(chunk[0], sounds(utterances[0], 40)[: chunk.shape[1]])
    assert not chunk[1].any()
