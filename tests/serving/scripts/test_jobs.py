"""Scripts as jobs: results, errors before anything is spoken."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from ChatTTS.errors import NothingToSpeakError, TextError
from ChatTTS.longform import line_store
from ChatTTS.longform.subprocess_reader import read_bounded, read_in_subprocess
from ChatTTS.serving.errors import BadRequestError, RequestTooLargeError
from ChatTTS.serving.protocols.rest.script_schemas import ScriptPauses
from ChatTTS.serving.scripts import planning
from ChatTTS.serving.scripts.options import ScriptOptions
from ChatTTS.serving.scripts.planning import ScriptSource
from ChatTTS.serving.settings import Limits

from ...support.epub_books import epub
from ...support.script_tools import (
    SCRIPTS,
    ToneModel,
    delete,
    get,
    post,
    settled,
    spoken,
    tone_server,
)
from ...support.server_tools import WholeServer
from ...support.serving_tools import PATIENCE

LINES: list[dict[str, Any]] = [
    {"voice": "Anna", "text": "Did you lock the door?", "pause": 0.25, "chapter": "Late"},
    {"voice": "Bob", "text": "I was sure that you had. [pause:1.5s] So we go back."},
    {"pause": 0.5},
    {"text": "They went.", "style": {"seed": 5, "speed": 3}, "chapter": "Home"},
]
ROLES = {"Anna": "alloy", "Bob": {"voice": "echo", "tempo": 1.25, "temperature": 0.2}}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WholeServer, ToneModel]]:
    folder = tmp_path_factory.mktemp("serving")
    limits = replace(Limits(), script_characters=50_000, characters=600)
    with tone_server(folder, limits=limits) as (server, model):
        yield server, model


@pytest.fixture
def server(serving: tuple[WholeServer, ToneModel]) -> WholeServer:
    server, model = serving
    model.jobs.clear()
    model.fails.clear()
    for told in get(server, "").json()["data"]:
        delete(server, told["id"])
    return server


@pytest.fixture
def model(serving: tuple[WholeServer, ToneModel], server: WholeServer) -> ToneModel:
    return serving[1]


def samples_of(data: bytes) -> np.ndarray[Any, Any]:
    samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert rate == 24_000
    return np.asarray(samples)


def silences(samples: np.ndarray[Any, Any]) -> list[int]:
    """Return the lengths of silence of more than 0.2 s."""
    loud = np.flatnonzero(np.abs(samples) > 3)
    gaps = np.diff(loud)
    return [int(gap) for gap in gaps if gap > 4800]


# ---------------------------------------------------------------- results


@pytest.mark.slow
def test_a_script_becomes_a_file(
    server: WholeServer, model: ToneModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "read_in_subprocess", read_in_subprocess)
    told, data = spoken(server, LINES, voices=ROLES, seed=9)
    assert told["progress"]["lines"] == told["progress"]["lines_total"] == 5
    assert (told["result"]["bytes"], told["result"]["chapters"]) == (len(data), 2)
    figures = httpx.get(f"{server.url}/metrics").text.splitlines()
    assert "chattts_scripts_running 0.0" in figures
    assert "chattts_scripts_done 0.0" not in figures
    samples = samples_of(data)
    assert told["result"]["seconds"] == pytest.approx(len(samples) / 24_000, abs=1e-3)
    # 20 ms are left around speech; the silence of a line of its own adds to the line's join.
    rest = 2 * 480
    found = silences(samples)
    assert found[:2] == pytest.approx([6000 + rest, 36_000 + rest], abs=240)
    jobs = {job.text: job for job in model.jobs}
    speakers = server.service.voices
    assert jobs["Did you lock the door?"].voice == speakers.parameters("alloy")
    assert jobs["So we go back."].voice == speakers.parameters("echo")
    assert jobs["So we go back."].sampling["temperature"] == 0.2
    assert jobs["They went."].seed == 5
    assert jobs["They went."].sampling["prompt"] == "[speed_3]"
    assert jobs["Did you lock the door?"].seed == 9


def test_a_file_has_chapters_loudness_and_subtitles(server: WholeServer) -> None:
    av = pytest.importorskip("av")
    pytest.importorskip("pyloudnorm")
    more = {"loudness": "audiobook", "title": "Late", "author": "Me", "subtitles": "srt"}
    told, data = spoken(server, LINES, voices=ROLES, response_format="m4b", **more)
    with av.open(io.BytesIO(data)) as file:
        assert [c["metadata"]["title"] for c in file.chapters()] == ["Late", "Home"]
        assert file.metadata["artist"] == "Me"
    subtitles = get(server, f"/{told['id']}/subtitles")
    assert subtitles.headers["content-type"].startswith("application/x-subrip")
    assert "Did you lock the door?" in subtitles.text
    # Equal scripts give equal files.
    assert spoken(server, LINES, voices=ROLES, response_format="m4b", **more)[1] == data


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.md", "# One\n\nHello there.", ["One", "Hello there."]),
        ("a.srt", "1\n00:00:01,000 --> 00:00:03,000\nHello there.\n", ["Hello there."]),
        ("a.ssml", "<speak>Hello <break time='1s'/>there.</speak>", ["Hello", "there."]),
        ("a.jsonl", '{"text": "Hello there."}\n{"pause": 1}', ["Hello there."]),
        ("../../etc/passwd", "Hello there.", ["Hello there."]),
    ],
)
def test_files_are_sent_in_forms(
    name: str, text: str, said: list[str], server: WholeServer, model: ToneModel
) -> None:
    answer = httpx.post(
        server.url + SCRIPTS,
        files={"file": (name, text.encode())},
        data={"response_format": "wav", "loudness": "-20", "pauses": '{"sentence": 0.1}'},
        timeout=PATIENCE,
    )
    assert answer.status_code == 202, answer.text
    assert answer.json()["name"] == name.rpartition("/")[2]
    assert answer.headers["location"] == f"{SCRIPTS}/{answer.json()['id']}"
    assert settled(server, answer.json()["id"])["state"] == "done"
    assert sorted(model.said) == sorted(said)


def test_a_file_is_sent_in_ranges(server: WholeServer) -> None:
    told, data = spoken(server, "Hello there.")
    path = f"/{told['id']}/audio"
    for given, part in (
        ("bytes=0-9", data[:10]),
        ("bytes=44-", data[44:]),
        ("bytes=-7", data[-7:]),
        (f"bytes=5-{len(data) + 99}", data[5:]),
    ):
        answer = get(server, path, range=given)
        assert (answer.status_code, answer.content) == (206, part)
        assert answer.headers["content-range"].endswith(f"/{len(data)}")
    for given in ("bytes=0-1,3-4", "bytes=-", "lines=1-2", "bytes=9-2x"):
        answer = get(server, path, range=given)
        assert (answer.status_code, answer.content) == (200, data)
    for given in (f"bytes={len(data)}-", "bytes=9-3", "bytes=-0"):
        answer = get(server, path, range=given)
        assert (answer.status_code, answer.json()["error"]["code"]) == (416, "invalid_range")
    tag = answer.headers.get("etag") or get(server, path).headers["etag"]
    assert get(server, path, **{"if-none-match": tag}).status_code == 304
    stale = {"range": "bytes=0-9", "if-range": '"other"'}
    assert get(server, path, **stale).content == data


def test_what_is_no_part_of_a_file_names_its_size(server: WholeServer) -> None:
    told, data = spoken(server, "Hello there.")
    answer = get(server, f"/{told['id']}/audio", range=f"bytes={len(data)}-{len(data) + 9}")
    assert answer.headers["content-range"] == f"bytes */{len(data)}"
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.slow
@pytest.mark.parametrize(
    "absurd",
    ["bytes=" + "0-0," * 5000, "bytes=" + "9" * 10_000 + "-", "bytes=--5", "bytes=0x1-2", "="],
)
def test_absurd_ranges_give_the_whole_file(absurd: str, server: WholeServer) -> None:
    told, data = spoken(server, "Hello there.")
    answer = get(server, f"/{told['id']}/audio", range=absurd)
    assert (answer.status_code, answer.content) == (200, data)


def test_ranges_hold_for_the_file_that_the_client_knows(server: WholeServer) -> None:
    told, data = spoken(server, "Hello there.")
    path = f"/{told['id']}/audio"
    tag = get(server, path).headers["etag"]
    part = get(server, path, range="BYTES=0-9", **{"if-range": tag})
    assert (part.status_code, part.content, part.headers["etag"]) == (206, data[:10], tag)
    for tags in (f'"other", W/{tag}', "*"):
        beyond = {"range": f"bytes={len(data)}-", "if-none-match": tags}
        answer = get(server, path, **beyond)
        assert (answer.status_code, answer.content) == (304, b"")
    head = httpx.head(server.url + SCRIPTS + path, headers={"range": "bytes=0-9"}, timeout=PATIENCE)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(data)))


def test_a_file_has_no_ranges_before_it_is_done(server: WholeServer, model: ToneModel) -> None:
    model.may_go_on.clear()
    name = post(server, "One.\n\nTwo.").json()["id"]
    try:
        for given in ("bytes=0-9", "bytes=-7", "bytes=0-0,2-3", "bytes=-"):
            answer = get(server, f"/{name}/audio", range=given)
            assert answer.status_code == 409
            assert "content-range" not in answer.headers
    finally:
        model.may_go_on.set()
    assert settled(server, name)["state"] == "done"
    assert get(server, f"/{name}/audio", range="bytes=0-9").status_code == 206


def test_progress_is_told_as_it_comes(server: WholeServer, model: ToneModel) -> None:
    model.may_go_on.clear()
    name = post(server, "One.\n\nTwo.").json()["id"]
    events = []
    with httpx.stream("GET", f"{server.url}{SCRIPTS}/{name}/events", timeout=PATIENCE) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line[6:]))
                model.may_go_on.set()
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert events[0]["type"] == "script.progress"
    assert (events[-1]["type"], events[-1]["script"]["progress"]["lines"]) == ("script.done", 2)


def test_warnings_are_told(server: WholeServer, model: ToneModel) -> None:
    model.fails["And two."] = NothingToSpeakError("And two.")
    text = "<speak><blink>One.</blink><s>And two.</s> <s>...</s></speak>"
    told, _ = spoken(server, text, format="ssml")
    assert [w.partition(":")[2] for w in told["warnings"]] == [
        "1: <blink> is not known; its text is spoken as it is",
        "1: there is nothing to speak in it; it stays silent",
    ]


def test_what_the_voice_cannot_speak_is_told(server: WholeServer, model: ToneModel) -> None:
    model.fails["Two 好."] = NothingToSpeakError("Two 好.", ("好",), ("en",))
    model.left_out["One 你."] = ("你",)
    told, _ = spoken(server, "One 你.\n\nTwo 好.\n")
    assert sorted(w.partition(": ")[2] for w in told["warnings"]) == [
        "the voice cannot speak 你; left out",
        "the voice cannot speak 好; it stays silent",
    ]


# ---------------------------------------------------------------- errors before anything is spoken


def bomb() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("META-INF/container.xml", b" " * (5 << 20))
    return data.getvalue()


LATE = "".join(f"Anna: line {n}.\n" for n in range(899)) + "Zoe: hi.\n"
ENTITIES = '<!DOCTYPE speak [<!ENTITY a "b">]><speak>&a;</speak>'


@pytest.mark.parametrize(
    ("script", "fields", "status", "message"),
    [
        (LATE, {"voices": {"Anna": "alloy"}}, 400, "script:900: there is no voice 'Zoe'"),
        (LATE, {"voices": {"Anna": "../../etc/passwd"}}, 400, "voices: Anna: there is no voice"),
        ([{"text": "A."}, {"text": "B.", "voice": "/etc/passwd"}], {}, 400, "script:2: there is"),
        ([{"text": "A."}, {"pause": 601}], {}, 400, "script:2: a pause must be"),
        ([{"text": "A.", "colour": 1}], {}, 400, "script:1: a line has"),
        ([{"text": "A."}, 3], {}, 400, "script:2: a line is an object"),
        ([{"text": "A.", "style": {"speed": 11}}], {}, 400, "script:1: speed must be"),
        ([], {}, 400, "nothing to speak"),
        ("... !", {}, 400, "nothing to speak"),
        (ENTITIES, {"format": "ssml"}, 400, "declares XML entities"),
        ("<speak>", {}, 400, "script:1: the document is damaged"),
        ("<speak>a <x>b</x></speak>", {"strict": True}, 400, "script:1: <x> is not known"),
        ("1\n00:00:05,000 --> 00:00:01,000\na\n", {"format": "srt"}, 400, "script:2"),
        ("A. [pause:1h]", {}, 400, "script:1: [pause:1h] is not a pause"),
        ("word " * 20_000, {}, 413, "the limit is 50000: send it in parts"),
        ([{"text": "A."}, *[{"pause": 600}] * 144], {}, 413, "hours with its pauses"),
        ("Hi.", {"voice": "nobody"}, 400, "script:1: there is no voice 'nobody'"),
        ("Hi.", {"voice": "\u4e00" * 5}, 400, "script:1: "),
        ("Hi.", {"from": "7"}, 400, "there is no chapter"),
        ("Hi.", {"response_format": "gif"}, 400, "response_format"),
        ("Hi.", {"loudness": -4}, 400, "loudness must be LUFS"),
        ("Hi.", {"loudness": "loud"}, 400, "loudness"),
        ("Hi.", {"pauses": {"word": 1}}, 400, "pauses"),
        ("Hi.", {"subtitles": "doc"}, 400, "subtitles"),
        ("Hi.", {"notes": "begin"}, 400, "notes"),
        ("Hi.", {"lexicon": {"": "x"}}, 400, "word"),
        ("Hi. " * 9, {"lexicon": {"hi": "x " * 90}}, 400, "with the sayings of the lexicon"),
        ("Hi.", {"title": "\ud800"}, 400, "title"),
        ("\ud800", {}, 400, "unpaired surrogate"),
        (3, {}, 400, "script"),
    ],
)
def test_what_cannot_be_spoken_is_told_at_once(
    script: Any,
    fields: dict[str, Any],
    status: int,
    message: str,
    server: WholeServer,
    model: ToneModel,
) -> None:
    given = {"script": script, "response_format": "wav", "loudness": "off", **fields}
    answer = httpx.post(
        server.url + SCRIPTS,
        content=json.dumps(given),
        headers={"content-type": "application/json"},
        timeout=PATIENCE,
    )
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]["message"]
    place = message.split(":")
    if message.startswith("script:"):
        assert answer.json()["error"]["line"] == int(place[1])
    assert model.said == []
    assert get(server, "").json()["data"] == []
    assert not [p for p in Path(str(server.settings.scripts)).iterdir() if p.is_dir()]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.epub", bomb(), "a.epub/META-INF/container.xml: it unpacks to more than 4 MB"),
        ("a.epub", b"PK\x03\x04 and no more", "a.epub: the EPUB is damaged"),
        ("a.txt", b"one\ntwo \xff", "a.txt:2: it is not UTF-8"),
        ("a.txt", b"", "nothing to speak"),
    ],
)
def test_files_that_cannot_be_read(
    name: str, data: bytes, message: str, server: WholeServer, model: ToneModel
) -> None:
    answer = httpx.post(server.url + SCRIPTS, files={"file": (name, data)}, timeout=PATIENCE)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_a_book_may_be_larger_than_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "read_in_subprocess", read_bounded)
    limits = replace(Limits(), script_characters=20)
    book = epub({"a.xhtml": "<p>Hello there.</p>"})
    for options in (ScriptOptions(), ScriptOptions(format="epub")):
        read = ScriptSource(book, "a.epub" if options.format is None else "a").read(options, limits)
        assert [line.text for line in read.lines] == ["Hello there."]
    with pytest.raises(RequestTooLargeError, match=f"has {len(book)} bytes; the limit is 160"):
        ScriptSource(book, "a.epub").read(ScriptOptions(format="text"), limits)


def test_a_format_whose_package_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    assert ScriptOptions.of({"response_format": "wav"}).response_format == "wav"
    with pytest.raises(BadRequestError, match="needs PyAV"):
        ScriptOptions.of({"response_format": "m4b"})


def test_pauses_are_described_with_equal_limits() -> None:
    fields = ScriptPauses.model_json_schema()["properties"]
    kinds = [field["anyOf"] for field in fields.values()]
    assert kinds == [[{"type": "number", "minimum": 0, "maximum": 600}, {"type": "null"}]] * 5


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"[" * 4000, b'{"script": ' + b"[" * 400_000]
)
def test_bad_bodies(content: bytes, server: WholeServer) -> None:
    answer = httpx.post(server.url + SCRIPTS, content=content, timeout=PATIENCE)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_request"


def test_an_error_while_speaking_has_its_line_and_the_rest_is_kept(
    server: WholeServer, model: ToneModel
) -> None:
    model.fails["Two."] = TextError("this text is too long for the model")
    told = settled(server, post(server, "One.\n\nTwo.\n\nThree.").json()["id"])
    assert (told["state"], told["error"]["file"], told["error"]["line"]) == ("failed", "script", 3)
    answer = get(server, f"/{told['id']}/audio")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "script_unfinished")
    assert "too long for the model" in answer.json()["error"]["message"]


def test_a_full_disk_is_told_without_its_paths(
    server: WholeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(line_store, "atomic_write", full)
    told = settled(server, post(server, "Hello there.").json()["id"])
    assert (told["state"], told["error"]["code"]) == ("failed", "storage_failed")
    assert "the disk is full" in told["error"]["message"]
    assert str(Path(str(server.settings.scripts))) not in json.dumps(told)
