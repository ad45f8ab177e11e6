"""Text in pieces gives the utterances of the whole text, each as early as possible."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ChatTTS.serving.live.text_buffer import TextBuffer
from ChatTTS.text import Normalizer, prepare, split_utterances

MOST = 60

# Words, marks and tags that decide where a text is cut; few, so that they often stand together.
_ATOMS = st.sampled_from(
    [
        *["a", "It", "we went home", "Dr", "No", "e.g", "p.m", "12", "3.5", "I", "mother-in-law"],
        *[".", ".", "?", "!", "...", "…", ",", ";", "-", '"', "”", "(", ")", "“", "'"],
        *[" ", " ", " ", "  ", "\n", "\r\n", "[laugh]", "[uv_break]", "[", "]"],
        *["今天很好", "你", "。", "！", "，", "extraordinarily long words"],
    ]
)
TEXTS = st.lists(_ATOMS, max_size=40).map("".join)
_SOME = "the a cat sat on mat with nine lives and some more fish Yes No Tom he it was"
WORDS = st.sampled_from(sorted(_SOME.split()))
SENTENCES = st.builds(
    lambda words, mark: " ".join(words) + mark,
    st.lists(WORDS, min_size=1, max_size=12),
    st.sampled_from([".", "!", "?"]),
)
PLAIN = st.lists(st.tuples(SENTENCES, st.sampled_from([" ", "  ", "\n"])), max_size=12).map(
    lambda pairs: "".join(sentence.capitalize() + gap for sentence, gap in pairs)
)


def cut(text: str, places: list[int]) -> list[str]:
    bounds = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[a:b] for a, b in pairwise(bounds)]


def spoken(pieces: list[str], most: int = MOST) -> list[str]:
    buffer = TextBuffer(most)
    given = [utterance for piece in pieces for utterance in buffer.push(piece)]
    return given + buffer.flush()


def divided(utterances: list[str], most: int = MOST) -> list[str]:
    return [part for utterance in utterances for part in split_utterances(utterance, most)]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(TEXTS, st.lists(st.integers(0, 500), max_size=30))
@example("It was 12. Then he left. Yes. [laugh] No. 12. We went", list(range(60)))
@example("wrapped lines go on like this one does, and\nso on. Then it ends.", list(range(90)))
def test_pieces_do_not_matter(text: str, places: list[int]) -> None:
    whole = [utterance.strip() for utterance in spoken([text])]
    assert [utterance.strip() for utterance in spoken(cut(text, places))] == whole
    assert [utterance.strip() for utterance in spoken(list(text))] == whole


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_nothing_is_lost(text: str) -> None:
    joined = "".join(spoken(list(text)))
    assert text.startswith(joined)
    assert not divided([text[len(joined) :]])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(PLAIN, st.integers(10, 200))
@example(f"{'word ' * 11}one. 12. {'more ' * 11}words.", 60)
@example("No no no. No tom a.  Tom. Tom. ", 19)
@example("No no no. No tom. No. ", 17)
@example("Yes. No. Maybe so, I think. Good. It was late that day. OK.", 30)
def test_utterances_are_those_of_the_splitter(text: str, most: int) -> None:
    assert divided(spoken(list(text), most), most) == split_utterances(text, most)


def test_wrapped_lines_go_on() -> None:
    text = (
        "The ship left the harbour in the morning, and\nnobody who saw it ever forgot\n"
        "the sight of it. Then it was gone.\nA new line begins here"
    )
    prepared = prepare(text, Normalizer())
    normalizer = Normalizer()
    assert [p for u in spoken(list(text), 200) for p in prepare(u, normalizer)] == prepared


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        # A sentence is complete when the next one has begun and is not a short one.
        (["It was a good day. ", "We went"], ["", ""]),
        (["It was a good day. ", "We went home"], ["", "It was a good day."]),
        (["It was a good day. Yes.", " And then we slept"], ["", "It was a good day. Yes."]),
        # The end of a line ends an utterance.
        (["It was a good day\n"], ["It was a good day"]),
        (["Yes\n", "\n", "No\n"], ["Yes", "", "No"]),
        # A full stop ends a sentence only once the tags and quotes after it are known.
        (["I met Dr.", " Lee of the town. He asked me"], ["", "I met Dr. Lee of the town."]),
        (["We all went home.", " [lau", "gh]He stayed there"], ["", "", "We all went home."]),
        (["We all left.", " [laugh] ", "He stayed there"], ["", "", "We all left. [laugh]"]),
        (["We all went home.", " He is [lau", "gh]. Or so"], ["", "", ""]),
        (["今天很好，我们走吧。明天", "也很好"], ["", "今天很好，我们走吧。"]),
    ],
)  # fmt: skip
def test_each_utterance_comes_as_early_as_known(pieces: list[str], expected: list[str]) -> None:
    buffer = TextBuffer(MOST)
    assert ["|".join(buffer.push(piece)).strip() for piece in pieces] == expected


def test_marks_alone_are_not_spoken_and_tags_alone_are() -> None:
    assert spoken(["...", "\n", "?"]) == []
    assert spoken(["[laugh]"]) == ["[laugh]"]
    assert spoken(["[laugh]\n", "Here is one.\n"]) == ["[laugh]\nHere is one.\n"]


def test_clear_forgets() -> None:
    buffer = TextBuffer(MOST)
    buffer.push("...\nIt was a")
    assert buffer.waiting == 12
    buffer.clear()
    assert buffer.waiting == 0
    assert buffer.flush() == []


@pytest.mark.parametrize("text", [". " * 400, "a. " * 250, "!? " * 250, "你。" * 400])
def test_the_work_grows_with_the_text_and_not_with_its_square(text: str) -> None:
    """A client that sends nothing but marks must not keep the server busy."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        given = spoken([text], 200)
    finally:
        sys.setprofile(None)
    assert calls < 60 * len(text)
    assert text.startswith("".join(given))


def test_marks_before_a_long_sentence_are_no_utterance() -> None:
    sentence = f"{'word ' * 60}end."
    assert spoken([f"... {sentence} ", "And here is more."], 200)[0].strip() == f"... {sentence}"
