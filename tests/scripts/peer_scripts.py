"""Run the tests and examples of the published repository, unmodified, on this package.

``python -m tests.scripts.peer_scripts CHECKOUT``, or ``make peer-scripts REPO=CHECKOUT``. The
scripts run in a copy without the published package, so that the checkout stays as it is. The
bundled voice replaces the download, and sockets reach this machine alone. ``peer_child`` replaces
packages that are not installed, if the scripts need only a few names of them.

A script has *passed* if it ends without an error and leaves the expected files and output. It
*runs* if it does all its work and then fails as it would with the published package, or because the
bundled voice is not the published model. The exit status is 1 if any script has *failed*.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..support.places import ROOT

CHILD = Path(__file__).with_name("peer_child.py")
SECONDS = 900  # the voice knows no Chinese, so it may generate for long


@dataclass(frozen=True)
class Result:
    """How a script ended."""

    script: str
    status: str
    reason: str = ""


@dataclass(frozen=True)
class Script:
    """A script and what is expected of it.

    Attributes:
        makes: a pattern of files that it must leave, none of them empty.
        says: a pattern that its output must contain.
        ends: output patterns of failures that this package does not cause, with their reasons.
    """

    path: str
    arguments: tuple[str, ...] = ()
    makes: str = ""
    says: str = ""
    ends: tuple[tuple[str, str], ...] = ()


SCRIPTS = (
    Script(
        "tests/#588.py",
        ends=((r"#588 \| in: \S+", "the bundled voice, which refines, knows no Chinese"),),
    ),
    Script(
        "tests/#655.py",
        ends=(
            (
                r"refined text is '[^\n]*\n(?!.*recoded)",
                "another model refines to other words; the prompt is as expected",
            ),
        ),
    ),
    Script(
        "examples/cmd/run.py",
        ("--source", "huggingface", "Hello, you.", "Good morning."),
        makes="output_audio_[01].mp3",
    ),
    Script("examples/cmd/run.py", ("--stream", "Hello, you."), makes="output_audio_*.mp3"),
    Script("examples/cmd/stream.py", says=r"heard [1-9]\d* bytes"),
)
CLIENTS = (
    Script(
        "examples/api/client.py",
        makes="output/*/0.mp3",
        says="Extracted files into",
        ends=((r"Extracted files into", "its text is Chinese: beyond this voice"),),
    ),
    Script(
        "examples/api/postScript.py",
        ("--text", "Hello, you.", "--audio_seed", "5", "--text_seed", "6", "--tgt", "posted"),
        makes="posted/0.mp3",
        ends=((r"NameError: name 'filename'", "its last line names what it never set"),),
    ),
)
SKIPPED = {
    "examples/web/webui.py": "a page for a person, on gradio; it wants strings of 768 floats",
    "examples/onnx/exporter.py": "exports the modules inside of the published package, with onnx",
    "examples/ipynb/example.ipynb": "a notebook; wants a sample.mp3 and an account elsewhere",
    "examples/ipynb/colab.ipynb": "a notebook for another machine",
    "openai_api.ipynb": "a notebook",
}


def command(*arguments: str) -> list[str]:
    """Return the command line of a child."""
    return [sys.executable, "-u", str(CHILD), *arguments]


def environment(folder: Path) -> dict[str, str]:
    """Return a child's variables: this package before the checkout's modules, and no model hub."""
    path = os.pathsep.join((str(ROOT), str(folder)))
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}


def run(script: Script, folder: Path, variables: dict[str, str] | None = None) -> Result:
    """Run a script to its end in ``folder``."""
    name = " ".join((script.path, *script.arguments[:2]))
    try:
        done = subprocess.run(
            command("run", script.path, *script.arguments),
            cwd=folder,
            env=environment(folder) | (variables or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return Result(name, "failed", f"not done after {SECONDS} s")
    failure = _failure(script, folder, done)
    if failure is None:
        return Result(name, "passed")
    for pattern, reason in script.ends:
        if re.search(pattern, done.stdout, re.DOTALL):
            return Result(name, "runs", reason)
    return Result(name, "failed", failure)


def _failure(script: Script, folder: Path, done: subprocess.CompletedProcess[str]) -> str | None:
    """Return the missing result or the error of an ended script; ``None`` if it succeeded."""
    made = list(folder.glob(script.makes)) if script.makes else []
    if script.makes and not (made and all(file.stat().st_size for file in made)):
        return f"no {script.makes}: {last_line(done.stdout)}"
    if not re.search(script.says, done.stdout):
        return f"never said {script.says}: {last_line(done.stdout)}"
    return None if done.returncode == 0 else last_line(done.stdout)


@contextmanager
def served(path: str, folder: Path) -> Iterator[int]:
    """Serve the FastAPI application of a script, and yield its port on this machine.

    Raises:
        RuntimeError: the application ended, or does not answer.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    log = folder / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command("serve", path, str(port)),
            cwd=folder,
            env=environment(folder),
            stdout=output,
            stderr=output,
        )
        try:
            end = time.monotonic() + 180
            while status(f"http://127.0.0.1:{port}/docs") != 200:
                if server.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(last_line(log.read_text()))
                time.sleep(0.5)
            yield port
        finally:
            server.terminate()
            server.wait()


def status(url: str, body: dict[str, object] | None = None) -> int:
    """Return the HTTP status of an answer; 0 if there is no answer or it is empty."""
    request = urllib.request.Request(url, headers={"Content-Type": "application/json"})
    request.data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return int(answer.status) if answer.read() else 0
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def clients(folder: Path) -> Iterator[Result]:
    """Run the example server and its clients, and yield their results."""
    path = "examples/api/main.py"
    try:
        with served(path, folder) as port:
            where = {"CHATTTS_SERVICE_HOST": "127.0.0.1", "CHATTTS_SERVICE_PORT": str(port)}
            results = [run(client, folder, where) for client in CLIENTS]
    except RuntimeError as error:
        yield Result(path, "failed", str(error))
        return
    yield Result(path, "passed" if all(r.status != "failed" for r in results) else "failed")
    yield from results


def openai(folder: Path) -> Iterator[Result]:
    """Run the example server with OpenAI's API, and yield its result."""
    path = "examples/api/openai_api.py"
    try:
        with served(path, folder) as port:
            url = f"http://127.0.0.1:{port}/v1/audio/speech"
            for wish in ({"response_format": "mp3"}, {"response_format": "wav", "stream": True}):
                found = status(url, {"model": "tts-1", "input": "Good morning.", **wish})
                name = f"{path} {' '.join(map(str, wish.values()))}"
                if found == 200:
                    yield Result(name, "passed")
                else:
                    yield Result(name, "failed", f"status {found}")
    except RuntimeError as error:
        yield Result(path, "failed", str(error))


def last_line(text: str) -> str:
    """Return the last line of the output of a failure, at most 160 characters."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "it said nothing"


def others(repo: Path) -> Iterator[Script]:
    """Yield the scripts in ``tests/`` that ``SCRIPTS`` does not list."""
    known = {script.path for script in SCRIPTS}
    for file in sorted((repo / "tests").glob("*.py")):
        if (path := file.relative_to(repo).as_posix()) not in known:
            yield Script(path)


def everything(repo: Path, folder: Path) -> Iterator[Result]:
    """Run every script of the checkout ``repo`` in its copy ``folder``, and yield the results."""
    for script in (*others(repo), *SCRIPTS):
        if (repo / script.path).exists():
            yield run(script, folder)
    groups: dict[str, Callable[[Path], Iterator[Result]]] = {"main": clients, "openai_api": openai}
    for name, group in groups.items():
        if (repo / "examples" / "api" / f"{name}.py").exists():
            yield from group(folder)
    for path, reason in SKIPPED.items():
        if (repo / path).exists():
            yield Result(path, "skipped", reason)


def main() -> int:
    repo = Path(*sys.argv[1:]).resolve()
    if len(sys.argv) != 2 or repo == ROOT or not (repo / "examples").is_dir():
        print("name a checkout of the published repository: make peer-scripts REPO=FOLDER")
        return 2
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "checkout"
        shutil.copytree(repo, folder, ignore=shutil.ignore_patterns(".git", "ChatTTS"))
        for result in everything(repo, folder):
            failed += result.status == "failed"
            print(f"{result.status:8} {result.script:60} {result.reason}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
