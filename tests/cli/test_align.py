"""``chattts align``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ChatTTS.core
from ChatTTS.cli import main
from ChatTTS.core import Chat

from ..support.bundled_voice import BUNDLED
from ..support.following_heads import FollowingHeads
from ..support.places import DATA

Run = Callable[..., tuple[int, str, str]]

# This engine has no kernels that would be compiled into the empty cache.
OPTIONS = ["--device", "cpu", "--engine", "standard", "--dtype", "float32"]

pytestmark = pytest.mark.usefixtures("empty_home")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


class Following(Chat):
    """A chat whose engine has heads that follow the text."""

    def load_or_raise(self, *arguments: Any, **options: Any) -> None:
        super().load_or_raise(*arguments, **options)
        self.gpt.engine = FollowingHeads(self)


def test_the_choice_is_told_and_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChatTTS.core, "Chat", Following)
    folder = tmp_path / "model"
    shutil.copytree(DATA / "model-a", folder)
    status, out, err = run("align", "--model", str(folder), *OPTIONS)
    assert status == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["LAYER", "HEAD", "SCORE", "MONOTONE", "COVERAGE", "SHARPNESS"]
    marked = sorted((line[:2] for line in lines if line[-1] == "chosen"), key=str)
    assert marked == [["1", "2"], ["2", "0"]]
    assert [float(line[2]) for line in lines[1:11]] == sorted(
        (float(line[2]) for line in lines[1:11]), reverse=True
    )
    file = folder / "asset" / "alignment_heads.json"
    assert out.splitlines()[-3].startswith("chosen: layer ")
    assert out.splitlines()[-2].startswith("good: ")
    assert out.splitlines()[-1] == f"written to {file}"
    assert sorted(json.loads(file.read_text())["heads"]) == [[1, 2], [2, 0]]


@pytest.mark.slow
def test_heads_that_the_model_names_stay(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChatTTS.core, "Chat", Following)
    status, out, _ = run("align", "--model", "bundled", *OPTIONS)
    assert status == 0
    heads = BUNDLED.defaults.alignment_heads
    named = ", ".join(f"layer {layer} head {head}" for layer, head in heads)
    assert len(heads) > 1
    assert out.splitlines()[-1] == f"the model's config.json names {named}: they stay in use"


def test_a_choice_that_cannot_be_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unwritten(Following):
        def find_alignment_heads(self, **options: Any) -> Any:
            assert self._model is not None
            monkeypatch.setattr(self._model.searched_heads, "_keep", lambda choice: None)
            return super().find_alignment_heads(**options)

    monkeypatch.setattr(ChatTTS.core, "Chat", Unwritten)
    status, out, _ = run("align", "--model", str(DATA / "model-a"), *OPTIONS)
    assert status == 0
    assert out.splitlines()[-1].startswith("the choice could not be saved")
    assert not (DATA / "model-a" / "asset" / "alignment_heads.json").exists()
