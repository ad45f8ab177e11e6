"""The SDKs of other vendors, and voice agents, as their registry has them.

They are in an environment of their own, which `make test-clients` makes.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ...support.places import ROOT
from ...support.server_tools import WholeServer, whole_server
from ...support.serving_tools import PATIENCE
from ...support.tls_tools import make_certificate
from ...support.vendor_tools import TEXT, VOICE

PYTHON = ROOT / "build" / "clients" / "bin" / "python"
PROGRAMS = Path(__file__).parent / "programs"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="`make test-clients` installs the clients"),
]


@pytest.fixture(scope="module")
def plain() -> Iterator[WholeServer]:
    with whole_server() as running:
        yield running


@pytest.fixture(scope="module")
def long_plain() -> Iterator[WholeServer]:
    """A server whose sentences are long enough to be interrupted."""
    with whole_server(brief=False) as running:
        yield running


def run(program: str, *arguments: str, certificate: Path | None = None) -> dict[str, Any]:
    """Return the facts that a program prints."""
    environment = dict(os.environ)
    if certificate is not None:
        environment["SSL_CERT_FILE"] = str(certificate)
    done = subprocess.run(
        [str(PYTHON), "-W", "ignore", str(PROGRAMS / program), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def test_elevenlabs_sdk_with_tls(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    with whole_server(tls_certificate=certificate, tls_key=key) as server:
        url = f"https://localhost:{server.url.rpartition(':')[2]}"
        facts = run("elevenlabs_sdk.py", url, TEXT, certificate=certificate)
    assert len(set(facts["sounds"])) == 1
    assert facts["characters"] == TEXT
    assert facts["live_bytes"] > 0
    assert VOICE in facts["voices"]
    assert (facts["found"], facts["models"]) == (1, ["chattts"])
    assert (facts["user"], facts["refusal"]) == ("self-hosted", 404)


def test_deepgram_sdk(plain: WholeServer) -> None:
    facts = run("deepgram_sdk.py", plain.url, TEXT)
    assert len(set(facts["sounds"])) == 1
    assert facts["kinds"] == ["Metadata", "Flushed", "Cleared"]
    assert (facts["after"], facts["refusal"]) == (0, 400)


def test_cartesia_sdk(plain: WholeServer) -> None:
    facts = run("cartesia_sdk.py", plain.url, TEXT)
    assert len(set(facts["sounds"])) == 1
    assert facts["words"] == facts["live_words"] == TEXT.split()
    assert facts["live_bytes"] > 0
    assert len(set(facts["voices"])) == len(facts["voices"]) > 3  # more than a page has
    assert (facts["voice"], facts["refusal"]) == (VOICE, 400)


@pytest.mark.parametrize("vendor", ["elevenlabs", "deepgram", "cartesia"])
def test_livekit(plain: WholeServer, vendor: str) -> None:
    facts = run("livekit_plugins.py", vendor, plain.url, TEXT)
    assert facts["whole"] > 0.3
    assert facts["live"] > 0.3
    if vendor == "deepgram":  # tells no words
        return
    assert "".join(word for word, _, _ in facts["words"]).strip() == TEXT
    ends = [end for _, _, end in facts["words"]]
    assert ends == sorted(ends)
    assert ends[-1] <= facts["live"] + 0.01


@pytest.mark.parametrize("vendor", ["elevenlabs", "deepgram", "cartesia"])
def test_pipecat(plain: WholeServer, vendor: str) -> None:
    facts = run("pipecat_services.py", vendor, plain.url, TEXT)
    assert facts["errors"] == []
    assert facts["seconds"] > 0.3
    if vendor != "deepgram":  # tells no words
        assert facts["words"].replace("  ", " ") == TEXT


def played(words: list[list[Any]], said: str) -> bool:
    """Return whether a text has the first words of another, and not all of them."""
    count = len(said.split())
    return (
        0 < count < len(words) and said.split() == [str(word).strip() for word, *_ in words][:count]
    )


def test_our_plugin_for_livekit(long_plain: WholeServer) -> None:
    facts = run("livekit_own.py", long_plain.url, TEXT, "1.0")
    assert facts["alike"]
    assert "".join(word for word, _, _ in facts["words"]) == TEXT
    times = [time for _, start, end in facts["words"] for time in (start, end)]
    assert times == sorted(times)
    assert times[-1] <= facts["live"]
    # The agent was interrupted: the conversation has what was heard, and its last word is known.
    [[is_interrupted, last]] = facts["heard"]
    [[said, is_marked]] = facts["items"]
    assert is_interrupted
    assert is_marked
    assert played(facts["words"], said)
    assert last in TEXT.split()[1:-1]


def test_our_service_for_pipecat(long_plain: WholeServer) -> None:
    facts = run("pipecat_own.py", long_plain.url, TEXT, "1.0")
    assert facts["errors"] == []
    assert facts["first"] == [TEXT]
    words = facts["words"][: len(TEXT.split())]
    times = [time for _, time in words]
    assert times == sorted(times)
    assert len(set(times)) == len(times)
    assert (times[-1] - times[0]) / 1e9 < facts["seconds"]
    [said] = facts["second"]
    assert played(words, said)
    # The server counts words that were played to their end, and Pipecat those that have begun.
    [[last, spoken]] = facts["interruptions"]
    assert played(words, spoken)
    assert spoken.split()[-1].strip(".") == last
    assert said.startswith(spoken.rstrip("."))
