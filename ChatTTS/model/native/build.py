"""Compile the CPU kernels once for a machine, and keep them.

The sources are plain C++17 without torch's headers, so this takes seconds and needs nothing but a
compiler. Where there is none, the engine computes with torch instead.

The name of a kept library has a hash of what it was made from and a hash of its content. The
content is compared with the name before any of it runs: loading a file that was cut off, damaged or
planted by another user could end the process, or worse.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...utils.kept_files import UNFINISHED, KeptFolder, UnsafeFileError, remove_unfinished
from ...utils.progress import progress
from . import variants

logger = logging.getLogger(__name__)

_SOURCES = Path(__file__).parent
_COMPILERS = ("c++", "g++", "clang++")
# The sources say where to fuse multiply-adds (vectors.h). Where a compiler would fuse depends on
# the code around, so bits would depend on the size of a block or a batch.
_FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")
_SECONDS = 300
# Bytes that compiling may take on a disk, with room to spare.
_ROOM = 64 << 20


class BuildError(Exception):
    """The kernels cannot be compiled here; the message says why."""


@dataclass(frozen=True)
class Library:
    """Compiled kernels.

    Attributes:
        code: the library's content.
        path: where it is kept; None if it cannot be.
        new: whether this call compiled it.
    """

    code: bytes
    path: Path | None
    new: bool


def library(*, anew: bool = False) -> Library:
    """Return the compiled library, which is compiled first where it is not kept yet.

    Args:
        anew: compile it in any case.

    Raises:
        BuildError: there is no compiler, or it failed.
        ConfigError: ``CHATTTS_KERNELS`` names a variant that cannot run here.
    """
    compiler = _compiler()
    name, folder = _name(compiler), KeptFolder("kernels")
    found, trouble = (None, []) if anew else _kept(folder, name)
    if found is not None:
        return found
    code = _compile(compiler, folder)
    for reason in trouble:
        logger.warning("%s; the CPU kernels were compiled anew", reason)
    try:
        path = _keep(folder, name, code)
    except OSError as error:
        logger.warning("the CPU kernels are not kept, every start compiles them anew: %s", error)
        path = None
    return Library(code, path, new=True)


def name() -> str:
    """Return a hash of what the kernels of this machine are made from: equal names, equal kernels.

    Raises:
        BuildError: there is no compiler.
        ConfigError: ``CHATTTS_KERNELS`` names a variant that cannot run here.
    """
    return _name(_compiler())


def _name(compiler: list[str]) -> str:
    about = "\n".join([_machine(), *compiler, *_texts()])
    return hashlib.sha256(about.encode()).hexdigest()[:24]


def _kept(folder: KeptFolder, name: str) -> tuple[Library | None, list[str]]:
    """Return an intact kept library, if there is one, and what is wrong with others of its name."""
    trouble = []
    try:
        for file in _files(folder, name):
            try:
                with folder.reading(file) as opened:
                    code = opened.read()
            except UnsafeFileError as error:
                trouble.append(str(error))
                continue
            if file == _file_name(name, code):
                return Library(code, folder.path / file, new=False), trouble
            trouble.append(f"{folder.path / file} was damaged")
    except OSError:
        pass  # keeping the new library will fail too, and its error gives the reason
    return None, trouble


def _keep(folder: KeptFolder, name: str, code: bytes) -> Path:
    kept = _file_name(name, code)
    with folder.writing(kept) as file:
        file.write(code)
    for other in _files(folder, name):
        if other != kept:
            folder.remove(other)
    return folder.path / kept


def _files(folder: KeptFolder, name: str) -> list[str]:
    return [file for file in folder.names() if file.startswith(f"{name}-")]


def _file_name(name: str, code: bytes) -> str:
    return f"{name}-{hashlib.sha256(code).hexdigest()[:32]}.so"


def _compiler() -> list[str]:
    """Return the compiler's command and flags, from ``CXX`` or by the usual names."""
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
    """Return the flags of a forced variant, or for this processor where ``CXX`` has none."""
    if (variant := variants.forced()) is not None:
        return list(variant.flags)
    if any(part.startswith(("-march=", "-mcpu=")) for part in command):
        return []
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return ["-march=native" if is_x86 else "-mcpu=native"]


def _machine() -> str:
    """Return what a compiled library depends on beside its sources and the compiler."""
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


def _compile(command: list[str], folder: KeptFolder) -> bytes:
    """Compile a library and return its content."""
    logger.info("compiling the CPU kernels, once for this machine")
    try:
        with _work_folder(folder) as work:
            made = Path(work) / "kernels.so"
            status, said = _run([*command, str(_SOURCES / "velocity.cpp"), "-o", str(made)], work)
            if status != 0:
                reason = (said.strip() or f"exit status {status}").splitlines()[0]
                raise BuildError(f"{shlex.join(command)} failed: {reason}")
            return made.read_bytes()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]} could not make the CPU kernels ({error})") from error


def _work_folder(folder: KeptFolder) -> tempfile.TemporaryDirectory[str]:
    """Make a folder for this process alone, among temporary ones or in the cache.

    Raises:
        OSError: neither has room; the message has the reasons.
    """
    reasons = []
    places: tuple[Callable[[], Path], ...]
    places = lambda: Path(tempfile.gettempdir()), lambda: _made(folder)
    for find in places:
        try:
            parent = find()
            remove_unfinished(parent)
            if shutil.disk_usage(parent).free < _ROOM:
                reasons.append(f"{parent} has less than {_ROOM >> 20} MB of room")
                continue
            # Ignored, since a compiler that was stopped may still write there.
            return tempfile.TemporaryDirectory(
                prefix=UNFINISHED, dir=parent, ignore_cleanup_errors=True
            )
        except OSError as error:
            reasons.append(str(error))
    raise OSError("; ".join(reasons))


def _made(folder: KeptFolder) -> Path:
    folder.make()
    return folder.path


def _run(command: list[str], work: str) -> tuple[int, str]:
    """Run a long command, with ``work`` for its temporary files; return its status and errors."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "TMPDIR": work},
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
