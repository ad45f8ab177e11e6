"""The soak of a server: its arithmetic, its report, the road of its clients, and one short run."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.serving.soak import report as reports
from benchmarks.serving.soak.load import WAYS, catalogue
from benchmarks.serving.soak.plot import draw
from benchmarks.serving.soak.report import FAULTY, TOO_SHORT, WELL, End
from benchmarks.serving.soak.requests import UnansweredError
from benchmarks.serving.soak.road import Conduct, Road
from benchmarks.serving.soak.samples import Sample, busy
from benchmarks.serving.soak.slope import Slope, slope_of, warm_up_seconds
from benchmarks.serving.soak.tally import Fault, Tally, difference
from benchmarks.serving.soak.watch import Holding, descendants, files_in, holding, is_there

from ..support.places import ROOT

HELD = Holding(rss=700.0, pss=600.0, uss=500.0, files=20, threads=18)
REST = {"chattts_running": 0.0, "chattts_connections": 1.0, "chattts_engines": 1.0}
GROWS = Slope(9.0, 1.0, 3.169, 180)
LEVEL = Slope(0.5, 1.0, 3.169, 180)


def sample(at: float = 0.0, held: Holding = HELD, **gauges: float) -> Sample:
    return Sample(at, {"plain": held}, {"plain": {**REST, **gauges}}, {"plain": 0})


def fault(kind: str = "failed", began: float = 10.0, ended: float = 12.0) -> Fault:
    return Fault(kind, "plain", "REST: voice edith, seed 1, 'Hi.'", "stay", "why", began, ended)


def wandering(seed: int, count: int = 180) -> np.ndarray[Any, Any]:
    """Return values that depend on those before them, around zero."""
    rng = np.random.default_rng(seed)
    values = [0.0]
    for step in rng.normal(size=count - 1):
        values.append(0.9 * values[-1] + step)
    return np.array(values)


@pytest.mark.smoke
def test_a_line_has_its_slope_and_no_error() -> None:
    hours = np.linspace(1.0, 3.0, 100)
    found = slope_of(hours, 700 + 5 * hours)
    assert found is not None
    assert found.per_hour == pytest.approx(5.0)
    assert found.error == pytest.approx(0.0, abs=1e-9)
    assert found.verdict == "grows"
    falls = slope_of(hours, 700 - 5 * hours)
    assert falls is not None
    assert falls.verdict == "falls"


@pytest.mark.smoke
def test_memory_that_wanders_does_not_grow_and_a_leak_does() -> None:
    hours = np.arange(180) / 120
    verdicts = {"zero": 0, "leak": 0}
    for seed in range(60):
        level, leak = (
            slope_of(hours, wandering(seed)),
            slope_of(hours, wandering(seed) + 20 * hours),
        )
        assert level is not None
        assert leak is not None
        verdicts["zero"] += level.verdict == "zero within error"
        verdicts["leak"] += leak.verdict == "grows"
    assert verdicts["zero"] >= 55  # the error of single values would find a slope in half of them
    assert verdicts["leak"] == 60


@pytest.mark.smoke
def test_few_samples_tell_no_slope() -> None:
    assert slope_of([], []) is None
    assert slope_of([0.1] * 30, [700.0] * 30) is None
    assert slope_of(list(range(23)), [700.0] * 23) is None
    # All but one of them in one block.
    assert slope_of([0.0, *[100 + n / 100 for n in range(40)]], [1.0] * 41) is None
    assert slope_of(list(range(24)), [700.0] * 24) is not None


@pytest.mark.smoke
def test_the_warm_up_is_a_quarter_and_at_least_minutes() -> None:
    assert warm_up_seconds(7200, 600) == 1800
    assert warm_up_seconds(300, 600) == 600


@pytest.mark.smoke
def test_a_gap_excuses_what_failed_in_it_and_no_other_byte() -> None:
    tally = Tally(gaps=[(100.0, 200.0)])
    for each in (
        fault(began=10, ended=99),  # before
        fault(began=90, ended=205),
        fault(began=230, ended=240),  # a minute is granted
        fault(began=261, ended=270),
        fault("different", began=90, ended=205),
    ):
        tally.fault("REST", each)
    tally.count("plain", "REST", "whole")
    told = tally.told()
    assert (told["faults"], told["faults_in_gaps"], told["different"]) == (3, 2, 1)
    assert told["requests"] == 6
    assert told["by_way"] == {"REST": {"different": 1, "failed": 4, "whole": 1}}
    assert tally.stood_still == 100.0


@pytest.mark.smoke
def test_answers_that_end_early_are_compared_as_far_as_they_go() -> None:
    assert difference(b"abcd", b"abcd", is_whole=True) is None
    assert difference(b"abcd", b"ab", is_whole=False) is None
    assert difference(b"abcd", b"", is_whole=False) is None
    assert "byte 2 " in str(difference(b"abcd", b"ab", is_whole=True))
    assert "byte 1 " in str(difference(b"abcd", b"ax", is_whole=False))
    assert "byte 4 " in str(difference(b"abcd", b"abcde", is_whole=False))


@pytest.mark.smoke
def test_refusals_are_no_faults() -> None:
    assert UnansweredError("", 429).is_refusal
    assert UnansweredError('{"code": "server_overloaded"}', 503).is_refusal
    assert UnansweredError("StatusCode.RESOURCE_EXHAUSTED: many wait").is_refusal
    assert not UnansweredError('{"code": "engine_unavailable"}', 503).is_refusal
    assert not UnansweredError("invalid_request", 400).is_refusal


@pytest.mark.smoke
def test_the_verdict_names_what_is_not_well() -> None:
    told = Tally().told()
    level: Any = {"plain": {"rss": LEVEL, "uss": GROWS}}
    well = {"plain": End(0, [], [])}
    assert reports.verdict(told, level, [], well) == (WELL, [])
    for other, word in (
        (({**told, "different": 2, "faults": 2}, level, [], well), "2 answers differ"),
        (({**told, "faults": 1}, level, [], well), "1 requests failed"),
        ((told, {"plain": {"rss": GROWS, "uss": None}}, [], well), "RSS grows by +9.0 MB/h"),
        ((told, level, ["plain: 3 connections"], well), "3 connections"),
        ((told, level, None, well), "not known"),
        ((told, level, [], {"plain": End(70, [], [])}), "exit status 70"),
        ((told, level, [], {"plain": End(0, ["t/a.wav"], [])}), "left t/a.wav"),
        ((told, level, [], {"plain": End(0, [], ["Traceback"])}), "1 errors"),
    ):
        status, problems = reports.verdict(*other)
        assert status == FAULTY
        assert word in " ".join(problems)
    assert reports.verdict(told, {"plain": {"rss": None, "uss": None}}, [], well)[0] == TOO_SHORT
    assert reports.verdict(told, {}, [], well)[0] == TOO_SHORT
    # This program's own memory is told, and not judged.
    own: Any = {**level, "this program": {"rss": GROWS, "uss": GROWS}}
    assert reports.verdict(told, own, [], well) == (WELL, [])


@pytest.mark.smoke
def test_what_stays_open_is_found() -> None:
    assert reports.still_open(sample(), None, sample()) == []
    assert reports.still_open(sample(), None, sample(chattts_kv_blocks_used=3.0)) == [
        "plain: chattts_kv_blocks_used is 3"
    ]
    assert "2 connections" in str(
        reports.still_open(sample(), None, sample(chattts_connections=2.0))
    )
    assert "40 open files" in str(
        reports.still_open(sample(), None, sample(held=replace(HELD, files=40)))
    )
    threads = sample(held=replace(HELD, threads=60))
    assert "60 threads" in str(reports.still_open(sample(), None, threads))
    filled = sample(held=replace(HELD, threads=55))
    assert reports.still_open(sample(), filled, threads) == []
    assert "60 threads" in str(reports.still_open(sample(), sample(), threads))
    left = replace(sample(), temporary={"plain": 1})
    assert "1 temporary files" in str(reports.still_open(sample(), None, left))
    silent = replace(sample(), gauges={"plain": {}})
    assert "no metrics" in str(reports.still_open(sample(), None, silent))
    assert busy(REST) == {}


def made_report() -> dict[str, Any]:
    tally = Tally(gaps=[(5.0, 25.0)])
    tally.fault("REST", fault("different"))
    tally.count("plain", "MCP", "whole")
    samples = [sample(30.0 * n, replace(HELD, rss=700 + n % 2)) for n in range(60)]
    memory = reports.slopes(samples, warm_up=600)
    found = memory["plain"]["rss"]
    assert found is not None
    assert found.values == 40
    told = tally.told()
    status, problems = reports.verdict(told, memory, [], {})
    return {
        "command": "python -m benchmarks.serving.soak",
        "machine": {"cpu": "a processor", "cores": 2, "system": "a system"},
        "seconds": 1800.0,
        "warm_up": 600.0,
        "rate": 0.4,
        "highest_rate": 1.0,
        "status": status,
        "problems": problems,
        "memory": reports.memory_told(memory),
        "requests": told,
        "begin": samples[0].told(),
        "end": samples[-1].told(),
        "samples": [each.told() for each in samples],
    }


@pytest.mark.smoke
def test_the_report_is_written_whole_and_told(tmp_path: Path) -> None:
    report, file = made_report(), tmp_path / "soak.json"
    file.write_text("an older one")
    reports.write(report, file)
    assert json.loads(file.read_text())["status"] == FAULTY
    assert [each.name for each in tmp_path.iterdir()] == ["soak.json"]
    told = reports.markdown(report)
    assert "# Soak of 0.50 hours" in told
    assert "| plain | " in told
    assert "zero within error" in told
    assert "| MCP | 0 | 1 |" in told
    assert "seed 1, 'Hi.'" in told  # so that the request can be repeated
    assert "stood still 1 times, 20 s" in told


@pytest.mark.smoke
def test_the_report_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(made_report(), tmp_path / "soak.png")
    assert (tmp_path / "soak.png").stat().st_size > 1000


@pytest.mark.smoke
def test_processes_beside_a_server_are_told_together() -> None:
    held = {"front": HELD, "replica 7": HELD, "beside front 8": HELD, "beside front 9": HELD}
    told = Sample(0.0, held, {}, {}).told()["processes"]
    assert sorted(told) == ["beside front", "front", "replica 7"]
    assert told["beside front"] == {"rss": 1400.0, "pss": 1200.0, "uss": 1000.0, "processes": 2}
    assert reports.slopes([Sample(0.0, held, {}, {})], 0.0).keys() == {"front"}


@pytest.mark.smoke
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_tells_what_it_holds(tmp_path: Path) -> None:
    before = holding(os.getpid())
    with (tmp_path / "a").open("w"):
        during = holding(os.getpid())
    assert before is not None
    assert during is not None
    assert during.files == before.files + 1
    assert during.rss >= during.pss > 0
    assert files_in(tmp_path) == ["a"]
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.pid in descendants(os.getpid())
    child.communicate(b"\n")
    assert not is_there(child.pid)
    assert holding(child.pid) is None


@pytest.mark.smoke
def test_every_way_has_its_requests_and_seeds_repeat_them() -> None:
    found = catalogue(list(WAYS), 2 * len(WAYS), ["edith", "clara"], seed=1)
    assert {request.way for request in found} == set(WAYS)
    assert found == catalogue(list(WAYS), 2 * len(WAYS), ["edith", "clara"], seed=1)
    assert len(set(found)) == len(found)
    assert {"REST, script", "WebSocket", "Cartesia, WebSocket"} <= set(WAYS)


async def _travelled(conduct: Conduct) -> tuple[bytes, bytes | None]:
    """Send ``hello`` on a road to a server that sends ``world`` and waits for the client's end.

    Returns:
        What the client got, and what the server got; ``None`` for a reset.
    """
    got: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"world")
        try:
            got.set_result(await reader.read())
        except ConnectionResetError:
            got.set_result(None)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Road(port, conduct) as road:
        reader, writer = await asyncio.open_connection("127.0.0.1", road.port)
        writer.write(b"hello")
        if not conduct.leaves:
            writer.write_eof()
        try:
            heard = await reader.read()
        except ConnectionResetError:
            heard = b"reset"
        writer.close()
        return heard, await got


@pytest.mark.smoke
def test_a_road_leads_there_is_cut_or_half_closed() -> None:
    assert asyncio.run(_travelled(Conduct())) == (b"world", b"hello")
    assert asyncio.run(_travelled(Conduct("half close", 0.05))) == (b"world", b"hello")
    _, at_server = asyncio.run(_travelled(Conduct("cut", 0.05)))
    assert at_server is None


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_short_soak_of_a_real_server_finds_nothing(tmp_path: Path) -> None:
    command = ["--hours", "0.008", "--calibration", "5", "--requests", "24", "--sample", "2"]
    command += ["--warm-up", "0.05", "--voices", "0.2", "--servers", "plain", "--plot"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.serving.soak", *command, "--report", tmp_path / "soak"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == TOO_SHORT, done.stdout + done.stderr
    report = json.loads((tmp_path / "soak.json").read_text())
    told = report["requests"]
    assert told["requests"] > 5
    assert (told["different"], told["faults"]) == (0, 0)
    assert told["events"]["blends saved, spoken with everywhere and deleted"] >= 2
    assert report["end"] is not None
    assert "# Soak of" in done.stdout
    assert (tmp_path / "soak.png").exists()
