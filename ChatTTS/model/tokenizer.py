"""The tokenizer, and the prompts that the language model starts from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import AssetError, TextError
from ..spoken_form import FrontEnd
from .tokenizer_file import read_tokenizer, without_panics

# Control tokens of the code prompt, which are removed from a user's text.
_RESERVED = re.compile(r"\[(?:Stts|spk_emb|empty_spk)\]")
_BEGINS_CODE_PROMPT = "[Stts]"
_BUILT_WITH = (_BEGINS_CODE_PROMPT, "[Ptts]", "[spk_emb]", "[empty_spk]", "[Sbreak]", "[Pbreak]")
_NEEDED = (*_BUILT_WITH, "[Ebreak]", "[break_0]")


@dataclass(frozen=True)
class Prompt:
    """The prompt of a request: text ids, followed by the codes of a sample, if there is one.

    Whether a position is text or audio is decided by its index, never by its values.

    Attributes:
        text: ids, int64 [n].
        codes: sample codes, int64 [frames, num_codebooks].
        speaker: the vector that replaces every ``[spk_emb]``, float32 [hidden], or ``None``.
        speaker_slots: true where ``text`` has an ``[spk_emb]``, bool [n].
    """

    text: NDArray[np.int64]
    codes: NDArray[np.int64]
    speaker: NDArray[np.float32] | None
    speaker_slots: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.text) + len(self.codes)


class Tokenizer:
    """A WordPiece tokenizer with the control tokens of ChatTTS.

    Args:
        folder: ``asset/tokenizer``, which holds ``tokenizer.json``.
        front_end: turns the texts of code prompts into what the speech pass reads; without one it
            reads them as they are.

    Attributes:
        front_end: as given.
        end_of_refine: the id that ends a refined answer.
        speaker_slot: the id of ``[spk_emb]``.
        first_setting: the id of ``[break_0]``; only lower ids of a refined answer are text.

    Raises:
        AssetError: the file is missing or damaged, has parts that no tokenizer of ChatTTS has, or
            lacks a control token, or a token of the front end.
    """

    def __init__(self, folder: Path, front_end: FrontEnd | None = None) -> None:
        self.front_end = front_end
        self._path = folder / "tokenizer.json"
        self._tokenizer, unknown = read_tokenizer(self._path)
        missing = [token for token in _NEEDED if self._tokenizer.token_to_id(token) is None]
        if missing:
            raise AssetError(f"{self._path} lacks the control tokens {', '.join(missing)}")
        self._unknown = self.id(unknown)
        for token in _BUILT_WITH:
            if self.ids(token).tolist() != [self.id(token)]:
                raise AssetError(f"{self._path} does not read {token} as one token; restore it")
        self.end_of_refine = self.id("[Ebreak]")
        self.speaker_slot = self.id("[spk_emb]")
        self.first_setting = self.id("[break_0]")
        if front_end is not None:
            self._check_spoken_tokens(front_end)

    @property
    def size(self) -> int:
        """Number of text ids, control tokens included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def check_ids(self, known: int) -> None:
        """Check that the model has all ids.

        Args:
            known: the number of text ids of the model.

        Raises:
            AssetError: there is a larger id.
        """
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        token = max(vocabulary, key=lambda each: vocabulary[each])
        if vocabulary[token] >= known:
            raise AssetError(
                f"{self._path} gives the token {token!r} the id {vocabulary[token]}, and "
                f"config.json has num_text_tokens {known}: they belong to different checkpoints"
            )

    @cached_property
    def control_tokens(self) -> frozenset[str]:
        """All tokens in square brackets, such as ``[laugh]``."""
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        return frozenset(t for t in vocabulary if re.fullmatch(r"\[\w+\]", t))

    def id(self, token: str) -> int:
        """Return the id of one token.

        Raises:
            KeyError: the vocabulary has no such token.
        """
        return int(self._tokenizer.get_vocab(with_added_tokens=True)[token])

    def knows(self, character: str) -> bool:
        """Return whether the voice can say a character, and does not pass over it."""
        if self.front_end is not None:
            return self.front_end.knows(character)
        return self.spells(character)

    def spells(self, text: str) -> bool:
        """Return whether the vocabulary has all of a text, so that nothing of it is unknown."""
        return self._unknown not in self.ids(text).tolist()

    def ids(self, text: str) -> NDArray[np.int64]:
        """Encode a text as ids [n]; each control tag is one token.

        Of a code prompt, as :func:`code_prompt` returns it, the front end's form is encoded.

        Raises:
            TextError: the tokenizer cannot read it.
        """
        if self.front_end is not None and text.startswith(_BEGINS_CODE_PROMPT):
            text = self.front_end.spoken(text).text
        return np.array(self._encoding(text).ids, dtype=np.int64)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the characters that each id of a text speaks, where it is part of a code prompt.

        Returns:
            Start and end in ``text``, for each id in order; equal for one that speaks no character
            of it, such as the space between words that are written without one.

        Raises:
            TextError: the tokenizer cannot read it.
        """
        if self.front_end is None:
            return [(int(start), int(end)) for start, end in self._encoding(text).offsets]
        form = self.front_end.spoken(text)
        return [form.origins[start] for start, _ in self._encoding(form.text).offsets]

    def _check_spoken_tokens(self, front_end: FrontEnd) -> None:
        """Raise AssetError unless the front end's tokens are there, where no refined text has them.

        The refine pass drops ids from ``first_setting`` on.
        """
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        for token in front_end.tokens:
            if token not in vocabulary or self._encoding(token).ids != [vocabulary[token]]:
                raise AssetError(
                    f"{self._path} does not read {token} as one token, which the pronunciation of "
                    "config.json needs: they belong to different checkpoints"
                )
            if vocabulary[token] < self.first_setting:
                raise AssetError(
                    f"{self._path} gives {token} the id {vocabulary[token]}, below that of "
                    "[break_0]: a refined text could hold it"
                )

    def _encoding(self, text: str) -> Any:
        return without_panics(
            lambda: self._tokenizer.encode(text, add_special_tokens=False),
            lambda reason: TextError(f"the text {text!r:.40} cannot be read ({reason})"),
        )

    def prompt(
        self,
        decorated: str,
        *,
        speaker: NDArray[np.float32] | None = None,
        codes: NDArray[np.int64] | None = None,
    ) -> Prompt:
        """Return a prompt.

        Args:
            decorated: the text with its control tokens; see :func:`code_prompt`.
            speaker: float32 [hidden].
            codes: sample codes, int64 [frames, num_codebooks].

        Raises:
            TextError: the tokenizer cannot read the text.
        """
        ids = self.ids(decorated)
        sample = np.zeros((0, 0), dtype=np.int64) if codes is None else codes
        return Prompt(ids, sample, speaker, ids == self.speaker_slot)

    def text(self, ids: NDArray[np.int64]) -> str:
        """Decode ids [n] to text, with the control tokens."""
        return self._decoded(ids, skip_special_tokens=False)

    def decode_refined(self, ids: NDArray[np.int64]) -> str:
        """Decode the ids [n] of a refined answer to text, without its settings."""
        return self.text(ids[ids < self.first_setting])

    def _decoded(self, ids: int | Iterable[int], skip_special_tokens: bool) -> str:
        plain = np.atleast_1d(np.asarray(ids)).tolist()
        return without_panics(
            lambda: str(self._tokenizer.decode(plain, skip_special_tokens=skip_special_tokens)),
            lambda reason: TextError(f"ids cannot be turned into text ({reason})"),
        )


def code_prompt(text: str, prompt: str, *, speaker: bool, transcript: str | None = None) -> str:
    """Return the decorated text of the speech pass.

    Args:
        text: what to say.
        prompt: control tags such as ``[speed_5]``.
        speaker: whether there is a speaker vector, which replaces ``[spk_emb]``.
        transcript: what the sample prompt says, if there is one.
    """
    spoken, sample = spoken_part(text), spoken_part(transcript or "")
    voice = "[spk_emb]" if speaker else "[empty_spk]"
    return f"{_BEGINS_CODE_PROMPT}{voice}{sample}{prompt}{spoken}[Ptts]"


def spoken_part(text: str) -> str:
    """Return what :func:`code_prompt` keeps of a text."""
    return _RESERVED.sub("", text).strip()


def refine_prompt(text: str, prompt: str) -> str:
    """Return the decorated text of the refine pass."""
    return f"[Sbreak]{text}[Pbreak]{prompt}"
