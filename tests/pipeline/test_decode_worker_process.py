"""The decoding thread in forked children."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..support.places import ROOT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("forks_in", [pytest.param("turn", marks=pytest.mark.slow), "lock"])
def test_fork(forks_in: str) -> None:
    code = """
import os, sys
from ChatTTS.utils.fair_lock import NoTurns
from ChatTTS.pipeline.decode_worker import Vocoding
from tests.support.vocoding_fakes import FakeOwner, FakeSynthesizer, FakeTrack, threads, wait_until
vocoding, synthesizer, owner = Vocoding(NoTurns()), FakeSynthesizer(), FakeOwner()
vocoding.own(owner)
track = FakeTrack(synthesizer).push(100)
synthesizer.gate.hold()
vocoding.add(track)
synthesizer.gate.wait()
if sys.argv[1] == "lock":
    vocoding.lock.acquire()
child = os.fork()
if child == 0:
    assert owner.told == 1
    own = FakeSynthesizer()
    again = FakeTrack(own).push(100)
    vocoding.add(again)
    again.check()
    assert not track.pieces
    wait_until(lambda: not threads())
    print("the child is done", flush=True)
    os._exit(0)
if sys.argv[1] == "lock":
    vocoding.lock.release()
assert os.waitpid(child, 0)[1] == 0
synthesizer.gate.open()
track.check()
assert owner.told == 0
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
