"""The life of a script on the server: clients, limits, cancelling, restarts."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from ChatTTS.errors import EngineDeadError, TextError
from ChatTTS.serving.scripts.job import ScriptJob
from ChatTTS.serving.scripts.store import JobStore
from ChatTTS.serving.settings import Limits

from ...support.script_tools import (
    SCRIPTS,
    ToneModel,
    authorization,
    delete,
    get,
    post,
    settled,
    spoken,
    tone_server,
)
from ...support.serving_tools import PATIENCE, eventually

# ---------------------------------------------------------------- clients and limits


def test_clients_see_their_own_scripts_only(tmp_path: Path) -> None:
    with tone_server(tmp_path, api_keys=("a", "b")) as (server, _):
        name = post(server, "Hello.", key="a").json()["id"]
        assert [j["id"] for j in get(server, "", key="a").json()["data"]] == [name]
        assert get(server, "", key="b").json()["data"] == []
        for path in ("", "/audio", "/subtitles", "/events"):
            assert get(server, f"/{name}{path}", key="b").status_code == 404
            assert get(server, f"/{name}{path}").status_code == 401
        assert delete(server, name, key="b").status_code == 404
        assert get(server, f"/{name}", key="a").status_code == 200


@pytest.mark.slow
def test_names_of_scripts_are_no_paths(tmp_path: Path) -> None:
    with tone_server(tmp_path) as (server, _):
        for name in ("lock", "..", "%2e%2e%2flock", "script-" + "0" * 24, "a" * 5000):
            for path in ("", "/audio", "/events"):
                assert get(server, f"/{name}{path}").status_code in (404, 405)
            assert delete(server, name).status_code in (404, 405)


def test_scripts_are_limited(tmp_path: Path) -> None:
    limits = replace(Limits(), scripts=3, scripts_per_client=2, scripts_running=1)
    with tone_server(tmp_path, api_keys=("a", "b", "c"), limits=limits) as (server, model):
        model.may_go_on.clear()
        first = post(server, "One.", key="a").json()["id"]
        second = post(server, "Two.", key="a").json()["id"]
        own = post(server, "Three.", key="a")
        assert (own.status_code, own.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        other = post(server, "Three.", key="b").json()["id"]
        full = post(server, "Four.", key="c")
        assert (full.status_code, full.json()["error"]["code"]) == (503, "server_overloaded")
        # Clients take turns: the one whose script is not running is next.
        told = [get(server, f"/{n}", key="a").json() for n in (first, second)]
        assert [each["state"] for each in told] == ["running", "queued"]
        assert told[1]["progress"] == {"lines": 0, "lines_total": 1, "seconds": 0}
        delete(server, first, key="a")
        assert eventually(lambda: len(model.said) == 2)
        states = [get(server, f"/{second}", key="a").json()["state"]]
        states += [get(server, f"/{other}", key="b").json()["state"]]
        assert sorted(states) == ["queued", "running"]
        model.may_go_on.set()


@pytest.mark.slow
def test_scripts_leave_places_to_other_requests(tmp_path: Path) -> None:
    limits = replace(Limits(), running=4, script_lines=8)
    with tone_server(tmp_path, limits=limits) as (server, model):
        model.may_go_on.clear()
        text = "\n\n".join(f"Line {n}." for n in range(20))
        names = [post(server, text).json()["id"] for _ in range(2)]
        assert eventually(lambda: server.service.admission.running == 2)
        time.sleep(0.05)  # for lines that should not begin
        snapshot = server.call(server.service.admission.snapshot)
        assert (snapshot.running, snapshot.waiting) == (2, 0)
        model.may_go_on.set()
        assert [settled(server, name)["state"] for name in names] == ["done"] * 2
        assert model.most == 2


@pytest.mark.slow
def test_a_script_waits_where_the_queue_is_full(tmp_path: Path) -> None:
    limits = replace(Limits(), running=1, waiting=1, waiting_per_client=1, wait_seconds=0.3)
    with tone_server(tmp_path, limits=limits) as (server, model):
        model.may_go_on.clear()
        body = {"input": "Wait.", "response_format": "wav"}
        speech = f"{server.url}/v1/audio/speech"
        client = threading.Thread(target=lambda: httpx.post(speech, json=body, timeout=PATIENCE))
        client.start()
        assert eventually(lambda: server.service.admission.running == 1)
        name = post(server, "Hello there.").json()["id"]
        time.sleep(0.7)  # longer than a request may wait
        model.may_go_on.set()
        client.join(PATIENCE)
        assert settled(server, name)["state"] == "done"


def test_room_on_the_disk_is_limited(tmp_path: Path) -> None:
    limits = replace(Limits(), script_disk_bytes=2_000_000)
    with tone_server(tmp_path, limits=limits) as (server, model):
        large = post(server, "A sentence of some words. " * 20)
        assert (large.status_code, large.json()["error"]["code"]) == (413, "request_too_large")
        model.may_go_on.clear()
        text = "A sentence of some words. " * 4
        assert post(server, text).status_code == 202
        full = post(server, text)
        assert full.status_code == 503
        assert "space" in full.json()["error"]["message"]
        model.may_go_on.set()


def test_a_script_that_takes_more_than_was_thought_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tone_server(tmp_path) as (server, model):
        model.may_go_on.clear()
        name = post(server, "Hello there.").json()["id"]
        assert eventually(lambda: len(model.said) == 1)
        monkeypatch.setattr(JobStore, "free", 100)
        model.may_go_on.set()
        told = settled(server, name)
    assert (told["state"], told["error"]["code"]) == ("failed", "storage_failed")
    assert "no more room" in told["error"]["message"]


def test_streams_of_progress_are_limited(tmp_path: Path) -> None:
    limits = replace(Limits(), script_watchers=1)
    with tone_server(tmp_path, limits=limits) as (server, model):
        model.may_go_on.clear()
        name = post(server, "Hello.").json()["id"]
        address = f"{server.url}{SCRIPTS}/{name}/events"
        with httpx.stream("GET", address, timeout=PATIENCE) as stream:
            lines = stream.iter_lines()
            next(lines)
            assert get(server, f"/{name}/events").status_code == 429
            delete(server, name)


# ---------------------------------------------------------------- cancelling and forgetting


@pytest.mark.slow
def test_a_stream_of_progress_says_that_the_server_ends(tmp_path: Path) -> None:
    kinds: list[str] = []

    def watch(url: str) -> None:
        with httpx.stream("GET", url, timeout=PATIENCE) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    kinds.append(json.loads(line.removeprefix("data: "))["type"])

    with tone_server(tmp_path) as (server, model):
        model.may_go_on.clear()
        name = post(server, "Hello.").json()["id"]
        watching = threading.Thread(target=watch, args=(f"{server.url}{SCRIPTS}/{name}/events",))
        watching.start()
        assert eventually(lambda: bool(kinds))
    watching.join(PATIENCE)
    assert kinds[0] == "script.progress"
    assert kinds[-1] == "script.suspended"


def folders(root: Path) -> list[str]:
    return [path.name for path in (root / "scripts").iterdir() if path.is_dir()]


@pytest.mark.slow
def test_a_script_is_deleted_in_any_state(tmp_path: Path) -> None:
    limits = replace(Limits(), scripts_running=1)
    with tone_server(tmp_path, limits=limits) as (server, model):
        model.may_go_on.clear()
        running, queued = (post(server, f"{n}.\n\nTwo.").json()["id"] for n in ("One", "Other"))
        assert eventually(lambda: len(model.said) == 2)
        answer = delete(server, queued)
        assert answer.json() == {"id": queued, "object": "audio.script.deleted", "deleted": True}
        assert folders(tmp_path) == [running]
        address = f"{server.url}{SCRIPTS}/{running}/events"
        with httpx.stream("GET", address, timeout=PATIENCE) as stream:
            lines = stream.iter_lines()
            next(lines)
            delete(server, running)
            assert '"script.deleted"' in "".join(lines)
        assert get(server, f"/{running}").status_code == 404
        assert delete(server, running).status_code == 404
        assert eventually(lambda: folders(tmp_path) == [])
        assert eventually(lambda: server.service.admission.running == 0)
        assert "Other." not in model.said
        model.may_go_on.set()
        done, _ = spoken(server, "Done.")
        delete(server, done["id"])
        assert folders(tmp_path) == []


@pytest.mark.slow
def test_old_results_are_deleted(tmp_path: Path) -> None:
    limits = replace(Limits(), script_age_seconds=0.3)
    with tone_server(tmp_path, limits=limits) as (server, _):
        name = post(server, "Hello.").json()["id"]
        assert eventually(lambda: get(server, f"/{name}").status_code == 404)
        assert eventually(lambda: folders(tmp_path) == [])


@pytest.mark.parametrize(("first", "second"), [(-1.7e9, 0.0), (0.0, 1.7e9)])
@pytest.mark.slow
def test_a_clock_that_jumps_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: float, second: float
) -> None:
    """A machine may believe that it is 1970 until it has asked for the time."""
    limits, now = replace(Limits(), script_age_seconds=60), time.time
    for jump in (first, second):
        monkeypatch.setattr(time, "time", lambda jump=jump: now() + jump)
        with tone_server(tmp_path, limits=limits) as (server, _):
            if jump == first:
                done = settled(server, post(server, "Hello.").json()["id"])["id"]
            time.sleep(0.3)  # the sweep begins with the server
            assert get(server, f"/{done}").status_code == 200


@pytest.mark.parametrize(
    ("kept", "least"), [("1e6", 1e6), ("-1e6", 0), ("inf", 0), ("nan", 0), ("", 0)]
)
def test_the_uptime_goes_on_where_it_was_kept(tmp_path: Path, kept: str, least: float) -> None:
    (tmp_path / "uptime").write_text(kept)
    store = JobStore(tmp_path, 1)
    assert store.load() == []
    assert least <= store.uptime < least + 1e5
    store.close()


@pytest.mark.slow
def test_the_age_of_results_counts_over_restarts(tmp_path: Path) -> None:
    with tone_server(tmp_path) as (server, _):
        done = settled(server, post(server, "Hello.").json()["id"])["id"]
    (kept,) = tmp_path.glob("**/uptime")
    kept.write_text("1e6")
    with tone_server(tmp_path, limits=replace(Limits(), script_age_seconds=1e5)) as (server, _):
        assert eventually(lambda: get(server, f"/{done}").status_code == 404)
    kept.write_text("nonsense")  # then it begins anew, and nothing is too old
    with tone_server(tmp_path, limits=replace(Limits(), script_age_seconds=60)) as (server, _):
        again = settled(server, post(server, "Hello.").json()["id"])
        assert get(server, f"/{again['id']}").status_code == 200


# ---------------------------------------------------------------- restarts


TEXT = "\n\n".join(f"This is line {n} of a book." for n in range(12))


@pytest.mark.slow
def test_a_stopped_server_leaves_its_scripts_to_the_next_one(tmp_path: Path) -> None:
    with tone_server(tmp_path / "undisturbed") as (server, _):
        whole = spoken(server, TEXT, voice="alloy")[1]
    model = ToneModel()
    with tone_server(tmp_path, model) as (server, _):
        model.may_go_on.clear()
        running = post(server, TEXT, voice="alloy").json()["id"]
        queued = post(server, "Later.").json()["id"]
        assert eventually(lambda: len(model.said) >= 8)
        model.may_go_on.set()
        lines = tmp_path / "scripts" / running / "lines"
        assert eventually(lambda: len(list(lines.glob("*.line"))) >= 2)
    said = set(model.said)
    with tone_server(tmp_path) as (server, model):
        assert [job["id"] for job in get(server, "").json()["data"]] == [running, queued]
        assert settled(server, running)["state"] == "done"
        assert get(server, f"/{running}/audio").content == whole
        assert settled(server, queued)["state"] == "done"
        assert len(said) == 13 or len(said & set(model.said)) < 12  # kept lines are not said again
    # What is done stays, without being spoken again.
    with tone_server(tmp_path) as (server, model):
        told = get(server, f"/{running}").json()
        assert (told["state"], told["progress"]["lines"]) == ("done", 12)
        assert get(server, f"/{running}/audio").content == whole
        assert model.said == []


@pytest.mark.slow
def test_a_script_keeps_the_voices_that_it_was_accepted_with(tmp_path: Path) -> None:
    with tone_server(tmp_path) as (server, model):
        speaker = server.service.voices.parameters("echo")["spk_emb"]
        voice = {"name": "own", "speaker": speaker, "consent": "Yes, by letter."}
        assert httpx.post(f"{server.url}/v1/audio/voices", data=voice).status_code == 200
        model.may_go_on.clear()
        name = post(server, "Hello there.", voice="own").json()["id"]
        assert eventually(lambda: len(model.said) == 1)
        httpx.delete(f"{server.url}/v1/audio/voices/own")
    with tone_server(tmp_path) as (server, model):
        assert settled(server, name)["state"] == "done"
        assert [job.voice for job in model.jobs] == [{"spk_emb": speaker}]


@pytest.mark.slow
def test_a_script_that_ends_every_server_is_given_up(tmp_path: Path) -> None:
    with tone_server(tmp_path) as (server, model):
        model.may_go_on.clear()
        name = post(server, "Hello there.").json()["id"]
        assert eventually(lambda: len(model.said) == 1)
    record = tmp_path / "scripts" / name / "job.json"
    job = ScriptJob.from_json(record.read_text())
    assert job.starts == 0  # it was not the script that ended this server
    job.starts = 10
    record.write_text(job.to_json())
    with tone_server(tmp_path) as (server, model):
        told = settled(server, name)
        assert told["state"] == "failed"
        assert "the server stopped 10 times" in told["error"]["message"]
        assert model.said == []


@pytest.mark.slow
def test_a_dead_engine_leaves_the_script_to_the_next_server(tmp_path: Path) -> None:
    with tone_server(tmp_path) as (server, model):
        model.fails["Hello there."] = EngineDeadError("it is over")
        name = post(server, "Hello there.").json()["id"]
        assert eventually(lambda: server.service.state == "failed")
        assert eventually(lambda: get(server, f"/{name}").json()["state"] == "queued")
        assert post(server, "More.").status_code == 503
    with tone_server(tmp_path) as (server, _):
        assert settled(server, name)["state"] == "done"


@pytest.mark.slow
def test_a_script_takes_the_lines_of_a_failed_one_of_its_client(tmp_path: Path) -> None:
    text = "One.\n\nTwo.\n\nThree."
    everything = ["One.", "Three.", "Two."]
    with tone_server(tmp_path, api_keys=("anna", "bob")) as (server, model):

        def state_of(name: str, key: str) -> str:
            return str(get(server, f"/{name}", key).json()["state"])

        def said(script: str, key: str, **fields: Any) -> tuple[str, list[str]]:
            """Return how a script ended, and what was spoken for it."""
            model.jobs.clear()
            name = post(server, script, key, **fields).json()["id"]
            assert eventually(lambda: state_of(name, key) in ("done", "failed"))
            return state_of(name, key), sorted(model.said)

        model.fails["Two."] = TextError("this text is too long for the model")
        assert said(text, "anna") == ("failed", everything)
        model.fails.clear()
        # What another client, or another setting, would have to speak is not hers.
        assert said(text, "bob") == ("done", everything)
        assert said(text, "anna", seed=8) == ("done", everything)
        assert said(text, "anna", voice="echo") == ("done", everything)
        assert said("Three.\n\nFour.", "anna", loudness=-19) == ("done", ["Four."])
        assert said(text, "anna") == ("done", ["Three.", "Two."])
        assert said(text, "anna") == ("done", everything)  # a line is kept by one script
        assert eventually(lambda: stored(tmp_path, ".line") == [])
        store = server.scripts._store
        assert store is not None
        # The two lines that moved are not counted twice; of each some kB are estimated.
        left = store.used - sum(path.stat().st_size for path in stored(tmp_path, ""))
        assert 0 <= left <= 2 * 2048


def stored(folder: Path, ending: str) -> list[Path]:
    """Return the files of all scripts whose names have this ending."""
    found = (folder / "scripts").glob("script-*/**/*")
    return [path for path in found if path.is_file() and path.name.endswith(ending)]


@pytest.mark.slow
def test_what_is_damaged_or_half_deleted_does_not_stop_a_server(tmp_path: Path) -> None:
    with tone_server(tmp_path) as (server, _):
        kept, damaged, half = (spoken(server, f"{n}.")[0]["id"] for n in ("A", "B", "C"))
    (tmp_path / "scripts" / damaged / "job.json").write_text('{"version": 1}')
    (tmp_path / "scripts" / half / "job.json").unlink()
    (tmp_path / "scripts" / "other").mkdir()
    with tone_server(tmp_path) as (server, _):
        assert [job["id"] for job in get(server, "").json()["data"]] == [kept]
    assert sorted(folders(tmp_path)) == sorted([kept, damaged, "other"])


def test_one_server_at_a_time_keeps_scripts(tmp_path: Path) -> None:
    with tone_server(tmp_path) as (server, _):
        with pytest.raises(Exception, match="another server"), tone_server(tmp_path):
            pass
        assert post(server, "Hello.").status_code == 202


@pytest.mark.slow
def test_forms_with_keys(tmp_path: Path) -> None:
    with tone_server(tmp_path, api_keys=("a",)) as (server, _):
        files = {"file": ("a.txt", b"Hello.")}
        address = server.url + SCRIPTS
        assert httpx.post(address, files=files).status_code == 401
        answer = httpx.post(address, files=files, headers=authorization("a"), timeout=PATIENCE)
        assert answer.status_code == 202
