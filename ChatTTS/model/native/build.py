"""Compile the CPU kernels once for a machine, and keep them.

The sources are plain C++17 without torch's headers, so this takes seconds and needs nothing but a
compiler. Where there is none, the engine computes with torch instead.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from ...folders import cache_folder
from ...progress import progress

logger = logging.getLogger(__name__)

_SOURCES = Path(__file__).parent
_COMPILERS = ("c++", "g++", "clang++")
_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-pthread")
_SECONDS = 300


class BuildError(Exception):
    """The kernels cannot be compiled here; the message says why."""


def library() -> Path:
    """The compiled library, made first where it is not there yet.

    Raises:
        BuildError: there is no compiler, or it failed.
    """
    compiler = _compiler()
    name = hashlib.sha256("\n".join([_machine(), *compiler, *_texts()]).encode()).hexdigest()[:24]
    file = cache_folder() / "kernels" / f"{name}.so"
    try:
        if file.exists():
            return file
    except OSError as error:
        raise BuildError(f"{file} cannot be read ({error})") from error
    _compile(compiler, file)
    return file


def _compiler() -> list[str]:
    """The command with its flags, by ``CXX`` or the usual names."""
    try:
        named = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise BuildError(f"the environment variable CXX is no command ({error})") from error
    for command in [named] if named else [[name] for name in _COMPILERS]:
        if shutil.which(command[0]) is not None:
            return [*command, *_FLAGS, *_for_which_cpu(command)]
    raise BuildError(
        f"no C++ compiler was found ({named[0] if named else ', '.join(_COMPILERS)}); install one "
        "(such as the package g++), or name it in the environment variable CXX"
    )


def _for_which_cpu(command: list[str]) -> list[str]:
    """The processor that ``CXX`` names, as in ``g++ -march=x86-64-v3``; else this one."""
    if any(part.startswith(("-march=", "-mcpu=")) for part in command):
        return []
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return ["-march=native" if is_x86 else "-mcpu=native"]


def _machine() -> str:
    """What a compiled library depends on beside its sources."""
    about = [platform.system(), platform.machine(), platform.processor()]
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        lines = cpus.read_text(encoding="utf-8", errors="replace").splitlines()
        kinds = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
        about.extend(sorted(kinds))
    return "\n".join(about)


def _texts() -> list[str]:
    files = sorted([*_SOURCES.glob("*.h"), *_SOURCES.glob("*.cpp")])
    return [file.read_text(encoding="utf-8") for file in files]


def _compile(command: list[str], file: Path) -> None:
    """Compile beside the place of ``file`` and put it there whole: others may do so as well."""
    logger.info("compiling the CPU kernels, once for this machine")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            made = Path(folder) / file.name
            status, said = _run([*command, str(_SOURCES / "velocity.cpp"), "-o", str(made)])
            if status != 0:
                reason = (said.strip() or f"exit status {status}").splitlines()[0]
                raise BuildError(f"{shlex.join(command)} failed: {reason}")
            made.replace(file)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]} could not make {file} ({error})") from error


def _run(command: list[str]) -> tuple[int, str]:
    """Exit status and errors of a command that takes its time."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    with process, progress("compiling the CPU kernels, once", "second") as bar:
        try:
            for _ in range(_SECONDS):
                try:
                    said = process.communicate(timeout=1)[1]
                    return process.returncode, said
                except subprocess.TimeoutExpired:
                    bar.update()
            raise subprocess.TimeoutExpired(command, _SECONDS)
        except BaseException:
            process.kill()
            raise
