"""Threads at the interpreter's end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ..support.places import ROOT

# Nothing but its own thread knows the model that is freed there, as when a caller drops a chat and
# the program ends at once.
DROPPED = """
import threading, time
from ChatTTS.utils.process_hooks import start_thread

class Model:
    def __del__(self):
        begun.set()
        time.sleep(0.3)
        print("freed", flush=True)

    def run(self):
        go_on.wait()

begun, go_on = threading.Event(), threading.Event()
model = Model()
start_thread(threading.Thread(target=model.run, daemon=True))
del model
go_on.set()
begun.wait()
"""


@pytest.mark.slow
def test_a_thread_frees_what_was_dropped_before_the_interpreter_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DROPPED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("freed\n", "")
