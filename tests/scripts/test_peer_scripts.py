"""The runner of the published repository's scripts, on scripts that the tests write."""

from pathlib import Path

import pytest

from .peer_scripts import Result, Script, others, run

SCRIPTS = {
    "speaks.py": """
import os, sys
sys.path.append(os.getcwd())
import ChatTTS
from tools import word
import numba, pyaudio
chat = ChatTTS.Chat()
assert chat.load(compile=False, source="huggingface")
open(word, "w").write(str(len(chat.infer("", stream=True).rows)))
""",
    "fails.py": "raise ValueError('of no use')",
    "calls.py": "import socket; socket.create_connection(('192.0.2.1', 80), 1)",
    "ends.py": "raise SystemExit('as there')",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("word = 'said.txt'")
    for name, text in SCRIPTS.items():
        (tmp_path / "tests" / name).write_text(text)
    return tmp_path


@pytest.mark.slow
def test_a_script_speaks_with_the_bundled_voice(checkout: Path) -> None:
    script = Script("tests/speaks.py", makes="said.*")
    assert run(script, checkout) == Result("tests/speaks.py", "passed")
    assert (checkout / "said.txt").read_text() == "0"


@pytest.mark.slow
def test_how_scripts_end(checkout: Path) -> None:
    assert run(Script("tests/fails.py"), checkout).reason == "ValueError: of no use"
    assert "tried to connect" in run(Script("tests/calls.py"), checkout).reason
    known = Script("tests/ends.py", ends=(("as there", "known"),))
    assert run(known, checkout) == Result("tests/ends.py", "runs", "known")
    missing = run(Script("tests/ends.py", makes="*.mp3"), checkout)
    assert (missing.status, missing.reason) == ("failed", "no *.mp3: as there")
    assert "never said hello" in run(Script("tests/ends.py", says="hello"), checkout).reason


def test_all_tests_of_the_checkout_are_found(checkout: Path) -> None:
    assert {script.path for script in others(checkout)} == {f"tests/{name}" for name in SCRIPTS}
