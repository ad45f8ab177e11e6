"""The recipe of the English front end, on a few words."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
import torch

from ChatTTS.text.pronunciation.english.dictionary import Dictionary, Entry, load_dictionary
from ChatTTS.text.pronunciation.english.letter_network import letter_numbers, unpack
from ChatTTS.text.pronunciation.english.word_reader import WordReader
from recipes.english_pronunciation.alignment import Aligner
from recipes.english_pronunciation.entries import Entries, is_held_out, read_entries
from recipes.english_pronunciation.export import pack_dictionary, pack_network
from recipes.english_pronunciation.letters import align_words, load_words, save_words
from recipes.english_pronunciation.network import Network, train
from recipes.english_pronunciation.selection import read_additions, select

WORDS = {
    "cat": "kˈæt",
    "cats": "kˈæts",
    "box": "bˈɑks",
    "back": "bˈæk",
    "tack": "tˈæk",
    "tax": "tˈæks",
    "ox": "ˈɑks",
    "sat": "sˈæt",
    "boss": "bˈɑs",
    "cobs": "kˈɑbz",
}


@pytest.fixture
def dictionaries(tmp_path: Path) -> Path:
    gold = {"cat": "kˈæt", "Polish": "pˈOlɪʃ", "ID": {"DEFAULT": "ˈɪd", "NOUN": None},
            "use": {"DEFAULT": "jˈuz", "NOUN": "jˈus"}, "water": "wˈɔɾəɹ"}  # fmt: skip
    silver = {"cats": "kˈæts", "polish": "pˈɑlɪʃ", "catlike": "kˈætlˌIk", "water": "wɔtə",
              "waters": "wˈɔɾəɹz", "catses": "kˈætsᵻz"}  # fmt: skip
    (tmp_path / "us_gold.json").write_text(json.dumps(gold), "utf-8")
    (tmp_path / "us_silver.json").write_text(json.dumps(silver), "utf-8")
    return tmp_path


def test_letters_are_aligned_with_what_they_say() -> None:
    aligner = Aligner([*WORDS.items()] * 3)
    assert aligner.align("box", "bˈɑks") == ["b", "ˈɑ", "ks"]
    assert "".join(aligner.align("back", "bˈæk") or []) == "bˈæk"
    assert aligner.align("x", "bˈɑkst") is None


def test_entries_have_the_phonemes_that_the_teacher_learned(dictionaries: Path) -> None:
    entries = read_entries(dictionaries)
    assert entries.gold["water"] == {"DEFAULT": "wˈɔTəɹ"}
    assert entries.gold["ID"] == {"DEFAULT": "ˈɪd", "NOUN": ""}
    assert entries.defaults()["water"] == "wˈɔTəɹ"  # gold before silver


def test_only_what_no_rule_yields_is_kept(dictionaries: Path) -> None:
    entries = read_entries(dictionaries)
    kept = select(entries, {"lead": Entry("lˈid", {"noun": "lˈɛd"})})
    assert kept.keys() >= {"cat", "polish", "Polish", "ID", "use", "lead", "catlike"}
    assert kept["use"] == Entry("jˈuz", {"noun": "jˈus"})
    assert kept.keys().isdisjoint({"cats", "waters"})


def test_the_packed_dictionary_says_every_word_as_misaki_does(dictionaries: Path) -> None:
    entries = read_entries(dictionaries)
    packed = pack_dictionary(select(entries, {}))
    words = {word: readings["DEFAULT"] for word, readings in entries.silver.items()}
    words |= {word: readings["DEFAULT"] for word, readings in entries.gold.items()}
    network = unpack(pack_network(Network(3), ("", "t", "ˈæ")))
    reader = WordReader(Dictionary(lzma.decompress(packed)), network)
    said = {word: reader.read(word).phonemes for word in words if word != "ID"}
    assert said == {word: phonemes for word, phonemes in words.items() if word != "ID"}


@pytest.mark.smoke
def test_additions_can_be_read() -> None:
    additions = read_additions()
    assert additions["lead"] == Entry("lˈid", {"noun": "lˈɛd"})


@pytest.mark.smoke
def test_the_packaged_dictionary_has_the_additions() -> None:
    dictionary = load_dictionary()
    for word, entry in read_additions().items():
        assert dictionary.get(word) == entry, word
    assert dictionary.get("Hermione") == Entry("həɹmˈIəni")


def test_the_packed_network_is_the_trained_one(tmp_path: Path) -> None:
    words = {word + ending: said for word, said in WORDS.items() for ending in ("", "e")}
    assert any(is_held_out(word) for word in map(str, range(99)))
    aligned = align_words(words)
    save_words(aligned, tmp_path / "aligned.npz")
    again = load_words(tmp_path / "aligned.npz")
    assert again.labels == aligned.labels
    network = train(again, 2, tmp_path)
    packed = unpack(pack_network(network, again.labels))
    with torch.no_grad():
        expected = network(torch.from_numpy(letter_numbers("tacks"))[None])[0].numpy()
    np.testing.assert_allclose(packed.scores("tacks"), expected, atol=0.05)
    # Whole epochs are not trained again.
    assert len((tmp_path / "network.jsonl").read_text().splitlines()) == 2
    train(again, 2, tmp_path)
    assert len((tmp_path / "network.jsonl").read_text().splitlines()) == 2


def test_gold_comes_before_silver() -> None:
    entries = Entries({"a": {"DEFAULT": "ˈA"}}, {"a": {"DEFAULT": "ə"}, "b": {"DEFAULT": "b"}})
    assert entries.defaults() == {"a": "ˈA", "b": "b"}
