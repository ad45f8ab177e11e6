"""``chattts voice learn``: what it refuses before a model is loaded, and what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ChatTTS.cli import main
from ChatTTS.core import Chat
from ChatTTS.voices import SavedVoice, VoiceLibrary

from ..support.bundled_voice import WIDTH
from ..voice_learning.test_learning import LINES, record
from ..voice_learning.test_reading import put

pytestmark = pytest.mark.usefixtures("empty_home")


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(Chat, "load_or_raise", refuse)


@pytest.mark.usefixtures("no_model")
def test_bad_input_is_refused_before_the_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "silent", "a", None)
    put(tmp_path / "good", "a")
    (tmp_path / "taken").touch()
    VoiceLibrary().save(SavedVoice("bert", WIDTH, "bundled", speaker="一二三"))
    for arguments, status, message in (
        (("silent", "--name", "anna"), 1, "no transcripts"),
        (("none", "--name", "anna"), 1, "neither a folder of recordings"),
        (("good", "--name", "../anna"), 1, "cannot be called"),
        (("good", "--name", "bert"), 1, "already"),
        (("good", "--name", "anna", "--seconds", "9999"), 1, "at most 600"),
        (("good", "--name", "anna", "--text", "x"), 1, "one text cannot be"),
        (("good", "--name", "anna", "--seed", "-1"), 2, "--seed must be"),
        (("good", "--name", "anna", "--report", "taken"), 2, "taken is a file"),
        (("good", "--name", "anna", "--model", "missing"), 1, "missing"),
    ):
        assert main(["voice", "learn", *arguments]) == status, arguments
        assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("*-learned"))


@pytest.mark.slow
def test_a_voice_is_learned_kept_and_shown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    bundled: Chat,
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    params = {"spk_emb": "edith", "manual_seed": 3, "show_tqdm": False}
    waves = bundled.infer(list(LINES[:4]), skip_refine_text=True, params_infer_code=params)
    record(tmp_path / "recordings", waves)
    put(tmp_path / "recordings", "short", seconds=0.4)
    arguments = ["recordings", "--name", "anna", "--model", "bundled", "--from-sample"]
    assert main(["voice", "learn", *arguments, "--say", "it is me.", "--dtype", "float32"]) == 0
    out, err = capsys.readouterr()
    for said in (
        "short.wav",
        "left out: it lasts 0.40 s",
        "at most",
        "with edith",
        "saved as anna",
    ):
        assert said in err
    assert VoiceLibrary().load("anna").speaker == out.strip()
    names = {path.name for path in (tmp_path / "anna-learned").iterdir()}
    assert names == {"before.wav", "after.wav", "learning.png", "report.json"}
    report = json.loads((tmp_path / "anna-learned" / "report.json").read_text("utf-8"))
    assert report["speaker"] == out.strip()
    assert (report["began_at"], report["said"]) == ("edith", "it is me.")
    assert report["nats_a_code"]["after"] <= report["nats_a_code"]["before"] + 1e-3
    assert main(["voice", "show", "anna", "--model", "bundled"]) == 0
    assert capsys.readouterr().out == out
