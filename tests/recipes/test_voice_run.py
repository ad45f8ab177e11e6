"""The new voice's recipe from its command line, on a fake teacher's speech."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from recipes.voice.__main__ import main
from recipes.voice.styles import VOICES
from recipes.voice.takes import TEACHER_FRAME, Line, Take, write_shard

from ..support.recipe_tools import lines


def speech() -> list[Take]:
    """Noise that grows and fades, in both languages."""
    random = np.random.default_rng(0)
    found = []
    for index in range(8):
        frames = np.array([4, 30 + index, 20, 4], np.int32)
        noise = random.standard_normal(frames.sum() * TEACHER_FRAME)
        samples = 0.2 * noise * np.hanning(len(noise))
        line = Line(f"line {index}", "en" if index % 2 else "zh", "ˈA")
        weights = np.eye(len(VOICES), dtype=np.float32)[index]
        found.append(Take(line, weights, 1.0, samples.clip(-1, 1).astype(np.float32), frames))
    return found


def test_a_stage_says_what_has_to_come_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["codec", "--out", str(tmp_path), "--steps", "1"]) == 1
    assert "run the stage `speech` first" in capsys.readouterr().err


@pytest.mark.slow
def test_the_stages_run_one_after_the_other_and_go_on(tmp_path: Path) -> None:
    write_shard(tmp_path / "speech", 0, speech())
    for steps in ("2", "4"):
        for stage in ("codec", "vocoder"):
            assert main([stage, "--out", str(tmp_path), "--steps", steps, "--seed", "3"]) == 0
    assert main(["copies", "--out", str(tmp_path)]) == 0
    assert lines(tmp_path, "codec")[-1]["step"] == 4
    # Both discriminators take part at the end.
    assert "judge" in lines(tmp_path, "codec")[-1]
    assert "discriminator" in lines(tmp_path, "vocoder")[-1]
    folders = sorted(path.name for path in (tmp_path / "copies").iterdir())
    assert folders == [
        f"{way}_{lang}" for way in ("codec", "teacher", "vocoder") for lang in ("en", "zh")
    ]
    for folder in folders:
        files = sorted((tmp_path / "copies" / folder).iterdir())
        assert [file.name for file in files[:2]] == ["00.txt", "00.wav"]
        assert files[0].read_text() == f"line {int(folder.endswith('en'))}"
        with wave.open(str(files[1])) as file:
            assert file.getframerate() == 24_000
            assert file.getnframes() > 20_000
