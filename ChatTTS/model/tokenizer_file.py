"""Read ``tokenizer.json``, and check it before the ``tokenizers`` library sees it.

That library trusts the file: a padding of a billion ids, or a normaliser that makes texts longer,
takes all memory, and some tables and regular expressions make it panic. So it gets only the parts
that tokenizers of ChatTTS have, with values that are known to be harmless.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import tokenizers

from ..errors import AssetError, ChatTTSError, shown
from ..utils.untrusted import parse_json, read_bytes

T = TypeVar("T")

# The size of the file; the published one has half a megabyte.
_MAX_BYTES = 8 << 20
_MAX_ADDED = 4096
_MAX_PARTS = 16  # parts of a normaliser, a pre-tokenizer or a decoder
_MAX_CHARACTERS = 256  # characters of a token
_MAX_WORD = 1000  # characters of a word; the time of a look-up grows with their square
_MAX_ID = 2**31 - 1

# One class of characters, perhaps repeated: such an expression is matched in linear time.
_CLASS = re.compile(r"(\[\^?(?:\\.|[^\[\]\\&])+\]|\\[sSdDwW])\+?")
_BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")


class TokenizerFile(NamedTuple):
    """The contents of a file.

    Attributes:
        tokenizer: the library's tokenizer.
        unknown: the token for characters that the vocabulary lacks.
    """

    tokenizer: tokenizers.Tokenizer
    unknown: str


def read_tokenizer(path: Path) -> TokenizerFile:
    """Read and check a ``tokenizer.json``.

    Padding, truncation and the post-processor are ignored: prompts are built without them.

    Raises:
        AssetError: the file is missing, damaged, or not such a tokenizer.
    """
    try:
        values = parse_json(read_bytes(path, _MAX_BYTES).decode("utf-8"))
    except FileNotFoundError:
        raise AssetError(f"{path} is missing; run `chattts verify` to see what else is") from None
    except OSError as error:
        raise AssetError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise AssetError(f"{path} is not a tokenizer file ({error}); restore the file") from error
    try:
        parts = _checked(values)
    except _UnfitError as error:
        raise AssetError(f"{path} is not a tokenizer file of ChatTTS: {error}") from None

    def refuse(reason: str) -> AssetError:
        return AssetError(f"{path} is not a tokenizer file ({reason}); restore the file")

    made = without_panics(lambda: tokenizers.Tokenizer.from_str(json.dumps(parts)), refuse)
    for token in parts["added_tokens"]:
        # An empty token would match everywhere, even within a character, and cause a panic later.
        if token["normalized"] and not without_panics(partial(_normal, made, token), refuse):
            raise refuse(f"nothing is left of its token {shown(token['content'])}")
    return TokenizerFile(made, parts["model"]["unk_token"])


def without_panics(work: Callable[[], T], refuse: Callable[[str], ChatTTSError]) -> T:
    """Run ``work``; turn an error that it raises, or a panic of its library, into ``refuse``'s.

    A panic is not an ``Exception``: no handler would catch it, and it would end a thread that
    serves other callers as well.

    Args:
        refuse: makes the error to raise, of a reason.
    """
    try:
        return work()
    except Exception as error:  # the library raises bare ones
        raise refuse(str(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise refuse(f"its library gave up: {error}") from error


def _normal(made: tokenizers.Tokenizer, token: Mapping[str, Any]) -> str:
    content = str(token["content"])
    return content if made.normalizer is None else str(made.normalizer.normalize_str(content))


class _UnfitError(Exception):
    """The contents of a file are not those of a tokenizer of ChatTTS."""


def _fail(what: str) -> NoReturn:
    raise _UnfitError(what)


def _checked(values: Any) -> dict[str, Any]:
    """Return the checked contents that the library gets."""
    if not isinstance(values, dict):
        _fail(f"it holds a {type(values).__name__}, not a JSON object")
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(values.get("added_tokens")),
        "normalizer": _component(values.get("normalizer"), "normalizer", _NORMALIZERS),
        "pre_tokenizer": _component(values.get("pre_tokenizer"), "pre_tokenizer", _PRE_TOKENIZERS),
        "post_processor": None,
        "decoder": _component(values.get("decoder"), "decoder", _DECODERS),
        "model": _model(values.get("model")),
    }


def _added(tokens: Any) -> list[dict[str, Any]]:
    """Return the checked tokens that are cut out of a text before anything else is done."""
    if tokens is None:
        return []
    if not isinstance(tokens, list) or len(tokens) > _MAX_ADDED:
        _fail(f"added_tokens must be a list of at most {_MAX_ADDED} tokens")
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    checked = []
    for token in tokens:
        if not isinstance(token, dict):
            _fail(f"added_tokens holds {shown(token)}, which is no token")
        content, number = token.get("content"), token.get("id")
        # The library splits texts at it, and an empty or blank one would occur everywhere.
        if not isinstance(content, str) or not _is_short(content) or not content.strip():
            _fail(f"the added token {shown(content)} must be a text of 1 to 256 characters")
        if not _is_id(number):
            _fail(f"the added token {shown(content)} has the id {shown(number)}")
        given = {flag: token.get(flag, False) for flag in flags}
        if not all(isinstance(value, bool) for value in given.values()):
            _fail(f"the added token {shown(content)} has settings that are not true or false")
        checked.append({"id": number, "content": content, **given})
    return checked


def _model(model: Any) -> dict[str, Any]:
    """Return the checked model with its vocabulary."""
    if not isinstance(model, dict):
        _fail("it has no model")
    kind = model.get("type", "WordPiece")
    if kind not in ("WordPiece", "WordLevel"):
        _fail(f"the model {shown(kind)} is unknown; a WordPiece is needed")
    vocabulary, unknown = model.get("vocab"), model.get("unk_token")
    if not isinstance(vocabulary, dict) or not vocabulary:
        _fail("its vocabulary is missing")
    for token, number in vocabulary.items():
        if not _is_short(token) or not _is_id(number):
            _fail(f"the token {shown(token)} has the id {shown(number)}, or is too long")
    if not isinstance(unknown, str) or unknown not in vocabulary:
        _fail(f"its vocabulary lacks the token {shown(unknown)} for what it does not know")
    checked = {"type": kind, "vocab": vocabulary, "unk_token": unknown}
    if kind == "WordLevel":
        return checked
    prefix = model.get("continuing_subword_prefix", "##")
    longest = model.get("max_input_chars_per_word", 100)
    if not isinstance(prefix, str) or len(prefix) > 16:
        _fail(f"continuing_subword_prefix is {shown(prefix)}")
    if type(longest) is not int or not 0 <= longest <= _MAX_WORD:
        _fail(f"max_input_chars_per_word must be from 0 to {_MAX_WORD}, not {shown(longest)}")
    return checked | {"continuing_subword_prefix": prefix, "max_input_chars_per_word": longest}


# ---------------------------------------------------------------- the other components


class _Allowed(NamedTuple):
    """The allowed types of a component.

    Attributes:
        parts: the key under which a ``Sequence`` holds its parts.
        settings: for each type its settings, each with a check of the value.
    """

    parts: str
    settings: Mapping[str, Mapping[str, Callable[[Any], bool]]]


def _component(part: Any, where: str, allowed: _Allowed) -> dict[str, Any] | None:
    """Return a checked normaliser, pre-tokenizer or decoder, or ``None``."""
    if part is None:
        return None
    parts = _flattened(part, where, allowed, depth=0)
    if len(parts) > _MAX_PARTS:
        _fail(f"its {where} has more than {_MAX_PARTS} parts")
    if len(parts) > 1:
        return {"type": "Sequence", allowed.parts: parts}
    return parts[0] if parts else None


def _flattened(part: Any, where: str, allowed: _Allowed, depth: int) -> list[dict[str, Any]]:
    """Return the checked parts of a component in order; nested sequences are flattened."""
    if not isinstance(part, dict):
        _fail(f"its {where} holds {shown(part)}")
    kind = part.get("type")
    if kind == "Sequence":
        inner = part.get(allowed.parts)
        if not isinstance(inner, list) or len(inner) > _MAX_PARTS or depth == 4:
            _fail(f"its {where} is nested too deeply, or has too many parts")
        return [one for each in inner for one in _flattened(each, where, allowed, depth + 1)]
    if not isinstance(kind, str) or kind not in allowed.settings:
        known = ", ".join(allowed.settings)
        _fail(f"its {where} {shown(kind)} is none of those that are known: {known}")
    checked = {"type": kind}
    for name, fits in allowed.settings[kind].items():
        if name not in part:
            continue
        if not fits(part[name]):
            _fail(f"{name} of its {where} {kind} is {shown(part[name])}")
        checked[name] = part[name]
    if kind == "Replace" and _grows(checked):
        _fail(f"its {where} Replace puts a longer text in the place of a shorter one")
    return [checked]


def _is_flag(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_CHARACTERS


def _is_text(value: Any) -> bool:
    return value == "" or _is_short(value)


def _is_character(value: Any) -> bool:
    return _is_short(value) and len(value) == 1


def _is_behavior(value: Any) -> bool:
    return value in _BEHAVIORS


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_ID


def _is_literal(value: Any) -> bool:
    """Return whether a pattern is a literal text."""
    return isinstance(value, dict) and list(value) == ["String"] and _is_short(value["String"])


def _is_pattern(value: Any) -> bool:
    """Return whether a pattern is a literal text, or one class of characters."""
    if _is_literal(value):
        return True
    if not isinstance(value, dict) or list(value) != ["Regex"]:
        return False
    expression = value["Regex"]
    return _is_short(expression) and _CLASS.fullmatch(expression) is not None


def _grows(replace: Mapping[str, Any]) -> bool:
    literal = replace.get("pattern", {}).get("String", "")
    return len(replace.get("content", "").encode()) > len(literal.encode())


_NORMALIZERS = _Allowed(
    "normalizers",
    {
        "BertNormalizer": {
            "clean_text": _is_flag,
            "handle_chinese_chars": _is_flag,
            "strip_accents": _is_flag,
            "lowercase": _is_flag,
        },
        "Lowercase": {},
        "NFC": {},
        "NFD": {},
        "NFKC": {},
        "NFKD": {},
        "StripAccents": {},
        "Strip": {"strip_left": _is_flag, "strip_right": _is_flag},
        "Replace": {"pattern": _is_literal, "content": _is_text},
    },
)
_PRE_TOKENIZERS = _Allowed(
    "pretokenizers",
    {
        "BertPreTokenizer": {},
        "Whitespace": {},
        "WhitespaceSplit": {},
        "UnicodeScripts": {},
        "Punctuation": {"behavior": _is_behavior},
        "Digits": {"individual_digits": _is_flag},
        "CharDelimiterSplit": {"delimiter": _is_character},
        "Split": {"pattern": _is_pattern, "behavior": _is_behavior, "invert": _is_flag},
    },
)
_DECODERS = _Allowed(
    "decoders",
    {
        "WordPiece": {"prefix": _is_text, "cleanup": _is_flag},
        "Fuse": {},
    },
)
