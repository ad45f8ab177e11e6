"""The lines of the new voice's teacher: sentences, strings of words, lines."""

from __future__ import annotations

import pytest

from recipes.voice import texts
from recipes.voice.arrangement import LAUGH
from recipes.voice.counter_rng import CounterRng
from recipes.voice.laughs import LAUGH_PHONEMES
from recipes.voice.lines import LineShares, Sources, line, pairs_of_sounds
from recipes.voice.refining import RefinePairs, plain
from recipes.voice.takes import Line


def letters(text: str) -> str:
    return "".join(char for char in text.lower() if char.isalpha())


def spelled(text: str) -> str:
    """Return the letters of a text: a stand-in for the front end."""
    return letters(text).replace("g", "ɡ")


EN = Sources(
    "en",
    ("We met here.", "Who is it? She asked; then left."),
    ("A free one.",),
    ("the", "of"),
    ("quay",),
    (),
)
ZH = Sources("zh", ("我们走吧。", "今天下雨了，你带伞了吗？"), (), ("我们",), ("蟋蟀",), ("OK",))


@pytest.mark.slow
def test_thousands_of_sentences_have_no_digits_and_none_is_held_out() -> None:
    for language in texts.LANGUAGES:
        found = texts.sentences(language)
        assert len(found) > 3_000
        assert not any(char.isdigit() for text in found for char in text)
    trained = {letters(text) for language in texts.LANGUAGES for text in texts.sentences(language)}
    for name, language in texts.HELD_OUT.items():
        apart = {letters(texts.normalizer()(text, lang=language)) for text in texts.held_out(name)}
        assert len(apart) > 30
        assert not apart & trained


def test_a_held_out_sentence_is_left_out_however_it_is_marked() -> None:
    apart = texts.held_out("english_everyday")[0]
    assert texts._normalised([apart.upper() + "!", "A new one."], "en") == ("A new one.",)


def test_lines_are_functions_of_their_place() -> None:
    made = [[line(ZH, CounterRng(1, n), spelled) for n in range(20)] for _ in range(2)]
    assert made[0] == made[1]
    assert len({one.text for one in made[0]}) > 6


def test_a_laugh_is_said_where_its_tag_stands() -> None:
    shares = LineShares(own=1, strings=0, single=0, double=1, commas=0, laughs=1, mixed=0)
    for place in range(8):
        made = line(ZH, CounterRng(2, place), spelled, shares)
        before, behind = made.text.split(LAUGH)
        said = f"{spelled(before)} {LAUGH_PHONEMES} {spelled(behind)}".strip()
        assert made.phonemes == said


def test_a_comma_may_stand_between_any_two_words() -> None:
    shares = LineShares(own=1, strings=0, single=1, double=0, commas=1, laughs=0, mixed=0)
    without = LineShares(own=1, strings=0, single=1, double=0, commas=0, laughs=0, mixed=0)
    for sources, comma in ((EN, ","), (ZH, "，")):
        for place in range(8):
            text = line(sources, CounterRng(3, place), spelled, shares).text
            usual = line(sources, CounterRng(3, place), spelled, without).text
            assert text.count(comma) == usual.count(comma) + (text != usual)
            assert letters(text) == letters(usual)


def test_pairs_of_sounds_pass_over_spaces_and_stress() -> None:
    counted = pairs_of_sounds([Line("", "en", "nˈO n"), Line("", "en", "Onˌ")])
    assert counted == {"nO": 1, "On": 2}


@pytest.mark.smoke
def test_texts_to_refine_have_only_letters_and_plain_marks() -> None:
    assert plain("Well—“so”, he said: no…; yes?!") == "Well, so, he said, no, yes?!"
    pairs = RefinePairs(1, EN.own)
    for index in range(40):
        pair = pairs[index]
        kept = [word for word in pair.refined.split() if not word.startswith("[")]
        assert set(pair.text.split()) <= set(kept)
        assert pair.refined.count(LAUGH) <= pair.laugh
