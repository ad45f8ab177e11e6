"""The teacher of many lines at once: ends of rows, its packed files, and rounds of shards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recipes.voice import fast_network
from recipes.voice.corpus import SHARD, Plan
from recipes.voice.fast_corpus import speak
from recipes.voice.fast_generator import Extent, Residual, Source, snake
from recipes.voice.fast_teacher import FastTeacher, take_of
from recipes.voice.fast_weights import pack_voices, unpack_voices
from recipes.voice.styles import VOICES, StyleSpace
from recipes.voice.takes import TEACHER_FRAME, Line, Takes

LENGTHS = torch.tensor([9, 7, 4])


class Tones:
    """Stands in for the teacher: two frames of a constant for each symbol."""

    def sounds(
        self, lines: Sequence[Line], weights: NDArray[np.floating], speeds: Sequence[float]
    ) -> Iterator[tuple[int, NDArray[np.float32], NDArray[np.int32]]]:
        assert len(lines) == len(weights) == len(speeds)
        for row, line in reversed(list(enumerate(lines))):
            frames = np.full(len(line.phonemes) + 2, 2, np.int32)
            yield row, np.full(frames.sum() * TEACHER_FRAME, 0.1, np.float32), frames


@pytest.fixture(scope="module")
def plan() -> Plan:
    tables = np.random.default_rng(0).standard_normal((len(VOICES), 110, 256)).astype(np.float32)
    lines = {"en": [Line("Hello.", "en", "həlˈO."), Line("Yes.", "en", "jˈɛs.")]}
    return Plan(3, lines, StyleSpace.of(tables))


def batch(module: nn.Module, channels: int) -> tuple[Tensor, Tensor, Extent]:
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0.5, 0.2)
    extent = Extent.of(LENGTHS, torch.device("cpu"))
    return extent.clear(torch.randn(3, channels, 9)), torch.randn(3, 128), extent


@pytest.mark.parametrize("is_doubled", [False, True])
def test_rows_of_a_batch_are_as_they_are_alone(is_doubled: bool) -> None:
    block = fast_network._Block(6, 4, is_doubled)
    values, style, extent = batch(block, 6)
    together = block(values, style, extent)
    for row, length in enumerate(LENGTHS.tolist()):
        own = slice(row, row + 1)
        alone = block(values[own, :, :length], style[own], Extent.of(LENGTHS[own], values.device))
        end = alone.shape[-1]
        torch.testing.assert_close(together[row : row + 1, :, :end], alone)
        assert not together[row, :, end:].any()


def test_residuals_of_a_batch_are_as_they_are_alone() -> None:
    residual = Residual(4, 3)
    values, style, extent = batch(residual, 4)
    together = residual(values, style, extent, snake)
    alone = residual(values[2:, :, :4], style[2:], Extent.of(LENGTHS[2:], values.device), snake)
    torch.testing.assert_close(together[2:, :, :4], alone)


def test_the_source_of_a_batch_ends_where_its_rows_end() -> None:
    source = Source()
    pitch = Extent.of(LENGTHS, torch.device("cpu")).clear(torch.full((3, 1, 9), 120.0))
    with torch.inference_mode():
        together = source(pitch, Extent.of(LENGTHS, pitch.device))
        alone = source(pitch[2:, :, :4], Extent.of(LENGTHS[2:], pitch.device))
    end = alone.shape[-1]
    assert end == 4 * 60 + 1
    torch.testing.assert_close(together[2:, :11, :end], alone[:, :11], atol=1e-5, rtol=0)
    assert not together[2, :, end:].any()


def test_voices_are_sums_of_few_vectors(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    tables = (rng.standard_normal((3, 50, 10)) @ rng.standard_normal((3, 10, 40))).astype(
        np.float32
    )
    pack_voices(tables, tmp_path / "voices.npz")
    assert np.allclose(unpack_voices(tmp_path / "voices.npz"), tables, atol=1e-4)


def test_shards_hold_what_the_plan_says(plan: Plan, tmp_path: Path) -> None:
    teacher = cast(FastTeacher, Tones())
    seconds = speak(teacher, plan, tmp_path, first=1, shards=4, seconds=60, together=2)
    takes = Takes(tmp_path)
    assert [take.line for take in takes] == [plan[n].line for n in range(SHARD, 4 * SHARD)]
    assert seconds == pytest.approx(takes.seconds)
    assert speak(teacher, plan, tmp_path, first=1, shards=4, seconds=60) == 0


def test_no_round_begins_that_would_not_end_in_time(plan: Plan, tmp_path: Path) -> None:
    class Slow(Tones):
        def sounds(
            self, lines: Sequence[Line], weights: NDArray[np.floating], speeds: Sequence[float]
        ) -> Iterator[tuple[int, NDArray[np.float32], NDArray[np.int32]]]:
            time.sleep(0.3)
            yield from super().sounds(lines, weights, speeds)

    speak(cast(FastTeacher, Slow()), plan, tmp_path, first=0, shards=9, seconds=0.5, together=1)
    assert len(Takes(tmp_path)) == SHARD


def test_what_is_no_number_is_no_take() -> None:
    samples, frames = np.array([np.nan], np.float32), np.ones(3, np.int32)
    with pytest.raises(ValueError, match="not numbers"):
        take_of(Line("a", "en", "a"), np.ones(1), 1.0, samples, frames)
