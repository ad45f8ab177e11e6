"""``chattts verify``, and the options of marks and manifests of the commands that write files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import ChatTTS.core
from ChatTTS.audio import Mark, find_mark, save
from ChatTTS.audio.content_credentials import Credentials, find_manifest, has_reader
from ChatTTS.cli import main, serve
from ChatTTS.cli.commands import _parse
from ChatTTS.config.mark import SOFTWARE, SOURCE_TYPE
from ChatTTS.core import Chat
from ChatTTS.serving.settings import Settings

from ..support import certificates
from ..support.cli_tools import TONE, FakeChat
from ..support.longform_tools import Speaks

pytestmark = pytest.mark.usefixtures("empty_home")

NEEDS_C2PA = pytest.mark.skipif(not has_reader(), reason="c2pa-python is not installed")


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> FakeChat:
    fake = FakeChat()
    monkeypatch.setattr(ChatTTS.core, "Chat", lambda: fake)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    return fake


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["verify", *arguments])
    return status, capsys.readouterr().out


# ---------------------------------------------------------------- verify


def test_a_marked_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    save("a.mp3", TONE)
    status, text = said(capsys, "a.mp3")
    assert status == 0
    assert text.startswith("it says that its sound is synthetic\n")
    for part in ("MP3", SOFTWARE, "2023-11-14", "trainedAlgorithmicMedia", "ID3, XMP", "C2PA:"):
        assert part in text
    status, text = said(capsys, "a.mp3", "--json")
    told = json.loads(text)
    assert status == 0
    assert (told["synthetic"], told["software"], told["day"]) == (True, SOFTWARE, "2023-11-14")
    assert told["places"] == ["ID3", "XMP"]
    assert told["digital_source_type"] == SOURCE_TYPE
    assert told["c2pa"] is None


@pytest.mark.parametrize("name", ["a.wav", "a.txt"])
def test_a_file_that_says_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.txt").write_text("Good morning.")
    save("a.wav", TONE, mark=False)
    status, text = said(capsys, name)
    assert (status, text.startswith("it says nothing")) == (1, True)
    status, text = said(capsys, name, "--json")
    assert (status, json.loads(text)["synthetic"]) == (1, False)


def test_files_and_models_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "no.wav"]) == 2
    assert "error: no.wav does not exist" in capsys.readouterr().err
    # Names of models and folders are models, as ever.
    Path("bundled").write_text("A file.")
    Path("mine.wav").mkdir()
    assert main(["verify", "nowhere"]) == 1
    assert "there is no folder nowhere" in capsys.readouterr().err
    for model in ("bundled", "mine.wav"):
        main(["verify", model])
        assert "it says" not in capsys.readouterr().out
    assert main(["verify", "bundled", "--json"]) == 2
    assert "--json is for sound files" in capsys.readouterr().err


def test_without_the_package_no_manifest_is_looked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "c2pa", None)
    save("a.wav", TONE)
    status, text = said(capsys, "a.wav")
    assert status == 0
    assert "not looked for (pip install 'chattts-velocity[c2pa]')" in text


@NEEDS_C2PA
def test_manifests_are_told(
    chat: FakeChat, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate, key = certificates.write_certificate(tmp_path)
    signing = ["--c2pa-cert", str(certificate), "--c2pa-key", str(key)]
    # The signature alone is enough.
    assert main(["say", "Hello.", "-o", "a.wav", "--no-mark", *signing]) == 0
    status, text = said(capsys, "a.wav")
    assert status == 0
    assert "a manifest, intact; it says synthetic; signed by Test signer, Test" in text
    told = json.loads(said(capsys, "a.wav", "--json")[1])
    assert told["c2pa"] == {
        "intact": True,
        "synthetic": True,
        "signer": "Test signer, Test",
        "software": SOFTWARE,
        "faults": [],
    }
    data = bytearray(Path("a.wav").read_bytes())
    data[100] ^= 1
    Path("a.wav").write_bytes(data)
    status, text = said(capsys, "a.wav")
    assert status == 3
    assert "a manifest that is not valid (assertion.dataHash.mismatch)" in text


# ---------------------------------------------------------------- say


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_say_marks_its_file(chat: FakeChat, more: list[str]) -> None:
    assert main(["say", "Hello.", "-o", "a.wav", *more]) == 0
    assert find_mark("a.wav").day == "2023-11-14"
    assert main(["say", "Hello.", "-o", "b.wav", "--mark-producer", "A radio", *more]) == 0
    assert find_mark("b.wav").label["ContentProducer"] == "A radio"
    assert main(["say", "Hello.", "-o", "c.wav", "--no-mark", *more]) == 0
    assert not find_mark("c.wav").is_synthetic


@NEEDS_C2PA
@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_say_signs_its_file(chat: FakeChat, tmp_path: Path, more: list[str]) -> None:
    certificate, key = certificates.write_certificate(tmp_path)
    signing = ["--c2pa-cert", str(certificate), "--c2pa-key", str(key)]
    assert main(["say", "Hello.", "-o", "a.wav", *signing, *more]) == 0
    manifest = find_manifest("a.wav", "WAV")
    assert manifest is not None
    assert manifest.is_intact
    # Errors come before the model speaks.
    chat.asked.clear()
    for out in ("a.opus", "-"):
        assert main(["say", "Hello.", "-o", out, *signing]) in (1, 2)
    assert not chat.asked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--c2pa-cert", "a.pem"], "--c2pa-cert and --c2pa-key go together"),
        (["--no-mark", "--mark-producer", "x"], "leave out --no-mark"),
        (["--mark-producer", "x" * 300], "--mark-producer: producer of a mark must be at most"),
    ],
)
def test_options_that_contradict_each_other(
    chat: FakeChat, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["say", "Hello.", "-o", "a.wav", *options]) == 2
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------- read


@pytest.fixture
def reads(standard: Chat, empty_home: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard, "infer", Speaks())
    monkeypatch.setattr(standard, "load_or_raise", lambda *_, **__: None)
    monkeypatch.setattr(ChatTTS.core, "Chat", lambda: standard)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    Path("a.txt").write_text("Hello there.")


@pytest.mark.usefixtures("reads")
def test_read_marks_its_file() -> None:
    assert main(["read", "a.txt", "-o", "a.wav"]) == 0
    assert find_mark("a.wav").day == "2023-11-14"
    assert main(["read", "a.txt", "-o", "b.wav", "--no-mark"]) == 0
    assert not find_mark("b.wav").is_synthetic


@NEEDS_C2PA
@pytest.mark.usefixtures("reads")
def test_read_signs_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificate, key = certificates.write_certificate(tmp_path)
    signing = ["--c2pa-cert", str(certificate), "--c2pa-key", str(key)]
    assert main(["read", "a.txt", "-o", "a.m4b", *signing]) == 0
    manifest = find_manifest("a.m4b", "MP4")
    assert manifest is not None
    assert manifest.is_intact
    assert main(["read", "a.txt", "-o", "a.opus", *signing]) == 1
    assert "a.opus cannot hold a C2PA manifest" in capsys.readouterr().err


# ---------------------------------------------------------------- servers


def settings_of(words: list[str]) -> Settings:
    return serve._settings(_parse(words))


def test_servers_take_the_options(tmp_path: Path) -> None:
    certificate, key = certificates.write_certificate(tmp_path)
    words = ["serve", "--mark-producer", "A radio"]
    assert settings_of(words).mark == Mark(producer="A radio")
    assert settings_of(["serve", "--no-mark"]).mark is None
    if has_reader():
        words += ["--c2pa-cert", str(certificate), "--c2pa-key", str(key)]
        assert settings_of(words).credentials == Credentials(certificate, key)
