"""Names of speech shards: they change if and only if the speech would change."""

from pathlib import Path

import pytest

from recipes.bundled_voice import data, words
from recipes.bundled_voice.data import Corpus, code_of

from ..support.native_tools import output_of


def test_another_word_list_means_other_speech(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest(text: str) -> str:
        (tmp_path / "words").write_text(text)
        data._program.cache_clear()
        return Corpus(1, 1).digest

    monkeypatch.setattr(words, "DICTIONARIES", (tmp_path / "none", tmp_path / "words"))
    try:
        assert digest("one\ntwo\n") == digest("one\ntwo\n") != digest("one\nthree\n")
    finally:
        data._program.cache_clear()


def test_other_words_about_the_same_code_mean_the_same_speech(tmp_path: Path) -> None:
    def code(text: str) -> bytes:
        (tmp_path / "some.py").write_text(text)
        return code_of(tmp_path / "some.py")

    old = code('"""One."""\n\nclass A:\n    """Two."""\n\n    def f(self): return "three"\n')
    assert old == code(
        '"""1."""\nclass A:  # 2\n    """2."""\n    def f(self):\n        return "three"\n'
    )
    assert old != code('"""One."""\n\nclass A:\n    """Two."""\n\n    def f(self): return "3"\n')


@pytest.mark.smoke
def test_every_module_that_the_speech_depends_on_counts() -> None:
    code = "import sys, recipes.bundled_voice.data; print(*sys.modules)"
    package = "recipes.bundled_voice."
    used = [name for name in output_of(code).split() if name.startswith(package)]
    assert sorted(name.removeprefix(package) for name in used) == sorted(data._SOURCES)
