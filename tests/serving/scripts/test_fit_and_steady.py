"""Scripts whose cues fit their times, and whose voices stay what they are."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from ChatTTS.audio.samples import SAMPLE_RATE, Samples
from ChatTTS.pipeline.results import Word
from ChatTTS.serving.errors import UnavailableError
from ChatTTS.serving.requests.jobs import SpeechJob

from ...support.longform_tools import noise, tone
from ...support.script_tools import SCRIPTS, ToneModel, post, settled, spoken, tone_server
from ...support.server_tools import WholeServer
from ...support.serving_tools import PATIENCE

FILM = """1
00:00:01,000 --> 00:00:03,200
Did you hear that?

2
00:00:04,000 --> 00:00:04,600
It came from the cellar. [pause:100ms] Stay.

3
00:00:04,700 --> 00:00:06,700
Stay here.
"""
LINES = [
    f"This is the line with the number {name}, as it stands in the book."
    for name in ("one", "two", "three", "four", "five", "six", "seven", "eight")
]
BOOK = "\n\n".join(LINES)


class Reader(ToneModel):
    """Speaks for the duration of a job, for a second at least; other texts as noise of a voice.

    Attributes:
        strange: the texts that have another voice, in so many attempts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.strange: dict[str, int] = {}

    def tone(self, job: SpeechJob) -> tuple[Samples, list[Word]]:
        if job.duration is not None:
            samples = tone(200, max(job.duration, 1.0))
        else:
            attempts = self.strange.get(job.text, 0)
            self.strange[job.text] = attempts - 1
            samples = noise(job.text, voice=9.0 if attempts > 0 else 1.0)
        return samples, [Word(job.text, 0.0, 1.0, 0, len(samples), 0, len(job.text), 1.0)]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WholeServer, Reader]]:
    model = Reader()
    with tone_server(tmp_path_factory.mktemp("serving"), model) as (server, _):
        yield server, model


@pytest.fixture
def model(serving: tuple[WholeServer, Reader]) -> Reader:
    serving[1].jobs.clear()
    return serving[1]


@pytest.fixture
def server(serving: tuple[WholeServer, Reader], model: Reader) -> WholeServer:
    return serving[0]


def sounds(data: bytes) -> list[tuple[float, float]]:
    """Return where each sound begins and how long it is, in seconds."""
    samples, _ = soundfile.read(io.BytesIO(data))
    heard = np.flatnonzero(np.abs(samples) > 1e-3)
    cuts = np.flatnonzero(np.diff(heard) > 240)
    starts = [heard[0], *heard[cuts + 1]]
    ends = [*heard[cuts], heard[-1]]
    return [(a / SAMPLE_RATE, (b - a) / SAMPLE_RATE) for a, b in zip(starts, ends, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("late", "places"),
    [
        ("shift", [(1.0, 2.2), (4.0, 3.0)]),
        ("overlap", [(1.0, 2.2), (4.0, 2.7)]),
        ("cut", [(1.0, 2.2), (4.0, 0.6), (4.7, 2.0)]),
    ],
)
def test_cues_have_their_times(
    late: str, places: list[tuple[float, float]], server: WholeServer, model: Reader
) -> None:
    told, data = spoken(server, FILM, format="srt", fit=True, late=late)
    found = sounds(data)
    assert [pytest.approx(each, abs=0.02) for each in places] == found
    assert sorted(job.duration or 0.0 for job in model.jobs) == pytest.approx([0.6, 2.0, 2.2])
    assert all(job.may_be_late for job in model.jobs)
    assert "it takes 1.00 s where it is shortest" in told["warnings"][0]


def test_without_fit_cues_have_no_durations(server: WholeServer, model: Reader) -> None:
    spoken(server, FILM, format="srt")
    assert {job.duration for job in model.jobs} == {None}


def test_a_strange_voice_is_spoken_again(server: WholeServer, model: Reader) -> None:
    model.strange = {LINES[2]: 2, LINES[5]: 99}
    told, data = spoken(server, BOOK, steady="retry", seed=4)
    jobs = [job for job in model.jobs if job.text == LINES[2]]
    # One of them may have been a sound of the reference.
    assert 2 <= len(jobs) <= 4
    seeds = {job.seed for job in model.jobs if job.text == LINES[5]}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**63 for seed in seeds)
    sampled = [job for job in model.jobs if "spk_smp" in job.voice]
    assert {job.text for job in sampled} == {LINES[5]}
    assert all("spk_emb" in job.voice and job.voice["txt_smp"] in LINES for job in sampled)
    assert "the voice is not the usual one" in told["warnings"][0]
    assert all(LINES[5] in warning for warning in told["warnings"])
    model.strange = {LINES[2]: 2, LINES[5]: 99}
    assert spoken(server, BOOK, steady="retry", seed=4)[1] == data


@pytest.mark.slow
def test_a_sample_that_no_replica_makes_now_is_an_error(
    server: WholeServer, model: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an equal seed would give other speech."""

    def lost(*_: Any) -> str:
        raise UnavailableError("no replica answered")

    monkeypatch.setattr(model, "encode_sample", lost)
    told = settled(server, post(server, BOOK, steady="retry", seed=5).json()["id"])
    assert told["state"] == "failed"
    assert "no replica answered" in told["error"]["message"]


def test_a_report_speaks_nothing_again(server: WholeServer, model: Reader) -> None:
    model.strange = {LINES[5]: 99}
    told, _ = spoken(server, BOOK, steady="report")
    assert "the voice is not the usual one" in told["warnings"][0]
    assert {job.seed for job in model.jobs} == {0}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"late": "never"}, "late"),
        ({"steady": "always"}, "steady"),
        ({"fit": "perhaps"}, "fit"),
    ],
)
def test_wrong_options_are_told(fields: dict[str, Any], message: str, server: WholeServer) -> None:
    answer = post(server, "Hello.", **fields)
    assert answer.status_code in (400, 422)
    assert message in answer.text


def test_a_film_in_a_form_is_fitted(server: WholeServer, model: Reader) -> None:
    answer = httpx.post(
        f"{server.url}{SCRIPTS}",
        files={"file": ("film.srt", FILM.encode())},
        data={"fit": "true", "late": "cut", "response_format": "wav", "loudness": "off"},
        timeout=PATIENCE,
    )
    assert answer.status_code == 202, answer.text
    told = settled(server, answer.json()["id"])
    assert told["state"] == "done", told
    assert sorted(job.duration or 0.0 for job in model.jobs) == pytest.approx([0.6, 2.0, 2.2])
