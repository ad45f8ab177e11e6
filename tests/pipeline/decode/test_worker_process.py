"""The decoding thread in forked children."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ...support.places import ROOT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("forks_in", ["turn", "lock"])
@pytest.mark.slow
def test_fork(forks_in: str) -> None:
    code = """
import os, sys
from ChatTTS.utils.fair_lock import NoLock
from ChatTTS.pipeline.decode.worker import DecodeWorker
from tests.support.decode_fakes import FakeClient, FakeSynthesizer, FakeJob, threads
from tests.support.waiting import wait_until
worker, synthesizer, client = DecodeWorker(NoLock()), FakeSynthesizer(), FakeClient()
worker.register(client)
job = FakeJob(synthesizer).push(100)
synthesizer.gate.hold()
worker.add(job)
synthesizer.gate.wait()
if sys.argv[1] == "lock":
    worker.lock.acquire()
child = os.fork()
if child == 0:
    assert client.forks == 1
    own = FakeSynthesizer()
    again = FakeJob(own).push(100)
    worker.add(again)
    again.check()
    assert not job.pieces
    wait_until(lambda: not threads())
    print("the child is done", flush=True)
    os._exit(0)
if sys.argv[1] == "lock":
    worker.lock.release()
assert os.waitpid(child, 0)[1] == 0
synthesizer.gate.open()
job.check()
assert client.forks == 0
print("the parent is done")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, forks_in],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "the child is done\nthe parent is done\n"
