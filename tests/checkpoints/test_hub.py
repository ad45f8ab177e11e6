"""Downloads from a hub on this machine: a small server that speaks what the hub library asks.

The client runs in processes of its own, since the library reads its environment when imported.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ChatTTS.config import published_facts

from ..support.places import ROOT

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GPT = "asset/gpt/model.safetensors"
VOCOS = "asset/Vocos.safetensors"
# The hub library writes what it receives in pieces of 10 MiB, and resumes after a whole one.
PIECE = 10 * 2**20

CLIENT = """
import json, os, sys
from ChatTTS.checkpoints import assets, caches, hashes
from ChatTTS.errors import AssetError

calls = {
    "locate": assets.locate,
    "download": assets.download,
    "mine": lambda: assets.locate("local", custom_path="mine"),
    "my cache": lambda: assets.locate("huggingface", custom_path="my cache"),
    "force": lambda: assets.download(force=True),
    "check": lambda: hashes.check_hashes(assets.locate("huggingface")),
}
answer = {"cached_before": assets.is_cached()}
try:
    folder = calls[sys.argv[1]]()
    if folder is not None:
        answer["origin"] = folder.origin
        answer["path"] = os.fspath(folder.path)
except AssetError as error:
    answer["error"] = str(error)
answer["cached_after"] = assets.is_cached()
answer["cache"] = {entry.name: entry.bytes for entry in caches.cache_entries()}
print(json.dumps(answer))
"""


@dataclass
class Repository:
    """The files of the server, its faults, and the requests that it got."""

    files: dict[str, bytes]
    exists: bool = True
    break_after: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)

    def fetched(self) -> set[str]:
        """Return the names of the files whose bytes were requested."""
        return {path for method, path, _ in self.asked if method == "GET" and path in self.files}

    def ranges(self, name: str) -> list[str | None]:
        """Return the Range header of each request for the bytes of ``name``."""
        return [given for method, path, given in self.asked if (method, path) == ("GET", name)]


class Handler(BaseHTTPRequestHandler):
    """The part of the hub's interface that downloading a snapshot needs."""

    protocol_version = "HTTP/1.1"
    repository: Repository

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def answer(self) -> None:
        path = urlsplit(self.path).path
        file = re.fullmatch(r"/2Noise/ChatTTS/resolve/\w+/(.+)", path)
        name = file.group(1) if file else path
        self.repository.asked.append((self.command, name, self.headers.get("Range")))
        if not self.repository.exists:
            self.respond(404, b"Repository not found", {"X-Error-Code": "RepoNotFound"})
        elif re.fullmatch(r"/api/models/2Noise/ChatTTS(/revision/main)?", path):
            siblings = [{"rfilename": name} for name in self.repository.files]
            self.respond_json({"id": "2Noise/ChatTTS", "sha": COMMIT, "siblings": siblings})
        elif path == f"/api/models/2Noise/ChatTTS/tree/{COMMIT}":
            self.respond_json(
                [
                    {"type": "file", "path": name, "size": len(content), "oid": etag(content)}
                    for name, content in self.repository.files.items()
                ]
            )
        elif name in self.repository.files:
            self.respond_file(name, self.repository.files[name])
        else:
            self.respond(404, b"Entry not found", {"X-Error-Code": "EntryNotFound"})

    def respond_json(self, value: object) -> None:
        self.respond(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def respond_file(self, name: str, content: bytes) -> None:
        headers = {"ETag": f'"{etag(content)}"', "X-Repo-Commit": COMMIT}
        given = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start = int(given.group(1)) if given else 0
        if given:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        send = None
        if self.command == "GET":
            send = self.repository.break_after.pop(name, None)
        self.respond(206 if given else 200, content[start:], headers, send)

    def respond(
        self, status: int, body: bytes, headers: dict[str, str], send: int | None = None
    ) -> None:
        """Answer; with ``send``, break the connection after that many bytes of the body."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:send])
        if send is not None:
            self.close_connection = True


def etag(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@dataclass
class Service:
    """A running server, its repository, and clients that use no other hub."""

    repository: Repository
    server: ThreadingHTTPServer
    folder: Path

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def client(self, call: str, **environment: str) -> dict[str, object]:
        """Run ``call`` in a process of its own and return its answer."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.upper().startswith(("HF_", "HUGGING", "XDG_"))
            and "PROXY" not in name.upper()
        }
        given = {
            "HF_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}",
            "HF_HOME": str(self.folder / "hf"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
            "XDG_CACHE_HOME": str(self.folder / "caches"),
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, call],
            cwd=self.folder,
            env=inherited | given | environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, object] = json.loads(done.stdout)
        return answer


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    # Only names and bytes matter here: nothing opens these files.
    files = {name: name.encode() * 50 for name in published_facts()["sha256"]}
    files["asset/GPT.pt"] = b"a pickle that nobody wants"
    files["README.md"] = b"about"
    repository = Repository(files)
    handler = type("BoundHandler", (Handler,), {"repository": repository})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    service = Service(repository, server, tmp_path)
    yield service
    service.stop()


def contents(path: object) -> dict[str, bytes]:
    root = Path(str(path))
    return {
        file.relative_to(root).as_posix(): file.read_bytes()
        for file in root.rglob("*")
        if file.is_file()
    }


@pytest.mark.slow
def test_it_downloads_once_and_then_needs_no_hub(service: Service) -> None:
    wanted = {name: service.repository.files[name] for name in published_facts()["sha256"]}
    first = service.client("locate")
    assert (first["cached_before"], first["cached_after"]) == (False, True)
    assert first["origin"] == "huggingface"
    assert contents(first["path"]) == wanted
    assert service.repository.fetched() == set(wanted), "and nothing else"
    cache = first["cache"]
    assert isinstance(cache, dict)
    assert cache["huggingface"] >= sum(map(len, wanted.values()))

    service.repository.asked.clear()
    again = service.client("locate")
    assert again["path"] == first["path"]
    assert service.repository.asked == [], "what is cached is taken without a question"

    service.stop()
    assert service.client("locate")["path"] == first["path"]
    assert service.client("download", HF_HUB_OFFLINE="1")["path"] == first["path"]


@pytest.mark.slow
def test_a_part_is_completed_and_force_fetches_all_anew(service: Service) -> None:
    first = service.client("download")
    vocos = Path(str(first["path"])) / VOCOS
    vocos.resolve().unlink()
    vocos.unlink(missing_ok=True)
    service.repository.asked.clear()

    completed = service.client("locate")
    assert (completed["cached_before"], completed["cached_after"]) == (False, True)
    assert service.repository.fetched() == {VOCOS}

    vocos.write_bytes(b"damaged on this disk")
    service.repository.asked.clear()
    forced = service.client("force")
    assert service.repository.fetched() == set(published_facts()["sha256"])
    assert contents(forced["path"])[VOCOS] == service.repository.files[VOCOS]


@pytest.mark.slow
def test_it_downloads_where_the_caller_wants(service: Service) -> None:
    wanted = {name: service.repository.files[name] for name in published_facts()["sha256"]}
    for call, origin in (("mine", "local"), ("my cache", "huggingface")):
        answer = service.client(call)
        assert answer["origin"] == origin
        assert str(answer["path"]).startswith(str(service.folder / call))
        found = contents(answer["path"])
        assert {name: found[name] for name in wanted} == wanted
        assert not answer["cached_after"], "the usual cache stays empty"
        service.repository.asked.clear()
        assert service.client(call)["path"] == answer["path"]
        assert service.repository.asked == []


@pytest.mark.slow
def test_force_without_a_hub_does_not_pass_off_what_is_cached(service: Service) -> None:
    service.client("download")
    service.stop()
    for environment in ({}, {"HF_HUB_OFFLINE": "1"}):
        answer = service.client("force", **environment)
        assert "failed" in str(answer["error"])
        assert answer["cached_after"], "what was there is still there"


@pytest.mark.slow
def test_a_broken_connection_is_taken_up_where_it_stopped(service: Service) -> None:
    content = bytes(range(256)) * (PIECE // 256) + b"the second piece" * 1000
    service.repository.files[GPT] = content
    service.repository.break_after[GPT] = PIECE + 5000
    answer = service.client("download")
    if "error" in answer:  # some versions of the library leave the second attempt to the next call
        answer = service.client("download")
    first, second = service.repository.ranges(GPT)
    assert first is None
    assert second is not None
    assert int(second.removeprefix("bytes=").removesuffix("-")) >= PIECE
    assert contents(answer["path"])[GPT] == content


@pytest.mark.slow
def test_files_from_a_hub_must_be_the_published_ones(service: Service) -> None:
    message = str(service.client("check")["error"])
    for name, expected in published_facts()["sha256"].items():
        found = hashlib.sha256(service.repository.files[name]).hexdigest()
        assert f"{name} should have sha256 {expected} but has {found}" in message
    assert "chattts download --force" in message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "says"), [("not found", "404"), ("down", "Connect"), ("offline", "Offline")]
)
def test_failure_names_cause_and_remedies(service: Service, trouble: str, says: str) -> None:
    environment = {}
    if trouble == "not found":
        service.repository.exists = False
    elif trouble == "down":
        service.stop()
    else:
        environment["HF_HUB_OFFLINE"] = "1"
    message = str(service.client("locate", **environment)["error"])
    assert says in message
    assert f"127.0.0.1:{service.server.server_port}" in message
    for remedy in ("HF_ENDPOINT", "chattts download", "custom_path", "source='bundled'"):
        assert remedy in message
    assert "\n" not in message


@pytest.mark.slow
def test_a_mirror_that_lacks_files_is_found_out(service: Service) -> None:
    del service.repository.files[VOCOS]
    answer = service.client("locate")
    assert VOCOS in str(answer["error"])
    assert not answer["cached_after"]
