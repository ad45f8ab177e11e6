"""Names that scripts import stay importable, wherever the modules move."""

from __future__ import annotations

import pytest

from .conftest import OPTIONAL
from .make_names import can_import, documented, promised, recorded, why_not


def test_every_recorded_name_can_be_imported() -> None:
    """Where the package of an extra is missing, its names are left out."""
    errors = {pair: error for pair in recorded() if (error := why_not(pair)) is not None}
    lost = {pair: error for pair, error in errors.items() if error.name not in OPTIONAL}
    assert lost == {}


def test_every_promised_name_is_recorded() -> None:
    """`python -m tests.make_names` adds what is missing."""
    assert promised() - recorded() == set()


def test_the_record_has_the_names_that_scripts_use() -> None:
    used = {"ChatTTS:Chat", "ChatTTS.norm:Normalizer", "ChatTTS.model.velocity.llm:LLM"}
    assert used <= recorded()
    assert {"ChatTTS:Chat", "ChatTTS.model.velocity.llm:LLM"} <= documented()


@pytest.mark.parametrize("gone", ["ChatTTS.core:Chatter", "ChatTTS.cores:Chat"])
def test_a_name_that_is_gone_is_found(gone: str) -> None:
    assert not can_import(gone)
