"""``chattts voice``, the library behind it, and what ``--voice`` accepts."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import ChatTTS.core
from ChatTTS.audio import save
from ChatTTS.checkpoints import assets
from ChatTTS.cli import main
from ChatTTS.config import Config, EmbedConfig, GPTConfig
from ChatTTS.errors import VoiceError
from ChatTTS.model.speaker import Speaker
from ChatTTS.text import Normalizer
from ChatTTS.voices import SavedVoice, VoiceLibrary, find_voice, voices_folder

from ..support.bundled_voice import WIDTH

BAD_NAMES = [
    "",
    "../up",
    "..",
    "a/b",
    "a\\b",
    "/etc/passwd",
    ".a.json",
    "a  b",
    " a",
    "a\n",
    "a\0",
    "-a",
    "é/",
    "e\u0301",
    "😀",
    "x" * 65,
    "CON",
    "com1",
]

Run = Callable[..., tuple[int, str, str]]


pytestmark = pytest.mark.usefixtures("empty_home")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        status = main(["voice", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


@pytest.fixture
def library(tmp_path: Path) -> VoiceLibrary:
    return VoiceLibrary(tmp_path / "voices")


@pytest.fixture
def config() -> Config:
    return Config.from_file(assets.locate("bundled").config)


ANNA = SavedVoice("anna", WIDTH, "bundled", speaker="一二三", seed=4)
ME = SavedVoice("me", WIDTH, "bundled", sample="四五六", transcript="my words")


# ---------------------------------------------------------------- the library


def test_what_is_saved_is_loaded(library: VoiceLibrary) -> None:
    assert library.names() == []
    for voice in (ME, ANNA):
        library.save(voice)
    assert library.names() == ["anna", "me"]
    assert list(library) == [ANNA, ME]
    assert VoiceLibrary(library.folder).load("me") == ME
    library.remove("me")
    assert list(library) == [ANNA]


def test_a_voice_is_replaced_only_on_purpose(library: VoiceLibrary) -> None:
    library.save(ANNA)
    other = replace(ANNA, seed=5)
    with pytest.raises(VoiceError, match="'anna' already"):
        library.save(other)
    assert library.load("anna") == ANNA
    library.save(other, overwrite=True)
    assert library.load("anna") == other


@pytest.mark.parametrize("name", BAD_NAMES)
def test_no_path_is_made_from_a_bad_name(name: str, library: VoiceLibrary) -> None:
    library.save(ANNA)
    before = sorted(library.folder.parent.rglob("*"))
    assert name not in library
    for use in (library.load, library.remove, lambda n: library.save(replace(ANNA, name=n))):
        with pytest.raises(VoiceError, match="a voice cannot be called"):
            use(name)
    assert sorted(library.folder.parent.rglob("*")) == before


@pytest.mark.parametrize("name", ["a", "A_b-9", "9", "_x", "x" * 64, "é b", "一.json"])
def test_good_names(name: str, library: VoiceLibrary) -> None:
    library.save(replace(ANNA, name=name))
    assert library.load(name).name == name


def test_a_copied_voice_has_the_name_of_its_file(library: VoiceLibrary) -> None:
    path = library.save(ANNA)
    path.with_name("eve.json").write_bytes(path.read_bytes())
    path.with_name("not a name.json").write_bytes(path.read_bytes())
    assert [voice.name for voice in library] == ["anna", "eve"]


@pytest.mark.parametrize(
    "change",
    [
        {"format": "another"},
        {"version": 2},
        {"speaker": None},
        {"sample": "both"},
        {"speaker": 5},
        {"width": "256"},
        {"width": True},
        {"model": None},
        {"seed": "x"},
        {"transcript": ["x"]},
    ],
)
def test_damaged_files_are_named(change: dict[str, Any], library: VoiceLibrary) -> None:
    path = library.save(ANNA)
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(values | change), encoding="utf-8")
    with pytest.raises(VoiceError, match=r"anna\.json"):
        library.load("anna")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 200_000])
def test_files_that_are_no_voice_are_named(data: bytes, library: VoiceLibrary) -> None:
    path = library.save(ANNA)
    path.write_bytes(data)
    with pytest.raises(VoiceError, match=r"anna\.json"):
        library.load("anna")
    library.remove("anna")
    assert not path.exists()


def test_a_file_that_is_far_too_long_is_not_read(library: VoiceLibrary) -> None:
    path = library.save(ANNA)
    path.write_text(path.read_text(encoding="utf-8") + " " * 2_000_000, encoding="utf-8")
    with pytest.raises(VoiceError, match="longer than"):
        library.load("anna")


def test_where_voices_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert voices_folder() == tmp_path / "chattts-velocity" / "voices"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for system, expected in (
        ("linux", ".local/share/chattts-velocity/voices"),
        ("darwin", "Library/Application Support/chattts-velocity/voices"),
    ):
        monkeypatch.setattr(sys, "platform", system)
        assert voices_folder() == tmp_path / expected
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("APPDATA", str(tmp_path / "roaming"))
    assert voices_folder() == tmp_path / "roaming" / "chattts-velocity" / "voices"


# ---------------------------------------------------------------- what --voice accepts


def test_names(library: VoiceLibrary, config: Config) -> None:
    library.save(ANNA)
    library.save(ME)
    assert find_voice(None, config, library).label == "clara"
    assert find_voice(None, config, library).parameters == {}
    edith = find_voice("edith", config, library)
    assert edith.parameters == {"spk_emb": config.defaults.speakers["edith"]}
    assert find_voice("anna", config, library).parameters == {"spk_emb": "一二三"}
    assert find_voice("me", config, library).parameters == {
        "spk_smp": "四五六",
        "txt_smp": "my words",
    }
    library.save(replace(ANNA, name="edith"))
    assert find_voice("edith", config, library).parameters == {"spk_emb": "一二三"}


def test_files(library: VoiceLibrary, config: Config, tmp_path: Path) -> None:
    path = library.save(ANNA)
    assert find_voice(str(path), config, library).parameters == {"spk_emb": "一二三"}
    text = tmp_path / "voice.txt"
    text.write_text("一二三\n", encoding="utf-8")
    assert find_voice(str(text), config, library).parameters == {"spk_emb": "一二三"}
    tensor = tmp_path / "old.pt"
    torch.save(torch.arange(float(WIDTH)), tensor)
    found = find_voice(str(tensor), config, library).parameters["spk_emb"]
    assert torch.equal(found, torch.arange(float(WIDTH)))
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with pytest.raises(VoiceError, match="--sample FILE --transcript TEXT"):
        find_voice(str(tmp_path / "a.wav"), config, library)


def test_a_speaker_string(library: VoiceLibrary, config: Config) -> None:
    string = config.defaults.speakers["clara"]
    assert find_voice(f" {string}\n", config, library).parameters == {"spk_emb": string}


@pytest.mark.parametrize("wanted", ["nobody", "../anna", "", "x" * 5000, "a\0b"])
def test_a_voice_that_is_neither_name_file_nor_string_is_refused(
    wanted: str, library: VoiceLibrary, config: Config
) -> None:
    library.save(ANNA)
    names = ", ".join(["anna", *config.defaults.speakers])
    with pytest.raises(VoiceError, match=rf"not a name \({names}\)") as caught:
        find_voice(wanted, config, library)
    assert len(str(caught.value)) < 300


def test_a_voice_of_another_model(library: VoiceLibrary) -> None:
    library.save(ANNA)
    full = Config(gpt=GPTConfig(hidden_size=768), embed=EmbedConfig(hidden_size=768))
    with pytest.raises(VoiceError, match=rf"'anna' was made with the model bundled.*{WIDTH}.*768"):
        find_voice("anna", full, library)


# ---------------------------------------------------------------- the command


def test_new_prints_the_voice_that_the_library_draws(run: Run, config: Config) -> None:
    status, out, err = run("new", "--seed", "42")
    assert status == 0
    assert "seed 42" in err
    torch.manual_seed(42)
    expected = Speaker(WIDTH, config.spk_stat, torch.device("cpu")).sample_random()
    assert out == expected + "\n"
    assert run("list")[1].count("yours") == 0


def test_new_without_a_seed_can_be_had_again(run: Run) -> None:
    _, out, err = run("new", "--name", "anna")
    seed = VoiceLibrary().load("anna").seed
    assert f"seed {seed}" in err
    assert run("new", "--seed", str(seed))[1] == out
    assert run("new")[1] != out


def test_new_keeps_a_voice(run: Run) -> None:
    assert run("new", "--name", "anna", "--seed", "1")[0] == 0
    status, out, err = run("new", "--name", "anna", "--seed", "2")
    assert (status, out) == (1, "")
    assert "'anna' already" in err
    assert VoiceLibrary().load("anna").seed == 1
    assert run("new", "--name", "anna", "--seed", "2", "--force")[0] == 0
    assert VoiceLibrary().load("anna").seed == 2


def test_bad_names_and_seeds(run: Run, tmp_path: Path) -> None:
    status, out, err = run("new", "--name", "../../evil")
    assert (status, out) == (1, "")
    assert "a voice cannot be called '../../evil'" in err
    assert run("show", "../../evil")[0] == 1
    assert run("remove", "../../evil", "-y")[0] == 1
    assert run("new", "--seed", str(2**64))[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_list(run: Run) -> None:
    run("new", "--name", "anna", "--seed", "1")
    VoiceLibrary().save(ME)
    VoiceLibrary().save(replace(ANNA, name="edith"))
    VoiceLibrary().folder.joinpath("broken.json").write_text("{", encoding="utf-8")
    status, out, err = run("list")
    assert status == 0
    lines = out.splitlines()
    assert any(line.startswith("clara ") and "(default)" in line for line in lines)
    assert any(line.startswith("lan ") and "(default for Chinese)" in line for line in lines)
    assert any(line.startswith("edith ") and "hidden by yours" in line for line in lines)
    assert any(line.split()[:3] == ["anna", "speaker", "yours,"] for line in lines)
    assert any(line.split()[:2] == ["me", "sample"] for line in lines)
    assert "broken.json" in err
    assert str(VoiceLibrary().folder) in err


def test_list_downloads_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "download", lambda *_: pytest.fail("a download was started"))
    status, _, err = run("list", "--model", "huggingface")
    assert status == 1
    assert "chattts download" in err


def test_show(run: Run, config: Config) -> None:
    VoiceLibrary().save(ME)
    status, out, err = run("show", "me")
    assert (status, out) == (0, "四五六\n")
    assert "transcript: my words" in err
    assert run("show", "clara")[1] == config.defaults.speakers["clara"] + "\n"
    status, out, err = run("show", "nobody")
    assert (status, out) == (1, "")
    assert "there is no voice named 'nobody'" in err


def test_remove_asks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    VoiceLibrary().save(ANNA)
    status, _, err = run("remove", "anna")
    assert status == 2
    assert "-y" in err
    for answer, gone in (("n\n", False), ("\n", False), ("y\n", True)):
        terminal = io.StringIO(answer)
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", terminal)
        assert run("remove", "anna")[0] == (0 if gone else 1)
        assert ("anna" in VoiceLibrary()) != gone
    status, _, err = run("remove", "anna", "-y")
    assert status == 1
    assert "there is no voice named 'anna'" in err


def test_from_audio(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(
        config=Config(gpt=GPTConfig(hidden_size=64), embed=EmbedConfig(hidden_size=64)),
        load_or_raise=lambda *_, **__: None,
        sample_audio_speaker=lambda wav: f"codes of {wav}",
        normalizer=Normalizer(),
    )
    monkeypatch.setattr(ChatTTS.core, "Chat", lambda: fake)
    save("me.wav", np.sin(np.arange(48_000) / 9).astype(np.float32))
    arguments = ("from-audio", "me.wav", "--name", "me", "--transcript")
    status, _, err = run(*arguments, " my words ")
    assert status == 0
    assert "--voice me" in err
    assert VoiceLibrary().load("me") == SavedVoice(
        "me", 64, "bundled", sample="codes of me.wav", transcript="my words"
    )
    assert run(*arguments, "other words")[0] == 1
    assert run(*arguments, " ", "--force")[0] == 2
    assert run(*arguments[:-1])[0] == 2
    assert VoiceLibrary().load("me").transcript == "my words"


def test_from_audio_refuses_bad_arguments_before_loading(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChatTTS.core, "Chat", lambda: pytest.fail("a model was loaded"))
    save("short.wav", np.ones(100, np.float32))
    status, _, err = run("from-audio", "short.wav", "--name", "me", "--transcript", "x")
    assert status == 1
    assert "too short" in err
    save("long.wav", np.sin(np.arange(48_000) / 9).astype(np.float32))
    VoiceLibrary().save(ME)
    status, _, err = run("from-audio", "long.wav", "--name", "me", "--transcript", "x")
    assert status == 1
    assert "'me' already" in err


def test_a_blend_is_printed_and_kept(run: Run, config: Config) -> None:
    status, string, _ = run("blend", "clara=0.7", "edith=0.3", "--name", "mix")
    assert status == 0
    assert VoiceLibrary().load("mix").speaker == string.strip()
    assert find_voice("clara:0.7,edith:0.3", config, VoiceLibrary()).parameters == {
        "spk_emb": string.strip()
    }
    assert run("blend", "mix=1", "clara=2")[0] == 0
    assert run("blend", "clara", "nobody")[0] == 1
    assert run("blend", "clara,edith")[0] == 2
