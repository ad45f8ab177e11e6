"""Find the CPU kernels of this machine: those of the wheel, or compiled once and cached.

The sources are C++17 without torch's headers, so compiling takes seconds and needs nothing but a
compiler. Where there is none, the engine computes with torch instead.

The name of a cached library has a hash of what it was made from and a hash of its content. The
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
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ....utils.cache_files import UNFINISHED, CacheFolder, UnsafeFileError, remove_unfinished
from ....utils.progress import announce, progress
from ...devices import instruction_sets
from .prebuilt import DamagedError, find_prebuilt, sources

logger = logging.getLogger(__name__)

_SOURCES = Path(__file__).parent
# What is compiled: all kernels, or only what waits for a GPU, which a wheel's kernels have, too.
KERNELS, WAIT = "kernels.cpp", "wait.cpp"
_COMPILERS = ("c++", "g++", "clang++")
# Zig's compiler, as the package ziglang brings it to every system.
_ZIG = "ziglang"
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
        name: a hash of what they were made from; equal names, equal kernels.
        code: the library's content.
        path: where it is cached; None if it cannot be.
        new: whether this call compiled it.
        prebuilt: whether it came with the package.
    """

    name: str
    code: bytes
    path: Path | None
    new: bool
    prebuilt: bool = False


def library(source: str = KERNELS, *, anew: bool = False) -> Library:
    """Return the library that came with the package, or else the one that was compiled here.

    It is compiled first where it is not cached yet. ``CXX`` in the environment asks for compiling.

    Args:
        source: ``KERNELS`` or ``WAIT``, the part that is needed.
        anew: compile it in any case.

    Raises:
        BuildError: there is no compiler, or it failed.
        ConfigError: ``CHATTTS_KERNELS`` names a variant that cannot run here.
    """
    if not anew and (brought := _prebuilt()) is not None:
        return brought
    compiler = _compiler()
    name, folder = _name(compiler, source), CacheFolder("kernels")
    found, trouble = (None, []) if anew else _read_cached(folder, name)
    if found is not None:
        return found
    code = _compile(compiler, source, folder)
    for reason in trouble:
        logger.warning("%s; the CPU kernels were compiled again", reason)
    try:
        path = _write_cache(folder, name, code)
    except OSError as error:
        logger.warning(
            "the CPU kernels are not kept, so every start compiles them again: %s", error
        )
        path = None
    return Library(name, code, path, new=True)


def _prebuilt() -> Library | None:
    """Return the library that came with the package; None where there is none, or none wanted."""
    variant = instruction_sets.chosen()
    if variant is None or os.environ.get("CXX"):
        return None
    try:
        found = find_prebuilt(variant)
    except DamagedError as error:
        logger.warning("%s; the CPU kernels are compiled instead", error)
        return None
    if found is None:
        return None
    code, path = found
    name = hashlib.sha256(code).hexdigest()[:24]
    return Library(name, code, path, new=False, prebuilt=True)


def _name(compiler: list[str], source: str = KERNELS) -> str:
    about = "\n".join([_machine(), *compiler, source, sources()])
    return hashlib.sha256(about.encode()).hexdigest()[:24]


def _read_cached(folder: CacheFolder, name: str) -> tuple[Library | None, list[str]]:
    """Return an intact library of the cache, if any, and what is wrong with others of its name."""
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
                return Library(name, code, folder.path / file, new=False), trouble
            trouble.append(f"{folder.path / file} was damaged")
    except OSError:
        pass  # keeping the new library will fail too, and its error gives the reason
    return None, trouble


def _write_cache(folder: CacheFolder, name: str, code: bytes) -> Path:
    cached = _file_name(name, code)
    with folder.writing(cached) as file:
        file.write(code)
    for other in _files(folder, name):
        if other != cached:
            folder.remove(other)
    return folder.path / cached


def _files(folder: CacheFolder, name: str) -> list[str]:
    return [file for file in folder.names() if file.startswith(f"{name}-")]


def _file_name(name: str, code: bytes) -> str:
    return f"{name}-{hashlib.sha256(code).hexdigest()[:32]}.so"


def _compiler() -> list[str]:
    """Return the compiler's command and flags: from ``CXX``, by the usual names, or Zig's."""
    try:
        named = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise BuildError(f"the environment variable CXX is not a command ({error})") from error
    for command in [named] if named else [[name] for name in _COMPILERS]:
        if shutil.which(command[0]) is not None:
            return [*command, *_FLAGS, *_for_which_cpu(command)]
    if not named and find_spec(_ZIG) is not None:
        forced = instruction_sets.forced()
        target = _native_target() if forced is None else forced.target
        return [sys.executable, "-m", _ZIG, "c++", *_FLAGS, f"-mcpu={target}"]
    raise BuildError(
        f"no C++ compiler was found ({named[0] if named else ', '.join(_COMPILERS)}); install one "
        f"(such as the package g++, or by pip install {_ZIG}), or name it in the environment "
        "variable CXX"
    )


def _native_target() -> str:
    """Return this processor by Zig's name, without what the system does not let it use."""
    if instruction_sets.architecture() != "x86_64" or instruction_sets.allows_amx():
        return "native"
    return "-".join(["native", *sorted(instruction_sets.AMX)])


def _for_which_cpu(command: list[str]) -> list[str]:
    """Return the flags of a forced variant, or for this processor where ``CXX`` has none."""
    if (variant := instruction_sets.forced()) is not None:
        return list(variant.flags)
    if any(part.startswith(("-march=", "-mcpu=")) for part in command):
        return []
    if instruction_sets.architecture() != "x86_64":
        return ["-mcpu=native"]
    return [
        "-march=native",
        *(() if instruction_sets.allows_amx() else instruction_sets.NO_AMX_FLAGS),
    ]


def _machine() -> str:
    """Return what a compiled library depends on beside its sources and the compiler."""
    about = [platform.system(), platform.machine(), platform.processor()]
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        lines = cpus.read_text(encoding="utf-8", errors="replace").splitlines()
        kinds = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
        about.extend(sorted(kinds))
    return "\n".join(about)


def _compile(command: list[str], source: str, folder: CacheFolder) -> bytes:
    """Compile a library and return its content."""
    if source == KERNELS:
        announce(
            logger,
            "compiling the CPU kernels, which make speech several times faster: this takes up to "
            "a minute, once on this machine",
        )
    try:
        with _work_folder(folder) as work:
            made = Path(work) / "kernels.so"
            status, said = _run([*command, str(_SOURCES / source), "-o", str(made)], work)
            if status != 0:
                reason = (said.strip() or f"exit status {status}").splitlines()[0]
                raise BuildError(f"{shlex.join(command)} failed: {reason}")
            return made.read_bytes()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]} could not make the CPU kernels ({error})") from error


def _work_folder(folder: CacheFolder) -> tempfile.TemporaryDirectory[str]:
    """Make a folder for this process alone, among temporary ones or in the cache.

    Raises:
        OSError: neither has room; the message has the reasons.
    """
    reasons = []
    places: tuple[Callable[[], Path], ...]
    places = lambda: Path(tempfile.gettempdir()), lambda: _cache_root(folder)
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


def _cache_root(folder: CacheFolder) -> Path:
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
