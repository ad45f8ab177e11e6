"""Words made of known words."""

from __future__ import annotations

import pytest

from ChatTTS.text.pronunciation.english.affixes import derived, past, plural
from ChatTTS.text.pronunciation.english.dictionary import Entry

KNOWN = {
    word: Entry(said)
    for word, said in {
        "cat": "kˈæt",
        "dog": "dˈɔɡ",
        "bus": "bˈʌs",
        "city": "sˈɪTi",
        "make": "mˈAk",
        "hop": "hˈɑp",
        "hope": "hˈOp",
        "chat": "ʧˈæt",
        "need": "nˈid",
        "panic": "pˈænɪk",
        "handle": "hˈændᵊl",
        "happy": "hˈæpi",
        "possible": "pˈɑsəbᵊl",
        "basic": "bˈAsɪk",
        "thought": "θˈɔt",
        "friend": "fɹˈɛnd",
        "kind": "kˈInd",
        "load": "lˈOd",
        "tell": "tˈɛl",
        "food": "fˈud",
    }.items()
} | {"use": Entry("jˈus", {"verb": "jˈuz"})}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("cats", "kˈæts"),
        ("dogs", "dˈɔɡz"),
        ("buses", "bˈʌsᵻz"),
        ("cities", "sˈɪTiz"),
        ("making", "mˈAkɪŋ"),
        ("hopping", "hˈɑpɪŋ"),
        ("hoping", "hˈOpɪŋ"),
        ("hoped", "hˈOpt"),
        ("chatted", "ʧˈæTᵻd"),
        ("chatty", "ʧˈæTi"),
        ("needed", "nˈidᵻd"),
        ("panicking", "pˈænɪkɪŋ"),
        ("handler", "hˈændləɹ"),
        ("happiest", "hˈæpiᵻst"),
        ("happily", "hˈæpəli"),
        ("unhappiness", "ʌnhˈæpinəs"),
        ("possibly", "pˈɑsəbli"),
        ("basically", "bˈAsɪkli"),
        ("thoughtlessness", "θˈɔtləsnəs"),
        ("unkind", "ʌŋkˈInd"),
        ("reload", "ɹˌilˈOd"),
        ("telling", "tˈɛlɪŋ"),
        ("user", "jˈuzəɹ"),
        ("useless", "jˈusləs"),
    ],
)
def test_a_derived_word(word: str, said: str) -> None:
    assert derived(word, KNOWN.get) == Entry(said)


@pytest.mark.parametrize(
    "word", ["", "s", "ing", "glass", "buss", "xing", "qwrt", "ed" * 30, "catdog", "dogfood"]
)
def test_other_words_are_left_to_the_letters(word: str) -> None:
    assert derived(word, KNOWN.get) is None


def test_endings_follow_the_last_sound() -> None:
    stems = ("kˈæt", "kˈæb", "kˈIs", "mˈæʧ", "plˈA")
    assert [plural(stem)[len(stem) :] for stem in stems] == ["s", "z", "ᵻz", "ᵻz", "z"]
    pasts = ("bˈæk", "bˈæɡ", "kˈIs", "plˈA", "fˈAd", "læst")
    assert [past(stem)[len(stem) :] for stem in pasts] == ["t", "d", "t", "d", "ᵻd", "ᵻd"]
    assert past("wˈAt") == "wˈATᵻd"
