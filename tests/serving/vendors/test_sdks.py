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
from ...support.websocket_tools import brief_chat

PYTHON = ROOT / "build" / "clients" / "bin" / "python"
PROGRAMS = Path(__file__).parent / "programs"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="`make test-clients` installs the clients"),
]


@pytest.fixture(scope="module")
def plain() -> Iterator[WholeServer]:
    with brief_chat() as chat, whole_server(chat) as running:
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
    with (
        brief_chat() as chat,
        whole_server(chat, tls_certificate=certificate, tls_key=key) as server,
    ):
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
