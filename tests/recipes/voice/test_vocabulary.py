"""The tokenizer of the recipe, as the package reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ChatTTS.model.tokenizer import Tokenizer
from ChatTTS.text.pronunciation.alphabet import ALPHABET, as_tokens
from recipes.voice.vocabulary import CONTROLS, TOKENS, save_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return Tokenizer(folder)


def test_the_alphabet_is_the_teachers() -> None:
    assert len(ALPHABET) == len(set(ALPHABET)) == 114


@pytest.mark.smoke
def test_every_symbol_is_one_token_that_no_refined_text_can_hold(tokenizer: Tokenizer) -> None:
    ids = tokenizer.ids(as_tokens(ALPHABET))
    assert ids.tolist() == list(range(len(TOKENS) - len(ALPHABET), len(TOKENS)))
    assert ids.min() > tokenizer.first_setting
    mixed = np.concatenate([tokenizer.ids("So Tom's in the US?"), ids])
    assert tokenizer.decode_refined(mixed) == "So Tom's in the US?"


def test_tokens_lie_where_their_symbols_are(tokenizer: Tokenizer) -> None:
    text = f"{as_tokens('h ˈO')}[laugh]{as_tokens('n↗.')}"
    places = tokenizer.offsets(text)
    assert [text[start:end] for start, end in places] == [
        *("<h>", "< >", "<ˈ>", "<O>", "[laugh]", "<n>", "<↗>", "<.>")
    ]


def test_control_tags_are_as_ever(tokenizer: Tokenizer) -> None:
    assert tokenizer.control_tokens == {*CONTROLS, "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    assert all(tokenizer.ids(tag).tolist() == [tokenizer.id(tag)] for tag in CONTROLS)
