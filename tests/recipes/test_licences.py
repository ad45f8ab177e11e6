"""The list of licences: how they are read, which are refused, and that the documents name them."""

from __future__ import annotations

import pytest

from recipes import licences
from recipes.licences import LESSER, Package, is_allowed, licence_of, plain_install

from ..support.places import ROOT

MIT = "License :: OSI Approved :: MIT License"
GPL = "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 OR BSD-2-Clause", True),
        ("Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND MIT", True),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("MIT AND (GPL-2.0-only OR ISC)", True),
        ("MIT AND (GPL-2.0-only AND ISC)", False),
        ("(MIT OR GPL-2.0-only) AND (ISC AND (MPL-2.0 OR AGPL-3.0-only))", True),
        ("GPL-3.0-only WITH LLVM-exception", False),
        ("LGPL-2.1-or-later", False),
        ("CC-BY-NC-4.0", False),
        ("Creative Commons Attribution-NonCommercial 4.0 International", False),
        ("", False),
    ],
)
def test_which_are_allowed(expression: str, allowed: bool) -> None:
    assert is_allowed(expression) is allowed


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License-Expression": ["MIT-0"], "License": ["other"]}, "MIT-0"),
        ({"Classifier": ["Topic :: x", MIT], "License": ["anything"]}, "MIT"),
        ({"Classifier": [MIT, GPL]}, "MIT AND GNU General Public License v3 (GPLv3)"),
        (
            {"Classifier": ["License :: OSI Approved"], "License": ["MPL-2.0 AND MIT"]},
            "MPL-2.0 AND MIT",
        ),
        ({"License": ["ISC License\n\nCopyright"]}, "ISC"),
        ({"Classifier": ["Topic :: x"]}, ""),
        ({"License": [""]}, ""),
    ],
)
def test_how_packages_say_it(fields: dict[str, list[str]], licence: str) -> None:
    assert licence_of(fields) == licence


def test_the_lgpl_is_allowed_where_it_is_named() -> None:
    assert Package("soxr", "1", "LGPL-2.1-or-later").is_allowed
    assert Package("soundfile", "1", "BSD AND LGPL-2.1-or-later").is_allowed
    assert not Package("other", "1", "LGPL-2.1-or-later").is_allowed
    assert not Package("soxr", "1", "GPL-2.0-only").is_allowed
    assert Package("nvidia-cublas", "1", "LicenseRef-NVIDIA-Proprietary").is_allowed


def test_the_table_names_what_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packages = [Package("good", "1", "MIT"), Package("bad", "2", "GPLv3"), Package("mute", "3", "")]
    monkeypatch.setattr(licences, "plain_install", lambda: packages)
    assert licences.main() == 1
    out = capsys.readouterr().out
    assert "  good" in out
    assert "! bad" in out
    assert out.endswith("3 packages; not allowed: bad, mute\n")


@pytest.mark.smoke
def test_the_plain_install_of_this_environment() -> None:
    packages = plain_install()
    assert [package.name for package in packages if not package.is_allowed] == []
    names = {package.name for package in packages}
    assert {"torch", "transformers", "numpy", "cffi", *LESSER} <= names
    assert not names & {"vocos", "encodec", "torchaudio", "scipy", "pybase16384"}
    listed = [p for p in packages if not p.name.startswith(("nvidia-", "cuda-"))]
    assert len(listed) <= 52  # 48 on Linux without CUDA; older Pythons and systems need others


def test_the_document_names_the_lgpl() -> None:
    text = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    for name in (*LESSER, "libsndfile"):
        assert f"`{name}`" in text
