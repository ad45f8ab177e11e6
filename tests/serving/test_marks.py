"""Answers with speech say that it is synthetic: by a header, and in the sound where it can."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.audio import Mark, find_mark
from ChatTTS.audio.content_credentials import Credentials, find_manifest, has_reader
from ChatTTS.config.mark import SOFTWARE, SOURCE_TYPE, today
from ChatTTS.serving.encoding import Encoder, Format
from ChatTTS.serving.http.disclosure import DISCLOSURE, disclosure_headers

from ..support import certificates
from ..support.script_tools import spoken, tone_server
from ..support.server_tools import WholeServer
from ..support.serving_tools import PATIENCE

SAYS = f'mode=machine-generated, model="{SOFTWARE}"'
# Method, address and body of each way to speech over HTTP.
WAYS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("GET", "/tts?text=Good night.", None),
    ("HEAD", "/tts?text=Good night.", None),
    ("POST", "/tts", {"text": "Good night."}),
    ("POST", "/v1/audio/speech", {"input": "Good night."}),
    ("POST", "/v1/audio/speech", {"input": "Good night.", "stream": False}),
    ("POST", "/v1/audio/speech", {"input": "Good night.", "stream_format": "sse"}),
    ("POST", "/v1/audio/speech/batch", {"items": [{"input": "Good night."}]}),
    ("POST", "/v1/audio/speech/batch", {"items": [{"input": "Good night."}], "stream": True}),
    ("POST", "/dev/captioned_speech", {"input": "Good night."}),
    ("GET", "/v2/synthesize?utterance=Good night.", None),
    ("GET", "/synthesize/Good night.", None),
    ("POST", "/v1/text-to-speech/alloy", {"text": "Good night."}),
    ("POST", "/v1/text-to-speech/alloy/stream", {"text": "Good night."}),
    ("POST", "/v1/speak", {"text": "Good night."}),
    (
        "POST",
        "/tts/bytes",
        {
            "transcript": "Good night.",
            "voice": {"mode": "id", "id": "alloy"},
            "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000},
        },
    ),
]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WholeServer, WholeServer]]:
    """A server, and one without marks."""
    with ExitStack() as stack:
        marked, _ = stack.enter_context(tone_server(tmp_path_factory.mktemp("marked")))
        plain, _ = stack.enter_context(tone_server(tmp_path_factory.mktemp("plain"), mark=None))
        yield marked, plain


@pytest.fixture
def client(servers: tuple[WholeServer, WholeServer]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=servers[0].url, timeout=PATIENCE) as client:
        yield client


@pytest.fixture
def plain(servers: tuple[WholeServer, WholeServer]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=servers[1].url, timeout=PATIENCE) as client:
        yield client


def speech(client: httpx.Client, format: str, **fields: Any) -> bytes:
    body = {"input": "Good night.", "response_format": format, "seed": 3, **fields}
    answer = client.post("/v1/audio/speech", json=body)
    assert answer.status_code == 200, answer.text
    return answer.content


def samples_of(data: bytes) -> NDArray[Any]:
    with av.open(io.BytesIO(data)) as file:
        return np.concatenate([frame.to_ndarray() for frame in file.decode(audio=0)], axis=-1)


def tags_of(data: bytes) -> dict[str, str]:
    with av.open(io.BytesIO(data)) as file:
        found = file.streams.audio[0].metadata | file.metadata
        return {name.lower(): value for name, value in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "body"), WAYS)
def test_every_way_to_speech_has_the_header(
    client: httpx.Client,
    plain: httpx.Client,
    method: str,
    path: str,
    body: dict[str, Any] | None,
) -> None:
    answer = client.request(method, path, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers[DISCLOSURE] == SAYS
    assert "date" in answer.headers  # it tells when
    assert DISCLOSURE not in plain.request(method, path, json=body).headers


@pytest.mark.slow
def test_clients_get_the_mark_for_wav_files_of_their_own(
    client: httpx.Client, plain: httpx.Client, tmp_path: Path
) -> None:
    file = tmp_path / "own.wav"
    sound = speech(plain, "wav", stream=False)
    chunk = base64.b64decode(client.get("/v1/status").json()["wav_mark"])
    size = (len(sound) + len(chunk) - 8).to_bytes(4, "little")
    file.write_bytes(sound[:4] + size + sound[8:] + chunk)
    found = find_mark(file)
    assert (found.is_synthetic, found.day) == (True, today().isoformat())
    assert np.array_equal(samples_of(file.read_bytes()), samples_of(sound))
    assert plain.get("/v1/status").json()["wav_mark"] == ""


@pytest.mark.parametrize("path", ["/v1/models", "/v1/audio/voices", "/health", "/"])
def test_other_answers_have_none(client: httpx.Client, path: str) -> None:
    assert DISCLOSURE not in client.get(path).headers


def test_pages_of_other_hosts_may_read_the_header(
    tmp_path: Path, servers: tuple[WholeServer, WholeServer]
) -> None:
    page = "https://page.example"
    with tone_server(tmp_path, cors_origins=(page,)) as (server, _):
        answer = httpx.get(f"{server.url}/tts?text=Hello", headers={"Origin": page})
    assert DISCLOSURE in answer.headers["access-control-expose-headers"]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["mp3", "opus", "flac"])
@pytest.mark.parametrize("stream", [True, False])
def test_the_sound_says_it_in_its_header(
    client: httpx.Client, plain: httpx.Client, tmp_path: Path, format: str, stream: bool
) -> None:
    data = speech(client, format, stream=stream)
    tags = tags_of(data)
    assert tags["digitalsourcetype"] == SOURCE_TYPE
    assert SOFTWARE in (tags.get("software"), tags.get("encoder"))
    assert "date" not in tags
    path = tmp_path / "a"
    path.write_bytes(data)
    assert find_mark(path).is_synthetic
    # Equal seeds give equal bytes on every day, and the sound behind the header is the same.
    assert speech(client, format, stream=stream) == data
    other = speech(plain, format, stream=stream)
    assert SOURCE_TYPE not in repr(other)
    assert np.array_equal(samples_of(data), samples_of(other))


@pytest.mark.parametrize("format", ["wav", "pcm", "aac"])
def test_other_formats_are_as_without_a_mark(
    client: httpx.Client, plain: httpx.Client, format: str
) -> None:
    """Programs cut 44 bytes off a WAV stream, and join frames of AAC."""
    for stream in (True, False):
        assert speech(client, format, stream=stream) == speech(plain, format, stream=stream)


@pytest.mark.parametrize("format", [Format.MP3, Format.OPUS, Format.FLAC])
def test_the_mark_comes_no_later_than_the_first_sound(format: Format) -> None:
    sound = (0.3 * np.sin(np.arange(24_000) / 20)).astype(np.float32)
    plain, marked = Encoder(format), Encoder(format, mark=Mark())
    counts: list[list[int]] = [[], []]
    for at in range(0, 24_000, 240):
        for encoder, count in zip((plain, marked), counts, strict=True):
            count.append(len(encoder.push(sound[at : at + 240])))
    # Every part but the first has the bytes that it has without a mark.
    assert counts[0][1:] == counts[1][1:]
    assert counts[1][0] > counts[0][0]


def test_sound_in_json_is_marked_as_well(client: httpx.Client) -> None:
    body = {"items": [{"input": "Good night."}], "response_format": "mp3"}
    item = client.post("/v1/audio/speech/batch", json=body).json()["data"][0]
    assert tags_of(base64.b64decode(item["audio"]))["digitalsourcetype"] == SOURCE_TYPE


@pytest.mark.parametrize(
    ("producer", "told"),
    [
        ("", SAYS),
        ('A "big" \\ radio', f'{SAYS}, provider="A \\"big\\" \\\\ radio"'),
        ("北京 100%", f'{SAYS}, provider=%"%e5%8c%97%e4%ba%ac 100%25"'),
    ],
)
def test_the_header_is_a_dictionary_of_rfc_9651(producer: str, told: str) -> None:
    assert disclosure_headers(Mark(producer=producer)) == {DISCLOSURE: told}
    assert disclosure_headers(None) == {}


def test_files_of_scripts_have_the_day_of_the_job(
    servers: tuple[WholeServer, WholeServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    path = tmp_path / "a"
    for server, is_synthetic in zip(servers, (True, False), strict=True):
        told, data = spoken(server, [{"text": "Hello there."}], response_format="mp3")
        path.write_bytes(data)
        found = find_mark(path)
        assert found.is_synthetic is is_synthetic
        assert found.day == ("2023-11-14" if is_synthetic else None)
        sound = httpx.get(f"{server.url}/v1/audio/scripts/{told['id']}/audio")
        assert sound.status_code == 200
        assert (DISCLOSURE in sound.headers) is is_synthetic


@pytest.mark.slow
@pytest.mark.skipif(not has_reader(), reason="c2pa-python is not installed")
def test_files_of_scripts_are_signed(tmp_path: Path) -> None:
    credentials = Credentials(*certificates.write_certificate(tmp_path))
    with tone_server(tmp_path / "scripts", credentials=credentials) as (server, _):
        for format in ("mp3", "opus"):
            _, data = spoken(server, [{"text": "Hello there."}], response_format=format)
            path = tmp_path / f"a.{format}"
            path.write_bytes(data)
            manifest = find_manifest(path, find_mark(path).format)
            assert (manifest is not None and manifest.is_intact) is (format == "mp3")
