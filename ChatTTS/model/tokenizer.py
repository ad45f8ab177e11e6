"""Texts to token ids, and prompts to what the Llama reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from ..errors import AssetError, ConfigError
from ..untrusted import parse_json, read_bytes, shown

# What the code prompt is built with; a user's text must not carry its own.
_RESERVED = re.compile(r"\[(?:Stts|spk_emb|empty_spk)\]")
_NEEDED = (
    "[Stts]",
    "[Ptts]",
    "[spk_emb]",
    "[empty_spk]",
    "[Sbreak]",
    "[Pbreak]",
    "[Ebreak]",
    "[break_0]",
)
# The published file has half a MB.
_LONGEST_FILE = 4 << 20
# Put texts of any length in the place of characters; WordPiece needs none of them.
_REPLACING = ("Precompiled", "Prepend", "Replace")
# A regular expression that cannot go astray: one class of characters.
_ONE_CHARACTER = re.compile(r"\[\^?[^\[\]\\&^]+\]")


@dataclass(frozen=True)
class Prompt:
    """What a request starts from: text ids, then the codes of a sample (may be none).

    What a position is, text or audio, is known from where it stands, never from its values.

    Attributes:
        text: ids, int64 [n].
        codes: sample codes, int64 [frames, num_vq].
        speaker: vector that takes the place of every ``[spk_emb]``, float32 [hidden], or ``None``.
        speaker_slots: where in ``text`` those are, bool [n].
    """

    text: NDArray[np.int64]
    codes: NDArray[np.int64]
    speaker: NDArray[np.float32] | None
    speaker_slots: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.text) + len(self.codes)


class Tokenizer:
    """WordPiece with the control tokens of ChatTTS.

    Args:
        folder: ``asset/tokenizer``, which holds ``tokenizer.json``.

    Raises:
        AssetError: the file is missing or damaged, or lacks a control token.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        self._path = path
        self._tokenizer = _read(path)
        missing = [token for token in _NEEDED if self._tokenizer.token_to_id(token) is None]
        if missing:
            raise AssetError(f"{path} lacks the control tokens {', '.join(missing)}")
        self.end_of_refine = self.id("[Ebreak]")
        self.speaker_slot = self.id("[spk_emb]")
        # Of a refined answer only ids below this one are text.
        self.first_setting = self.id("[break_0]")

    def check_fits(self, num_text_tokens: int) -> None:
        """Refuse ids that the model's table has no row for.

        Raises:
            ConfigError: there is one.
        """
        largest = max(self._tokenizer.get_vocab(with_added_tokens=True).values())
        if largest >= num_text_tokens:
            raise ConfigError(
                f"{self._path} has {self.size} tokens with ids up to {largest}, and by "
                f"gpt.num_text_tokens of asset/config.json the model knows {num_text_tokens}: they "
                "belong to different checkpoints, so restore both"
            )

    @property
    def size(self) -> int:
        """Number of text ids, control tokens included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    @cached_property
    def control_tokens(self) -> frozenset[str]:
        """All tokens in square brackets, such as ``[laugh]``."""
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        return frozenset(t for t in vocabulary if re.fullmatch(r"\[\w+\]", t))

    def id(self, token: str) -> int:
        """The id of one token.

        Raises:
            KeyError: the vocabulary has no such token.
        """
        return int(self._tokenizer.get_vocab(with_added_tokens=True)[token])

    def knows(self, character: str) -> bool:
        """Whether the vocabulary has a character, and no token for the unknown stands for it."""
        unknown = self._tokenizer.token_to_id("[UNK]")
        return unknown not in self.ids(character).tolist()

    def ids(self, text: str) -> NDArray[np.int64]:
        """Ids [n] of a text in which control tags count as tokens."""
        return np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)

    def prompt(
        self,
        decorated: str,
        *,
        speaker: NDArray[np.float32] | None = None,
        codes: NDArray[np.int64] | None = None,
    ) -> Prompt:
        """A prompt from its decorated text, a speaker vector [hidden] and sample codes
        [frames, num_vq]."""
        ids = self.ids(decorated)
        sample = np.zeros((0, 0), dtype=np.int64) if codes is None else codes
        return Prompt(ids, sample, speaker, ids == self.speaker_slot)

    def text(self, ids: NDArray[np.int64]) -> str:
        """Ids [n] back to text, control tokens included."""
        return str(self._tokenizer.decode(ids.tolist(), skip_special_tokens=False))

    def decode_refined(self, ids: NDArray[np.int64]) -> str:
        """The text of a refined answer, without its settings."""
        return self.text(ids[ids < self.first_setting])


def _unbounded(value: Any) -> Iterator[str]:
    """The types of those parts of a tokenizer that may take any time or memory for a text."""
    if isinstance(value, dict):
        kind, pattern = value.get("type"), value.get("pattern")
        regex = pattern.get("Regex") if isinstance(pattern, dict) else None
        if kind in _REPLACING or (regex is not None and not _ONE_CHARACTER.fullmatch(str(regex))):
            yield str(kind)
        for key, part in value.items():
            if key not in ("vocab", "added_tokens"):
                yield from _unbounded(part)
    elif isinstance(value, list):
        for part in value:
            yield from _unbounded(part)


def _read(path: Path) -> tokenizers.Tokenizer:
    try:
        text = read_bytes(path, _LONGEST_FILE).decode("utf-8")
        if refused := next(_unbounded(parse_json(text)), None):
            raise ValueError(
                f"{shown(refused)} works with patterns or replacements that can take any time and "
                "memory"
            )
        tokenizer = tokenizers.Tokenizer.from_str(text)
    except FileNotFoundError:
        raise AssetError(f"{path} is missing; run `chattts verify` to see what else is") from None
    except Exception as error:  # the library raises bare Exceptions
        raise AssetError(f"{path} is not a tokenizer file ({error}); restore the file") from error
    # Prompts are of any length, and laid side by side by the engines.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def code_prompt(text: str, prompt: str, *, speaker: bool, transcript: str | None = None) -> str:
    """The decorated text of the speech pass.

    Args:
        text: what to say.
        prompt: control tags such as ``[speed_5]``.
        speaker: whether a speaker vector takes the place of ``[spk_emb]``.
        transcript: what the sample prompt says, if there is one.
    """
    spoken, sample = (_RESERVED.sub("", part).strip() for part in (text, transcript or ""))
    voice = "[spk_emb]" if speaker else "[empty_spk]"
    return f"[Stts]{voice}{sample}{prompt}{spoken}[Ptts]"


def refine_prompt(text: str, prompt: str) -> str:
    """The decorated text of the refine pass."""
    return f"[Sbreak]{text}[Pbreak]{prompt}"
