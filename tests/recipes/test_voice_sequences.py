"""Coded utterances as sequences and batches of the new voice's language model."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ChatTTS.config.front_ends import front_end_named
from ChatTTS.model.tokenizer import code_prompt
from ChatTTS.voice_learning.sequences import IGNORED
from recipes.voice.arrangement import Utterance
from recipes.voice.batches import Mixture, Order, Steps, speech_batch
from recipes.voice.coded import (
    NOBODY,
    Coded,
    person_of,
    read_codes,
    read_space,
    speed_of,
    write_codes,
    write_space,
)
from recipes.voice.growing import GrowingCorpus, LatestCorpus
from recipes.voice.prompts import Prompts, latest_symbols, spoken_positions
from recipes.voice.refining import RefinePair
from recipes.voice.styles import CAST, COORDINATES, VOICES, StyleSpace, mixture, speaker_vector
from recipes.voice.takes import Line, Take

from ..support.recipe_tools import make_item as item

END = 625


def silent(weights: NDArray[np.float64], pace: float = 1.0) -> Take:
    samples, frames = np.zeros(1, np.float32), np.zeros(2, np.int32)
    return Take(Line("", "en", ""), weights.astype(np.float32), pace, samples, frames)


class NoPairs:
    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: int, /) -> RefinePair:
        raise IndexError(index)


def test_sequences_are_the_prompts_of_inference() -> None:
    text, said = "We met [laugh] today.", "你好 world, OK."
    end = front_end_named("phonemes")
    prompts = Prompts()

    def coded(line: str, seed: int) -> Coded:
        form = end.spoken(line).text
        symbols = tuple(token.strip("<>") if token[0] == "<" else token for token in split(form))
        return item(symbols, frames=40, seed=seed)

    def split(form: str) -> list[str]:
        tokens, place = [], 0
        while place < len(form):
            # A phoneme is one character between < and >.
            behind = form.index("]", place) + 1 if form[place] == "[" else place + 3
            tokens.append(form[place:behind])
            place = behind
        return tokens

    for named, transcript in ((True, None), (False, said)):
        sample = None if transcript is None else coded(transcript, 1)
        found = prompts.speech(coded(text, 0), named=named, sample=sample)
        decorated = code_prompt(
            end.spoken(text).text,
            "[speed_3]",
            speaker=named,
            transcript=None if transcript is None else end.spoken(transcript).text,
        )
        encoded = prompts._tokenizer.encode(decorated, add_special_tokens=False).ids
        assert found.ids.tolist() == encoded
        assert found.slot == (1 if named else None)
        assert found.prompt_length == len(encoded) + (0 if sample is None else 40)
        assert len(found.codes) == (40 if sample is None else 80)
        # What a frame speaks stands at the positions that say so, in sample and text alike.
        assert found.spoken is not None
        assert found.sounds is not None
        assert found.ids[found.spoken[:, 1]].tolist() == found.sounds[:, 0].tolist()


def test_a_frame_speaks_the_symbols_that_begin_in_it() -> None:
    symbols = ("a", "b", "c", "d")
    one = Coded(
        symbols,
        np.array([1, 1, 3, 4], np.int32),
        np.zeros((6, 4), np.int16),
        np.zeros(COORDINATES, np.float32),
        NOBODY,
        5,
    )
    assert latest_symbols(one).tolist() == [0, 1, 1, 2, 3, 3]
    # Before the first symbol the first one is awaited; a and b are spoken together.
    spoken = [[10, 10], [10, 11], [10, 11], [12, 12], [13, 13], [13, 13]]
    assert spoken_positions(one, 10).tolist() == spoken
    sounds = Prompts().speech(one).sounds
    assert sounds is not None
    prompts = Prompts()
    ids = [prompts._ids[symbol] for symbol in (*symbols, "[Ptts]")]
    assert sounds.tolist() == [[ids[i], ids[i + 1]] for i in latest_symbols(one)]


def test_a_batch_asks_for_each_frame_one_position_earlier() -> None:
    long, short = item(frames=9), item(frames=4, seed=1)
    prompts = Prompts()
    sequences = [prompts.speech(long), prompts.speech(short, named=False)]
    batch = speech_batch(sequences, END)
    first = len(sequences[1].ids) - 1
    assert batch.targets[1, first : first + 4].tolist() == short.codes.tolist()
    assert batch.targets[1, first + 4].tolist() == [END] * 4
    assert (batch.targets[1, first + 5 :] == IGNORED).all()
    guided = (batch.spoken[1, :, 0] >= 0).nonzero()[:, 0].tolist()
    assert guided == list(range(first, first + 4))
    assert (batch.sounds[1, :, 0] != IGNORED).sum() == 4
    vector = speaker_vector(long.place, COORDINATES + 1)
    assert torch.equal(batch.speakers[0], torch.from_numpy(vector))
    assert not batch.speakers[1].any()


def steps(items: list[Coded], mixture: Mixture) -> Steps:
    return Steps(lambda step: items, NoPairs(), Prompts(), END, seed=3, mixture=mixture)


def test_a_step_is_a_function_of_its_number() -> None:
    items = [item(frames=5 + n, person=n % 2, seed=n) for n in range(12)]
    one, other = (steps(items, Mixture(positions=120, sample_share=0.5)) for _ in range(2))
    one.speech(7)
    for number in (0, 3, 5):
        a, b = one.speech(number), other.speech(number)
        assert torch.equal(a.codes, b.codes)
        assert torch.equal(a.ids, b.ids)
        assert a.tokens <= 120
    assert not torch.equal(one.speech(0).codes[:1, :20], one.speech(3).codes[:1, :20])


def test_samples_are_of_the_same_named_voice() -> None:
    people = [item(frames=6, person=n % 3 - 1, seed=n) for n in range(9)]
    order = Order.of(people, 240)
    assert {person: found.tolist() for person, found in order.samples.items()} == {
        0: [1, 4, 7],
        1: [2, 5, 8],
    }
    batch = steps(people, Mixture(positions=300, sample_share=1.0, unnamed=0.0)).speech(0)
    # Prompts hold the frames of a sample, which are not asked for.
    asked = (batch.targets[..., 0] != IGNORED).sum(1)
    assert (batch.is_code.sum(1) == 12).all()
    assert (asked == 7).all()


def test_codes_are_read_as_they_were_written(tmp_path: Path) -> None:
    tables = np.random.default_rng(0).standard_normal((len(VOICES), 101, 8)).astype(np.float32)
    space = StyleSpace.of(tables, 6)
    write_space(tmp_path, space)
    clara, anyone = mixture(CAST["clara"].weights), mixture({"af_sky": 1, "zm_yunxi": 2})
    takes = [silent(weights, pace) for weights, pace in ((clara, 1.0), (anyone, 1.08**-2))]
    spoken = [
        Utterance(symbols, np.array(starts), np.zeros(512 * frames, np.float32))
        for symbols, starts, frames in (
            (("“", "ꭧ", "[lbreak]"), [0, 600, 1600], 4),
            (("a", "."), [100, 512], 3),
        )
    ]
    codes = [np.full((one.frames, 4), n, np.int16) for n, one in enumerate(spoken)]
    write_codes(tmp_path / "00000.npz", takes, spoken, codes)
    first, second = read_codes(tmp_path / "00000.npz", read_space(tmp_path))
    assert (first.symbols, second.symbols) == (spoken[0].symbols, spoken[1].symbols)
    assert (first.starts.tolist(), second.starts.tolist()) == ([0, 1, 3], [0, 1])
    assert (first.codes.tolist(), second.codes.tolist()) == (codes[0].tolist(), codes[1].tolist())
    assert (first.person, second.person) == (0, NOBODY)
    assert (first.speed, second.speed) == (5, 3)
    assert second.place == pytest.approx(space.place(anyone), abs=2e-3)


def test_speeds_are_the_nearest_and_people_are_found_after_rounding() -> None:
    assert [speed_of(pace) for pace in (1.0, 1.08, 0.93, 0.5, 3.0)] == [5, 6, 4, 0, 9]
    for index, person in enumerate(CAST.values()):
        rounded = mixture(person.weights).astype(np.float16).astype(np.float32)
        assert person_of(rounded) == index
    assert person_of(mixture({"af_sky": 1})) == NOBODY


def add_codes(folder: Path, number: int) -> None:
    """Write a file with one frame of four codes, all of them ``number``."""
    take = silent(np.zeros(len(VOICES)))
    spoken = Utterance(("a",), np.array([0]), np.zeros(512, np.float32))
    codes = [np.full((1, 4), number, np.int16)]
    write_codes(folder / f"{number:05d}.npz", [take], [spoken], codes)


def test_processes_that_prepare_batches_find_new_codes_by_themselves(tmp_path: Path) -> None:
    np.save(tmp_path / "places.npy", np.zeros((36, COORDINATES), np.float32))
    now = [0.0]
    corpus = LatestCorpus(tmp_path, lambda: now[0])

    def seen(of: LatestCorpus) -> list[int]:
        return [int(one.codes[0, 0]) for one in of(0)]

    assert seen(corpus) == []
    add_codes(tmp_path, 4)
    assert seen(corpus) == [4]  # it waits for the first
    add_codes(tmp_path, 2)
    assert seen(corpus) == [4]
    now[0] += 31
    assert seen(corpus) == [4, 2]
    assert corpus(1) is corpus(2)
    assert seen(pickle.loads(pickle.dumps(corpus))) == [2, 4]


def test_a_corpus_that_grew_is_found_again_step_by_step(tmp_path: Path) -> None:
    def add(number: int) -> None:
        add_codes(tmp_path, number)

    np.save(tmp_path / "places.npy", np.zeros((36, COORDINATES), np.float32))
    now = [0.0]
    note = tmp_path / "log" / "corpus.jsonl"
    corpus = GrowingCorpus(tmp_path, note, lambda: now[0])

    def seen(of: GrowingCorpus, step: int) -> list[int]:
        return [int(one.codes[0, 0]) for one in of.at(step)]

    assert seen(corpus, 0) == []
    add(4)
    assert seen(corpus, 0) == []  # it looks twice a minute
    now[0] += 61
    assert seen(corpus, 0) == [4]
    add(2)
    now[0] += 61
    assert seen(corpus, 10) == [4, 2]
    assert [json.loads(line)["step"] for line in note.read_text().splitlines()] == [0, 10]
    # A run that begins again at an earlier step has the corpus of that time.
    again = GrowingCorpus(tmp_path, note, lambda: now[0])
    add(1)
    assert [seen(again, step) for step in (5, 9, 10, 11)] == [[4], [4], [4, 2, 1], [4, 2, 1]]
