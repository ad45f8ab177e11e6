"""Hostile ``tokenizer.json`` files: refused when they are loaded, by errors that say why."""

import base64
import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from ChatTTS.core import Chat
from ChatTTS.errors import AssetError, TextError
from ChatTTS.model import tokenizer_file
from ChatTTS.model.script_tokenizer import ScriptTokenizer
from ChatTTS.model.tokenizer import Tokenizer
from ChatTTS.utils.untrusted import read_bytes

from ..support.capped_child import in_child
from ..support.places import DATA

ASSET = DATA / "model-a" / "asset" / "tokenizer"
PADDING = {
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 0,
    "pad_type_id": 0,
    "pad_token": "[PAD]",
}
TEXTS = ["[Stts][spk_emb]Hello, don't.[uv_break] 5 ß İ 日本[Ptts]", "", "x" * 500]


def values() -> dict[str, Any]:
    """The values of a sound file, to be damaged."""
    read: dict[str, Any] = json.loads((ASSET / "tokenizer.json").read_text("utf-8"))
    return read


def write(folder: Path, content: dict[str, Any] | bytes) -> Path:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "tokenizer.json").write_bytes(data)
    return folder


@pytest.mark.parametrize("folder", [ASSET, Path("ChatTTS/bundled/asset/tokenizer")])
def test_sound_files_are_read_as_the_library_reads_them(folder: Path) -> None:
    ours = Tokenizer(folder)
    plain = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in TEXTS:
        ids = plain.encode(text, add_special_tokens=False).ids
        assert ours.ids(text).tolist() == ids
        assert ours.text(np.array(ids, np.int64)) == plain.decode(ids, skip_special_tokens=False)


def test_padding_truncation_and_post_processor_are_left_out(tmp_path: Path) -> None:
    changed = values() | {
        "padding": {"strategy": {"Fixed": 64}, **PADDING},
        "truncation": {
            "direction": "Right",
            "max_length": 1,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    }
    ours, plain = Tokenizer(write(tmp_path, changed)), Tokenizer(ASSET)
    for text in TEXTS:
        np.testing.assert_array_equal(ours.ids(text), plain.ids(text))


def test_harmless_parts_are_taken(tmp_path: Path) -> None:
    bert = {"type": "BertNormalizer", "lowercase": True, "clean_text": True}
    changed = values() | {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "NFKC"},
                {"type": "Replace", "pattern": {"String": "\u2019"}, "content": "'"},
                {"type": "Sequence", "normalizers": [{"type": "Strip"}, bert]},
            ],
        },
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Punctuation", "behavior": "Isolated"},
                {"type": "Split", "pattern": {"Regex": r"[\d]+"}, "behavior": "Isolated"},
                {"type": "Digits", "individual_digits": True},
            ],
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [{"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "Fuse"}],
        },
    }
    changed["pre_tokenizer"]["pretokenizers"][2]["invert"] = False
    changed["normalizer"]["normalizers"][2]["normalizers"][0] |= {
        "strip_left": True,
        "strip_right": True,
    }
    bert |= {"handle_chinese_chars": True, "strip_accents": None}
    ours, plain = Tokenizer(write(tmp_path, changed)), Tokenizer(ASSET)
    np.testing.assert_array_equal(ours.ids("One day [laugh] more"), plain.ids("one day[laugh]more"))
    empty = {"type": "Sequence", "normalizers": []}
    Tokenizer(write(tmp_path, values() | {"normalizer": empty, "decoder": None}))


# ---------------------------------------------------------------- what would end the process

_GROWING = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 200}
_BETWEEN = {"type": "CharDelimiterSplit"}
_CATASTROPHE = {
    "type": "Split",
    "pattern": {"Regex": "(a|aa|a*)*$"},
    "behavior": "Isolated",
    "invert": False,
}


def _bombs() -> dict[str, dict[str, Any]]:
    charsmap = base64.b64encode(b"\xff\xff\xff\x7f" + b"nonsense" * 4).decode()
    return {
        "growth": values() | {"normalizer": {"type": "Sequence", "normalizers": [_GROWING] * 5}},
        "prepend": values() | {"normalizer": {"type": "Prepend", "prepend": "long " * 10**5}},
        "charsmap": values()
        | {"normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap}},
        "expression": values() | {"pre_tokenizer": _CATASTROPHE},
        "bytes": values()
        | {"normalizer": {"type": "Sequence", "normalizers": [{"type": "ByteLevel"}] * 40}},
        "model": values() | {"model": values()["model"] | {"type": "Unigram", "vocab": []}},
    }


_OPEN = """
from pathlib import Path
from ChatTTS.errors import AssetError
from ChatTTS.model.tokenizer import Tokenizer
cap(600)
for folder in sys.argv[1:]:
    try:
        tokenizer = Tokenizer(Path(folder))
        print(len(tokenizer.ids("a" * 64 + "!")) < 200)
    except AssetError as error:
        print(len(str(error)) < 400)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="caps the memory as Linux does")
def test_files_that_would_end_the_process_do_not(tmp_path: Path) -> None:
    padded = values() | {"padding": {"strategy": {"Fixed": 10**9}, **PADDING}}
    folders = []
    for name, content in (_bombs() | {"padding": padded}).items():
        (tmp_path / name).mkdir()
        folders.append(write(tmp_path / name, content))
    assert in_child(_OPEN, *folders) == ["True"] * len(folders)


# ---------------------------------------------------------------- what is refused


def _without(token: str) -> dict[str, Any]:
    changed = values()
    changed["model"]["vocab"].pop(token, None)
    changed["added_tokens"] = [t for t in changed["added_tokens"] if t["content"] != token]
    return changed


def _token(**changes: Any) -> dict[str, Any]:
    changed = values()
    changed["added_tokens"].append(changed["added_tokens"][0] | changes)
    return changed


def _model(**changes: Any) -> dict[str, Any]:
    return values() | {"model": values()["model"] | changes}


def _plain_controls() -> dict[str, Any]:
    return values() | {"added_tokens": []}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a tokenizer file"),
        (b"\xff\xfe\x00", "not a tokenizer file"),
        (b"[" * 10**6, "not a tokenizer file"),
        (b" " * (8 << 20) + b"{}", "longer than"),
        (b"5", "not a JSON object"),
        ({}, "no model"),
        (_bombs()["growth"], "longer text"),
        (_bombs()["prepend"], "'Prepend' is none"),
        (_bombs()["charsmap"], "'Precompiled' is none"),
        (_bombs()["expression"], "pattern of its pre_tokenizer Split"),
        (_bombs()["model"], "'Unigram' is unknown"),
        (values() | {"normalizer": {"type": ["NFC"]}}, "is none of those"),
        (values() | {"normalizer": [{}]}, "normalizer holds"),
        (values() | {"decoder": {"type": "CTC"}}, "decoder 'CTC'"),
        (values() | {"pre_tokenizer": _BETWEEN | {"delimiter": "ab"}}, "delimiter of its pre_t"),
        (values() | {"pre_tokenizer": _BETWEEN | {"delimiter": 5}}, "delimiter of its pre_tok"),
        (
            values() | {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 17}},
            "too many parts",
        ),
        (_without("[UNK]"), r"lacks the token '\[UNK\]'"),
        (_without("[spk_emb]"), r"control tokens \[spk_emb\]"),
        (_plain_controls(), r"does not read \[Stts\] as one token"),
        (_token(content=""), "added token ''"),
        (_token(content=" "), "added token ' '"),
        (_token(content="a" * 300), "1 to 256"),
        (_token(content="\ud800"), "surrogates not allowed"),
        (_token(content="\x00", normalized=True), "nothing is left"),
        (_token(content="new", id=-1), "has the id -1"),
        (_token(content="new", id=2**31), "has the id"),
        (_token(content="new", special=1), "not true or false"),
        (_model(vocab={"[UNK]": 1.5}), "has the id 1.5"),
        (_model(vocab={"[UNK]": True}), "has the id True"),
        (_model(vocab=[]), "vocabulary is missing"),
        (_model(unk_token=None), "lacks the token None"),
        (_model(continuing_subword_prefix="#" * 10**6), "continuing_subword_prefix"),
        (_model(max_input_chars_per_word=10**12), "max_input_chars_per_word"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_is_refused_in_words(
    tmp_path: Path, content: dict[str, Any] | bytes, message: str
) -> None:
    with pytest.raises(AssetError, match=message) as caught:
        Tokenizer(write(tmp_path, content))
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(AssetError, match="it is a pipe, and must be a regular file"):
        Tokenizer(tmp_path)
    (tmp_path / "four").write_bytes(b"four")
    with pytest.raises(OSError, match="longer than 3 bytes"):
        read_bytes(tmp_path / "four", 3)
    assert read_bytes(tmp_path / "four", 4) == b"four"


@pytest.mark.parametrize("use_vllm", [False, True])
def test_ids_beyond_the_embeddings_are_refused(tmp_path: Path, use_vllm: bool) -> None:
    folder = Path(shutil.copytree(DATA / "model-a", tmp_path / "model"))
    changed = values()
    changed["model"]["vocab"]["[Ebreak]"] = 10**6
    write(folder / "asset" / "tokenizer", changed)
    with pytest.raises(AssetError, match=r"1000000, and config\.json"):
        Chat().load_or_raise("custom", custom_path=folder, device="cpu", use_vllm=use_vllm)


# ---------------------------------------------------------------- the library gives up


class PanicException(BaseException):
    """A stand-in for the library's own exception, which cannot be imported."""


class Panicking:
    """A tokenizer of the library that panics at every text."""

    def encode(self, *_: object, **__: object) -> None:
        raise PanicException("index out of bounds")

    decode = encode


def test_a_panic_is_an_error_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ScriptTokenizer(ASSET)
    monkeypatch.setattr(broken, "_tokenizer", Panicking())
    for work in (
        lambda: broken.ids("x"),
        lambda: broken.text(np.array([1])),
        lambda: broken.decode([[1]]),
    ):
        with pytest.raises(TextError, match="index out of bounds"):
            work()


def test_a_panic_at_loading_is_a_damaged_file(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        @staticmethod
        def from_str(text: str) -> None:
            raise PanicException("index out of bounds")

    monkeypatch.setattr(tokenizers, "Tokenizer", Library)
    with pytest.raises(AssetError, match="its library gave up: index out of bounds"):
        Tokenizer(ASSET)


def test_what_is_no_panic_passes() -> None:
    def raises(error: BaseException) -> Callable[[], None]:
        def work() -> None:
            raise error

        return work

    for error in (KeyboardInterrupt(), SystemExit()):
        with pytest.raises(type(error)):
            tokenizer_file.without_panics(raises(error), AssetError)


def test_texts_that_cannot_be_read_are_errors_of_their_caller() -> None:
    tokenizer = ScriptTokenizer(ASSET)
    for text in (5, None):
        with pytest.raises(TextError, match="cannot be read"):
            tokenizer.ids(text)  # type: ignore[arg-type]
    with contextlib.suppress(TextError):  # old libraries read a mark in its place
        tokenizer.ids("\ud800")
    with pytest.raises(TextError, match="into text"):
        tokenizer.decode([[-1]])
