"""Codes of languages, as clients write them."""

from __future__ import annotations

import pytest

from ChatTTS.serving.languages import known_language


@pytest.mark.parametrize(
    ("code", "language"),
    [
        *((code, "en") for code in ("en", "en-US", "en_us", "EN")),
        *((code, "zh") for code in ("zh", "zh-CN", "zh_TW", "ZH-hans-CN")),
        *((code, None) for code in (None, "", "de-DE", "english", "-en")),
    ],
)
def test_the_language_of_a_code(code: str | None, language: str | None) -> None:
    assert known_language(code) == language
