"""The recipe's sentences: characters, variety, and words that they must never contain."""

import re
from collections import Counter
from itertools import islice

import pytest

from recipes.bundled_voice import texts, words, words_common
from recipes.bundled_voice.counter_rng import CounterRng
from recipes.bundled_voice.texts import (
    CHARACTERS,
    RefinePairs,
    Shares,
    everyday_heldout,
    long_heldout,
    refine,
    sentences,
    unseen_words,
    utterance,
)
from recipes.bundled_voice.types import RefinePair

COUNT = 6000

needs_dictionary = pytest.mark.skipif(
    not any(path.is_file() for path in words.DICTIONARIES),
    reason="no word list: apt install wamerican",
)
OWN = Shares(everyday=1.0, random=0.0)


@pytest.fixture(scope="module")
def some() -> list[str]:
    return list(islice(sentences(1), COUNT))


def spoken_words(lines: list[str]) -> Counter[str]:
    return Counter(word for text in lines for word in re.findall("[a-z']+", text))


@needs_dictionary
def test_sentences_hold_what_the_model_can_read_alone(some: list[str]) -> None:
    for text in some:
        assert re.fullmatch(r"[a-z][a-z']*(?:,? [a-z'][a-z']*)*[.?]", text), text
        assert 1 <= len(text.split()) <= 60


@needs_dictionary
def test_the_packages_normaliser_leaves_sentences_as_they_are(some: list[str]) -> None:
    from ChatTTS.text.normalizer import Normalizer

    normalizer = Normalizer(characters=CHARACTERS, language="en")
    changed = [text for text in some[:600] if normalizer(text, lang="en") != text]
    assert len(changed) <= 6, changed  # rare words that are abbreviations


@needs_dictionary
def test_words_are_many_and_lengths_differ(some: list[str]) -> None:
    # the variety does not end: the second half adds many more words
    assert len(spoken_words(some)) > 8_000
    assert len(spoken_words(some)) > 1.4 * len(spoken_words(some[: COUNT // 2]))
    lengths = Counter(min(len(text.split()) // 10, 4) for text in some)
    assert all(lengths[tens] > COUNT // 200 for tens in range(5)), lengths
    assert sum(len(text.split()) == 1 for text in some) > COUNT // 100
    assert 0.08 < sum(text.endswith("?") for text in some) / COUNT < 0.4


def test_own_sentences_need_no_dictionary_and_seldom_repeat() -> None:
    own = list(islice(sentences(2, OWN), 2000))
    assert len(set(own)) > 1800
    assert len(spoken_words(own)) > 1500
    assert not any(re.search(r"\ba [aeio]", text) for text in own)


def test_numbers_are_read_out() -> None:
    text = " ".join(islice(sentences(3, OWN), 1500))
    for phrase in ("o'clock", "percent", "dollars", "p m", "march", "nineteen", "twenty first"):
        assert phrase in text, phrase


@needs_dictionary
def test_seeds_make_the_same_again_and_differ() -> None:
    assert list(islice(sentences(5), 20)) == list(islice(sentences(5), 20))
    assert list(islice(sentences(5), 20)) != list(islice(sentences(6), 20))


def test_held_out_sets_have_their_sizes_and_differ() -> None:
    assert len(set(everyday_heldout())) == 200
    assert len(set(unseen_words())) == 50
    assert all(len(text.split()) >= 60 for text in long_heldout())
    assert len(words.unseen()) > 140
    # grammar needs its small words
    assert set(words_common.SMALL.split()) <= set(words.everyday().all)
    for text in (*everyday_heldout(), *long_heldout(), *unseen_words()):
        assert re.fullmatch(r"[a-z', ]+[.?]", text), text
    # each unseen sentence is mostly of unseen words
    for text in unseen_words():
        content = words.unseen() & spoken_words([text]).keys()
        assert len(content) >= 2, text


@needs_dictionary
def test_training_never_contains_what_is_held_out(some: list[str]) -> None:
    held_out = {text.rstrip(".?") for text in (*everyday_heldout(), *unseen_words())}
    spoken = [utterance(CounterRng(7, i)) for i in range(1500)]
    for text in some + spoken:
        plain = re.sub(r"\s*\[\w+\]", "", text)
        assert not {part.strip() for part in re.split("[.?]", plain)} & held_out
    assert not words.unseen() & spoken_words(some + spoken).keys()
    assert not words.unseen() & set(words.dictionary())
    # nor inflections of it
    assert not {"penguin's", "volcanoes", "pirate", "telescopes"} & set(words.dictionary())


def test_a_held_out_sentence_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    often = {"yes.", "hello.", "thanks."}
    assert often < set(islice(sentences(4, OWN), 2000))
    texts._held_out.cache_clear()
    monkeypatch.setattr(texts, "everyday_heldout", lambda: tuple(often))
    found = set(islice(sentences(4, OWN), 2000))
    texts._held_out.cache_clear()
    assert not often & found


@needs_dictionary
def test_the_dictionary_holds_tens_of_thousands_of_speakable_words() -> None:
    found = words.dictionary()
    assert len(found) > 50_000
    assert all(re.fullmatch("[a-z]+(?:'[a-z]+)?", word) for word in found)
    assert not {"adj", "acct", "st", "dr", "bbq"} & set(found)
    assert {"helicopter", "enough", "thank", "queue"} <= set(found) | set(words.everyday().all)


def test_inflections() -> None:
    assert [words.plural(word) for word in ("box", "baby", "boy", "knife", "potato")] == [
        "boxes", "babies", "boys", "knives", "potatoes",
    ]  # fmt: skip
    assert [words.past_of(word) for word in ("like", "cry", "play", "stop", "visit")] == [
        "liked", "cried", "played", "stopped", "visited",
    ]  # fmt: skip
    assert [words.ing_of(word) for word in ("lie", "make", "see", "run", "eat")] == [
        "lying", "making", "seeing", "running", "eating",
    ]  # fmt: skip


def test_invented_words_are_many_and_pronounceable() -> None:
    rng = CounterRng(1, 1)
    found = {words.invented(rng) for _ in range(500)}
    assert len(found) > 450
    assert all(re.search("[aeiouy]", word) and 3 <= len(word) <= 14 for word in found)


@needs_dictionary
def test_utterances_have_control_tags_now_and_then() -> None:
    spoken = [utterance(CounterRng(8, i)) for i in range(1000)]
    tags = Counter(tag for text in spoken for tag in re.findall(r"\[\w+\]", text))
    assert set(tags) == {"[uv_break]", "[lbreak]", "[laugh]"}
    assert min(tags.values()) > 80
    assert sum("[" not in text for text in spoken) > 300
    # The longest break stands between sentences, at the beginning and at the end.
    assert not any(re.search(r"[^.?\]] \[lbreak\]", text) for text in spoken)


@needs_dictionary
def test_refine_pairs_keep_the_words_and_do_as_asked() -> None:
    pairs = RefinePairs(9, 300)
    for pair in (pairs[index] for index in range(len(pairs))):
        assert pair.refined.count("[laugh]") <= pair.laugh
        if not pair.oral:
            plain = pair.refined.replace(" [uv_break]", "").replace(" [laugh]", "")
            assert plain == pair.text
        if not pair.pause:
            assert "[uv_break]" not in pair.refined
        kept = iter(pair.refined.split())
        assert all(word in kept for word in pair.text.split())
    assert RefinePair("a.", 1, 2, 3, "a.").prompt == "[oral_1][laugh_2][break_3]"


def test_refining_grows_with_its_degrees() -> None:
    text = "we met a friend at the station, and then we went to the market to buy some bread."
    breaks = [refine(text, 0, 0, n, CounterRng(1, n)).count("[uv_break]") for n in range(8)]
    fillers = [len(refine(text, n, 0, 0, CounterRng(1, n)).split(",")) for n in range(10)]
    assert breaks == sorted(breaks)
    assert (breaks[0], breaks[7]) == (0, 6)
    assert fillers == sorted(fillers)
    assert fillers[9] - fillers[0] == 6
    assert [refine(text, 0, n, 0, CounterRng(1, n)).count("[laugh]") for n in range(3)] == [0, 1, 2]
    assert "station, [uv_break] and" in refine(text, 0, 0, 2, CounterRng(1, 1))


def test_dice_depend_on_seed_and_place_alone() -> None:
    ahead = [CounterRng(3, 1000).fraction() for _ in range(2)]
    assert ahead[0] == ahead[1]
    assert (
        len({CounterRng(seed, place).fraction() for seed in range(20) for place in range(20)})
        == 400
    )
    rng = CounterRng(1, 2)
    assert {rng.integer(3, 5) for _ in range(200)} == {3, 4, 5}
    assert rng.sample(range(5), 9) == [0, 1, 2, 3, 4]
    assert all(2.0 <= rng.between(2, 3) < 3.0 for _ in range(200))


def test_tags_stand_at_all_borders_of_sentences() -> None:
    spoken = [utterance(CounterRng(7, number), OWN) for number in range(600)]
    for place in (
        r"^\[uv_break\] \w",
        r"^\[lbreak\] \w",
        r"^\[laugh\] \w",
        r"[.?] \[uv_break\]$",
        r"[.?] \[lbreak\]$",
        r"[.?] \[laugh\]$",
        r"[.?] \[\w+\] \w",
    ):
        assert any(re.search(place, text) for text in spoken), place
