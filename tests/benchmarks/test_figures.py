"""The documents say the figures of the benchmarks' results."""

from __future__ import annotations

import pytest

from benchmarks.figures import DOCUMENTS, ROOT, with_figures


@pytest.mark.smoke
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_tables_are_those_of_the_results(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "<!-- figures: " in text
    assert with_figures(text) == text, "run python -m benchmarks.figures"


def test_another_figure_is_replaced() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_figures(text.replace(" s** in int8", "9 s** in int8")) == text
