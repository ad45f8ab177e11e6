"""Named voices that are chosen anew, on the weights of a checkpoint that there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ChatTTS.config import Config
from ChatTTS.errors import ConfigError
from ChatTTS.model.speaker import Speaker
from recipes.voice import recast
from recipes.voice.run import Run
from recipes.voice.styles import CAST, VOICES, Person

from ..support.places import ROOT

ROWS, WIDTH = 510, 256
CONFIG = ROOT / "ChatTTS" / "bundled" / "asset" / "config.json"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that begins with the bundled voice, beside a teacher with other style vectors."""
    folder = tmp_path / "teacher" / "voices"
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for voice in VOICES:
        vector = random.standard_normal(WIDTH).astype(np.float32)
        np.tile(vector, (ROWS, 1)).tofile(folder / f"{voice}.bin")
    (tmp_path / "known").mkdir()
    (tmp_path / "known" / "config.json").write_bytes(CONFIG.read_bytes())
    (tmp_path / "known" / "Embed.safetensors").write_bytes(b"weights")
    cpu = torch.device("cpu")
    return Run(tmp_path, tmp_path / "teacher", cpu, 1, {}, 1, known=tmp_path / "known")


def test_voices_are_chosen_anew_and_weights_stay(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    recast.main(run)
    first = Config.from_file(run.out / "asset" / "config.json")
    assert (run.out / "asset" / "Embed.safetensors").read_bytes() == b"weights"
    other = {**CAST, "clara": Person("en", {"af_sky": 1.0})}
    monkeypatch.setattr("recipes.voice.export.CAST", other)
    recast.main(replace(run, known=run.out / "asset", out=run.out / "next"))
    second = Config.from_file(run.out / "next" / "asset" / "config.json")
    changed = {
        name
        for name, string in second.defaults.speakers.items()
        if string != first.defaults.speakers[name]
    }
    assert changed == {"clara"}
    speakers = replace(second.defaults, speakers=first.defaults.speakers)
    assert replace(second, defaults=speakers) == first


def test_a_voice_that_only_rounding_moved_keeps_its_string(run: Run) -> None:
    recast.main(run)
    path = run.out / "asset" / "config.json"
    before = Config.from_file(path).defaults.speakers["miles"]
    speaker = Speaker(Config.from_file(path).gpt.hidden_size, "", torch.device("cpu"))
    moved = torch.from_numpy(speaker.vector(before))
    moved[1] += 4e-4
    near = speaker.encode(moved)
    assert near != before
    path.write_text(path.read_text("utf-8").replace(before, near), encoding="utf-8")
    recast.main(replace(run, known=run.out / "asset", out=run.out / "next"))
    found = Config.from_file(run.out / "next" / "asset" / "config.json").defaults.speakers
    assert found["miles"] == near


def test_a_checkpoint_may_be_changed_in_its_own_place(run: Run) -> None:
    recast.main(run)
    asset = run.out / "asset"
    written = (asset / "config.json").read_bytes()
    recast.main(replace(run, known=asset))
    assert (asset / "config.json").read_bytes() == written
    assert (asset / "Embed.safetensors").read_bytes() == b"weights"


def test_without_a_checkpoint_there_is_nothing_to_change(run: Run) -> None:
    with pytest.raises(ConfigError, match="--known"):
        recast.main(replace(run, known=None))
