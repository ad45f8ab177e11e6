"""A lexicon replaces whole words, once, and tells where."""

from __future__ import annotations

import itertools
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ChatTTS.errors import ConfigError
from ChatTTS.text import Lexicon, Normalizer, prepare
from ChatTTS.text.lexicon import (
    LONGEST_SAYING,
    LONGEST_WORD,
    MOST_ENTRIES,
    LexiconEntry,
)
from ChatTTS.text.spoken_words import assign_words, caller_words, match_words, spoken_spans

NGINX = {"nginx": "engine x"}
CASES = {"us": "oos", "US": "u s", "Ada": "ada with a capital"}


@pytest.mark.parametrize(
    ("entries", "text", "said"),
    [
        # whole words, in any case
        (NGINX, "nginx, Nginx and NGINX", "engine x, engine x and engine x"),
        (NGINX, "nginxes mynginx nginx2 my_nginx", "nginxes mynginx nginx2 my_nginx"),
        (NGINX, "nginx-based (nginx) nginx's \"nginx\"", 'engine x-based (engine x) engine x\'s "en'
         'gine x"'),
        (NGINX, "用nginx做", "用engine x做"),
        ({"can": "ken"}, "can can't can’t cans", "ken can't can’t cans"),
        ({"t": "tee"}, "don't t", "don't tee"),
        # case
        (CASES, "us Us US uS", "oos oos u s oos"),
        (CASES, "Ada ada ADA", "ada with a capital ada ADA"),
        ({"go": {"say": "gee oh", "exact": True}}, "go Go GO", "gee oh Go GO"),
        # the longest that begins first, and only once
        ({"new": "nu", "new york": "big apple", "york": "yerk"}, "new york york New  York new",
         "big apple yerk big apple nu"),
        ({"a b": "b c", "b c": "x"}, "a b c", "b c c"),
        ({"red": "blue", "blue": "red"}, "red blue", "blue red"),
        ({"new york": "x"}, "New\nYork, New\n\nYork", "x, New\n\nYork"),
        # signs
        ({"c++": "see plus plus", ".net": "dot net"}, "C++, C++11, ASP.NET",
         "see plus plus, see plus plus 11, ASP dot net"),
        ({"&": "und"}, "a & b, a&b", "a und b, a und b"),
        ({"o'neil": "oh neil"}, "O’Neil O'Neil's", "oh neil oh neil's"),
        ({"café": "kaffay"}, "cafe\u0301 Café cafés", "kaffay kaffay cafés"),
        # Chinese, by characters
        ({"读者": "毒者", "重庆": "虫庆"}, "读者在重庆", "毒者在虫庆"),
        ({"重": "虫", "重要": "众要"}, "重要的重庆", "众要的虫庆"),
        ({"GPT 四": "鸡批踢四"}, "用GPT 四。", "用鸡批踢四。"),
        # tags and addresses stay; the label of a link is text
        ({"laugh": "ha"}, "laugh [laugh] [laugh](/x)", "ha [laugh] [ha](/x)"),
        (NGINX, "[nginx](https://nginx.org/nginx) https://nginx.org a@nginx.org",
         "[engine x](https://nginx.org/nginx) https://nginx.org a@nginx.org"),
        ({"www.x.org": "our page", "me@x.org": "me at x"}, "www.x.org or me@x.org",
         "our page or me at x"),
        ({}, "nothing", "nothing"),
        (NGINX, "", ""),
    ],
)  # fmt: skip
def test_what_is_replaced(entries: Mapping[str, Any], text: str, said: str) -> None:
    respelled = Lexicon.of(entries).apply(text)
    assert respelled.text == said
    for use in respelled.uses:
        assert text[use.start_character : use.end_character] == use.text
    places = [(use.start_character, use.end_character) for use in respelled.uses]
    assert places == sorted(places)


def plainly(entries: list[str], text: str) -> list[tuple[int, int]]:
    """Return what entries in lower case replace, by a search for each at every place."""
    longest = sorted(entries, key=len, reverse=True)
    ascii_word = r"(?<![A-Za-z]){}(?![A-Za-z])"
    patterns = [
        ascii_word.format(word.replace(" ", " +")) if word.isascii() else word for word in longest
    ]
    found, place = [], 0
    while place < len(text):
        matches = (re.compile(p, re.IGNORECASE).match(text, place) for p in patterns)
        match = next(filter(None, matches), None)
        if match is not None:
            found.append(match.span())
        place = place + 1 if match is None else match.end()
    return found


def test_the_plain_definition_agrees() -> None:
    entries = ["ab", "a", "b a", "好", "好人", "a-b"]
    lexicon = Lexicon(tuple(LexiconEntry(word, "x") for word in entries))
    units = ["a", "b", "ab", "好", "人", "-", "A", " "]
    for picked in itertools.product(units, repeat=4):
        text = "".join(picked)
        uses = lexicon.apply(text).uses
        assert [(u.start_character, u.end_character) for u in uses] == plainly(entries, text)


def test_a_request_goes_before_a_default() -> None:
    default = Lexicon.of({"nginx": "one", "Apache": "two", "us": "three"})
    both = default.extended(Lexicon.of({"nginx": "four", "apache": "five", "US": "six"}))
    assert both.apply("nginx Apache us US").text == "four five three six"


def test_it_travels() -> None:
    lexicon = Lexicon.of(NGINX)
    lexicon.apply("nginx")
    again = pickle.loads(pickle.dumps(lexicon))
    assert again == lexicon
    assert hash(again) == hash(lexicon)
    assert again.apply("nginx").text == "engine x"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"nginx": ""}, "'nginx': the saying is empty"),
        ({"nginx": " \n"}, "'nginx': the saying is empty"),
        ({" ": "x"}, "' ': the word is empty"),
        ({"nginx": 5}, "'nginx': the saying must be text, not 5"),
        ({"nginx": None}, "'nginx': the saying must be text, not None"),
        ({5: "five"}, "must be text, not 5"),
        ({"nginx": "..."}, "'nginx': the saying '...' has no letter"),
        ({"nginx": "[laugh]"}, r"'nginx': the saying must not have the character '\['"),
        ({"[laugh]": "x"}, r"the word must not have the character '\['"),
        ({"x": "a\0b"}, "must not have the character"),
        ({"tomato": "təˈmeɪtoʊ"}, "'tomato': .* has phonemes: write them as ipa"),
        ({"tomato": "{@T AH0}"}, "'tomato': .* has phonemes"),
        ({"tomato": "/tə7/"}, "'tomato': .*no sound for '7'"),
        ({"tomato": {"ipa": ""}}, "'tomato': the ipa is empty"),
        ({"tomato": {"pinyin": "xyz1"}}, "'tomato': .*is not pinyin"),
        ({"tomato": {"ipa": "t", "pinyin": "ta1"}}, "'tomato': it has ipa and pinyin"),
        ({"x": "y" * (LONGEST_SAYING + 1)}, f"'x': the saying has {LONGEST_SAYING + 1}"),
        ({"x" * (LONGEST_WORD + 1): "y"}, f"the word has {LONGEST_WORD + 1} characters"),
        ({str(n): "y" for n in range(MOST_ENTRIES + 1)}, f"has {MOST_ENTRIES + 1} entries"),
        ({"new york": "x", "new  york": "y"}, "'new york': it appears twice"),
        ({"x": {"exact": True}}, "'x': its table has no saying"),
        ({"x": {"say": "y", "exact": 1}}, "'x': exact must be true or false"),
        ({"x": {"say": "y", "case": True}}, "'x': there is no 'case'"),
        ([("x", "y")], "must map words to pronunciations"),
        ("nginx", "must map words to pronunciations"),
    ],
)
def test_one_error_names_the_entry(entries: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Lexicon.of(entries)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.toml"
    path.write_text(
        '# ours\nnginx = "engine x"\n"New York" = "big apple"\n'
        'us = { say = "u s", exact = true }\n"读者" = "毒者"\n',
        encoding="utf-8",
    )
    said = Lexicon.load(path).apply("nginx in New York for us, Us and 读者").text
    assert said == "engine x in big apple for u s, Us and 毒者"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'a = "b"\nnginx = ""\n', "lexicon.toml, line 2: .*'nginx': the saying is empty"),
        (b'a = "b"\n\n"x y" = 5\n', "lexicon.toml, line 3: .*'x y': the saying must be text"),
        (b'"x y" = "b"\n"x  y" = "c"\n', "lexicon.toml, line 2: .*'x y': it appears twice"),
        (b'a = "b"\na = "c"\n', "lexicon.toml: .*not valid TOML: .*line 2"),
        (b"a = \n", "lexicon.toml: .*not valid TOML: .*line 1"),
        (b'a = "b"\nb = "\xff"\n', "lexicon.toml, line 2: .*UTF-8"),
        (b"[words]\nnginx = 'x'\n", "lexicon.toml, line 1: .*'words': there is no 'nginx'"),
        (b"#" * (1 << 21), "lexicon.toml cannot be read"),
    ],
)
def test_an_error_has_the_file_and_the_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "lexicon.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        Lexicon.load(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.toml cannot be read"):
        Lexicon.load(tmp_path / "none.toml")


# ---------------------------------------------------------------- words of the caller


VOICE = Normalizer(characters="'?", language="en")


def told(text: str, lexicon: Lexicon) -> list[str]:
    """Return the caller's word of each spoken word."""
    respelled = lexicon.apply(text)
    replaced = [(use.start_character, use.end_character) for use in respelled.uses]
    words = caller_words(text, replaced)
    assert [text[word.start : word.end] for word in words] == [word.text for word in words]
    (spoken,) = prepare(respelled.text, VOICE, split_text=False)
    keys = [spoken[start:end].casefold().replace("'", "") for start, end in spoken_spans(spoken)]

    def read(word: str) -> str:
        return VOICE(lexicon.apply(word).text)

    (own,) = assign_words(words, [spoken], read)
    assert own == words
    return [words[i].text if i >= 0 else "" for i in match_words(words, keys, read)]


@pytest.mark.parametrize(
    ("entries", "text", "wanted"),
    [
        (NGINX, "use nginx now", ["use", "nginx", "nginx", "now"]),
        ({"read": "read aloud"}, "we read it", ["we", "read", "read", "it"]),
        ({"new york": "big apple"}, "in New York now", ["in", "New York", "New York", "now"]),
        (NGINX, "an nginx-based one", ["an", *["nginx-based"] * 3, "one"]),
        ({"x1": "5 of 7"}, "an x1 here", ["an", "x1", "x1", "x1", "here"]),
        ({"c++": "see plus plus"}, "C++, it is", [*["C++"] * 3, "it", "is"]),
        ({"读者": "毒者"}, "好读者们", ["好", "读者", "读者", "们"]),
        ({"a b": "see"}, "a b a b c", ["a b", "a b", "c"]),
    ],
)
def test_a_replaced_word_is_one_word(
    entries: Mapping[str, str], text: str, wanted: list[str]
) -> None:
    assert told(text, Lexicon.of(entries)) == wanted
