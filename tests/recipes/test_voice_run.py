"""The new voice's recipe from its command line, on a fake teacher's speech."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.weights.tensors import read_tensors
from recipes.voice.__main__ import main
from recipes.voice.recite import Reciting, recite
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


def test_the_language_model_says_that_it_needs_a_codec(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gpt", "--out", str(tmp_path), "--steps", "1"]) == 1
    assert "train the stage 'codec' first" in capsys.readouterr().err


@pytest.mark.slow
def test_speech_becomes_a_checkpoint_that_speaks_and_begins_another_training(
    tmp_path: Path,
) -> None:
    def stage(name: str, *arguments: str, out: Path = tmp_path) -> int:
        fixed = ["--out", str(out), "--teacher", str(tmp_path), "--seed", "3", "--shards", "1"]
        return main([name, *fixed, "--device", "cpu", "--positions", "400", *arguments])

    write_shard(tmp_path / "speech", 0, speech())
    (tmp_path / "lines").mkdir()
    line = {"text": "We met by the river.", "language": "en", "phonemes": ""}
    (tmp_path / "lines" / "en.jsonl").write_text(json.dumps(line))
    (tmp_path / "voices").mkdir()
    random = np.random.default_rng(0)
    for voice in VOICES:
        table = random.standard_normal((510, 256)).astype(np.float32)
        table.tofile(tmp_path / "voices" / f"{voice}.bin")
    for name in ("codec", "vocoder"):
        assert stage(name, "--steps", "2") == 0
    assert stage("codes") == 0
    # A run that is stopped after each of its first steps: the same as all at once.
    at_once = tmp_path / "at_once"
    at_once.mkdir()
    for name in ("codec.safetensors", "codes", "lines"):
        (at_once / name).symlink_to(tmp_path / name)
    for stop in (("--run-minutes", "1e-6"), ("--run-minutes", "1e-6"), ()):
        assert stage("gpt", "--steps", "4", *stop) == 0
    assert stage("gpt", "--steps", "4", out=at_once) == 0
    stopped, whole = (read_tensors(out / "gpt.safetensors") for out in (tmp_path, at_once))
    for name, tensor in whole.items():
        assert torch.equal(stopped[name], tensor), name
    assert {"attention", "sounds", "refine", "end"} <= lines(tmp_path, "gpt")[0].keys()
    assert stage("decoder", "--steps", "2") == 0
    assert stage("export") == 0

    chat = Chat()
    chat.load_or_raise("custom", custom_path=tmp_path, device="cpu", use_vllm=False)
    how = Reciting("lan", code=(("max_new_token", 12),))
    assert recite(chat, ["We met.", "你好！"], tmp_path / "said", how) > 0.3
    assert (tmp_path / "said" / "001.txt").read_text() == "你好！"
    with wave.open(str(tmp_path / "said" / "001.wav")) as file:
        assert file.getframerate() == 24_000

    # Another folder goes on from the checkpoint: the same codec, so the same codes.
    other = tmp_path / "other"
    (other / "speech").parent.mkdir()
    for name in ("speech", "lines"):
        (other / name).symlink_to(tmp_path / name)
    known = ("--known", str(tmp_path / "asset"))
    assert stage("codes", *known, out=other) == 0
    assert [p.name for p in (other / "codes").iterdir()] == [
        p.name for p in (tmp_path / "codes").iterdir()
    ]
    assert stage("gpt", "--steps", "1", *known, out=other) == 0
    state = read_tensors(other / "gpt.safetensors")
    asset = read_tensors(tmp_path / "asset" / "gpt" / "model.safetensors")
    for name in ("layers.0.self_attn.q_proj.weight", "norm.weight"):
        found = state[f"model/gpt/llama.{name}"]
        # One step of a tiny rate lies between them.
        assert (found - asset[name].float()).abs().max() < 5e-3

    # Decoder and vocoder alone go on, with the known language model and discriminators.
    sound = tmp_path / "sound"
    sound.mkdir()
    for name in ("speech", "codes"):
        (sound / name).symlink_to(tmp_path / name)
    assert stage("decoder", "--steps", "2", *known, out=sound) == 0
    assert stage("export", *known, out=sound) == 0
    judges = [read_tensors(folder / "judges.safetensors") for folder in (tmp_path, sound)]
    assert judges[0].keys() == judges[1].keys()
    nearest = max(
        float((judges[0][k].float() - judges[1][k].float()).abs().max()) for k in judges[0]
    )
    assert 0 < nearest < 5e-3  # two steps of small rates; new ones would differ by far more
    for name, is_kept in (("gpt/model", True), ("DVAE", True), ("Vocos", False)):
        old, new = (
            read_tensors(folder / "asset" / f"{name}.safetensors") for folder in (tmp_path, sound)
        )
        assert all(torch.equal(new[key], value) for key, value in old.items()) == is_kept, name
