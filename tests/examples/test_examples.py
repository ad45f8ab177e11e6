"""Run the examples and every piece of code in the documents, and check the links."""

from __future__ import annotations

import doctest
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ChatTTS
from ChatTTS.cli.commands import _parse
from ChatTTS.core import Chat

from ..support.places import ROOT
from ..support.sound_tools import FakeLibrary

COMMANDS = ROOT / "examples" / "cmd"
DOCUMENTS = [ROOT / "README.md", ROOT / "examples" / "README.md"]
DOCUMENTS += sorted((ROOT / "docs").glob("*.md"))

_BLOCK = re.compile(
    r"^(?P<skip><!-- not run: [^\n]* -->\n)?```(?P<kind>\w+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\]\((?!https?:)([^()\s#]*)(?:#([^()\s]+))?\)")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the files and voices that a test makes into a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def run(script: str, *arguments: str) -> None:
    runpy.run_path(str(COMMANDS / script))["main"](arguments)


def seconds(path: str) -> float:
    samples, rate = ChatTTS.read(path)
    assert float(np.abs(samples).max()) > 0.1
    return len(samples) / rate


# ---------------------------------------------------------------- examples


def test_speak(capsys: pytest.CaptureFixture[str]) -> None:
    run("speak.py", "good morning, how are you today?", "--out", "speak.flac")
    assert capsys.readouterr().out == f"speak.flac: {seconds('speak.flac'):.2f} s (stop)\n"


@pytest.mark.parametrize("low_latency", [False, True])
def test_stream(low_latency: bool, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--low-latency"] if low_latency else []
    text = "it was very cold last night. we went home."
    run("stream.py", text, "--out", "stream.wav", *more)
    *pieces, last = capsys.readouterr().out.splitlines()
    assert last == f"stream.wav: {seconds('stream.wav'):.2f} s (stop)"
    assert len(pieces) > 2
    assert pieces[0].endswith("from  0.00 s on, utterance 0: it was very cold last night.")
    assert pieces[-1].endswith("utterance 1: we went home.")


def test_stream_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeLibrary.installed(monkeypatch)
    run("stream.py", "we went home.", "--out", "stream.wav", "--play")
    np.testing.assert_allclose(device.stream.heard, ChatTTS.read("stream.wav")[0], atol=1 / 32768)


def test_stream_async(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ("it was very cold last night.", "the children are playing.")
    run("stream_async.py", *texts, "--out", "both")
    lines = capsys.readouterr().out.splitlines()
    ends = [f"both-{n}.wav: {seconds(f'both-{n}.wav'):.2f} s (stop)" for n in (1, 2)]
    assert set(ends) < set(lines)
    # Both texts have begun before either is finished.
    begun = lines[: min(map(lines.index, ends))]
    assert all(any(f"in both-{n}.wav" in line for line in begun) for n in (1, 2))


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.slow
def test_voices(recorded: bool, tmp_path: Path, bundled: Chat) -> None:
    kept = ROOT / "tests/pipeline/references/test_regression"
    recording = kept / "test_the_same_sound-sentence.flac"
    transcript = "good morning, how are you today?"
    named = ("--recording", str(recording), "--transcript", transcript) if recorded else ()
    run("voices.py", "--out", "voices", *named)
    first, again = (tmp_path / f"voices/{name}.wav" for name in ("random", "random-again"))
    assert first.read_bytes() == again.read_bytes()
    assert seconds("voices/like-recording.wav") > 0.8
    speaker = (tmp_path / "voices/speaker.txt").read_text(encoding="utf-8")
    assert bundled.speaker.vector(speaker).std() > 0
    assert speaker != (tmp_path / "voices/sample.txt").read_text(encoding="utf-8")


def test_a_voice_that_is_kept_is_not_drawn_again(tmp_path: Path) -> None:
    kept = tmp_path / "speaker.txt"
    kept.write_text("mine", encoding="utf-8")
    random_voice = runpy.run_path(str(COMMANDS / "voices.py"))["random_voice"]
    assert random_voice(ChatTTS.Chat(), kept, seed=7) == "mine"


def test_long_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "story.txt").write_text("we went home.\nit was a good day.", encoding="utf-8")
    run("long_text.py", "story.txt", "--out", "story.wav")
    first, second, total = capsys.readouterr().out.splitlines()
    assert "we went home." in first
    assert "it was a good day." in second
    assert total == f"story.wav: {seconds('story.wav'):.2f} s"


@pytest.mark.parametrize("script", sorted(path.name for path in COMMANDS.glob("*.py")))
def test_help_shows_how_to_call_it(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run(script, "--help")
    assert end.value.code == 0
    text = (COMMANDS / script).read_text(encoding="utf-8")
    assert f"\npython examples/cmd/{script}" in text
    assert script in (ROOT / "examples" / "README.md").read_text(encoding="utf-8")


# ---------------------------------------------------------------- documents


def name(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def blocks(document: Path, *kinds: str) -> Iterator[tuple[str, str, int]]:
    """Return kind, code and line number of each block that is not marked `not run`."""
    text = document.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if match["kind"] in kinds and not match["skip"]:
            yield match["kind"], match["code"], text.count("\n", 0, match.start("code"))


def with_code() -> list[Path]:
    return [path for path in DOCUMENTS if any(blocks(path, "python", "pycon"))]


@pytest.mark.parametrize("document", with_code(), ids=name)
@pytest.mark.slow_for("docs/[!sv]*", "docs/streaming.md", "docs/voices.md")
def test_the_code_of_the_documents_runs(document: Path) -> None:
    """The blocks of a document share one namespace; output after `>>>` must be as shown."""
    if document.parent.name == "serving":
        pytest.importorskip("fastapi")
    if document.name == "long-form.md":
        pytest.importorskip("av")
    names: dict[str, object] = {"__name__": "__main__"}
    for kind, code, line in blocks(document, "python", "pycon"):
        if kind == "python":
            exec(compile("\n" * line + code, str(document), "exec"), names)
            continue
        parsed = doctest.DocTestParser().get_doctest(code, names, document.name, None, line)
        report: list[str] = []
        result = doctest.DocTestRunner().run(parsed, out=report.append, clear_globs=False)
        assert result.failed == 0, "".join(report)
        names.update(parsed.globs)


def command_lines(document: Path) -> Iterator[list[str]]:
    """Return the words of every `chattts ...` command in the shell blocks."""
    for _, code, _ in blocks(document, "sh"):
        for line in code.splitlines():
            words = shlex.split(line.replace("|", " | ").replace(">", " > "), comments=True)
            while words:
                end = next((i for i, word in enumerate(words) if word in "|>"), len(words))
                command = [word for word in words[:end] if not re.match(r"[A-Z_]+=", word)]
                if command and command[0] == "chattts":
                    yield command[1:]
                words = words[end + 1 :]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_the_commands_of_the_documents_exist(document: Path) -> None:
    for command in command_lines(document):
        assert callable(_parse(command).run)


def test_the_command_lines_are_found() -> None:
    found = list(command_lines(ROOT / "docs" / "quick-start.md"))
    assert ["say", "--stream", "Hello, world."] in found
    assert ["say", "-o", "morning.mp3"] in found


def anchors(document: Path) -> set[str]:
    """Return the anchors of the headings of a document."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CHANGELOG.md"], ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    lost = []
    without_code = re.sub(r"`[^`\n]*`", "", document.read_text(encoding="utf-8"))
    for path, anchor in _LINK.findall(without_code):
        target = (document.parent / path) if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(f"{path}#{anchor}")
    assert lost == []


def test_the_readme_says_what_make_demo_says() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    sentence = re.search(r"^SENTENCE := (.*)$", makefile, re.MULTILINE)
    assert sentence is not None
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert sentence[1] in readme
