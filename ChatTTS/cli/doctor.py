"""``chattts doctor``: check the installation and print the commands that repair it."""

from __future__ import annotations

import argparse
import math
import os
import platform
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..coexistence import REMEDY, check_single_distribution
from ..errors import AudioError, ChatTTSError, ConfigError
from ..utils import machine
from ..version import __version__
from ..voices import VoiceLibrary
from .console import Console, table
from .options import Commands, add_command
from .packages import OPTIONAL, REQUIRED, check_package

_DETAILS = """\
Check the installation. A line that begins with `!` is a problem; the commands that solve the
problems are printed last. A line that begins with `-` is about something optional. The command
fails if there is a problem.

  chattts doctor
"""
_OK, _NOTE, _PROBLEM = "", "-", "!"


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        name: of what was checked.
        value: what was found.
        mark: how severe that is.
        remedy: command that repairs it.
        requirement: requirement that pip should install to repair it.
    """

    name: str
    value: str
    mark: str = _OK
    remedy: str | None = None
    requirement: str | None = None


def add_to(commands: Commands) -> None:
    add_command(commands, "doctor", run, "check the installation", _DETAILS)


def run(args: argparse.Namespace, console: Console) -> int:
    """Print all findings; fail if one is a problem."""
    findings: list[Finding] = []
    for title, check in _SECTIONS:
        found = list(check())
        findings += found
        print(title)
        print(table(*((f" {f.mark or ' '}", f.name, f.value) for f in found)))
    problems = [finding for finding in findings if finding.mark == _PROBLEM]
    if not problems:
        print("Everything that is needed is installed.")
        return 0
    print("To fix it:")
    wanted = [shlex.quote(problem.requirement) for problem in problems if problem.requirement]
    remedies = [_pip("install", *wanted)] if wanted else []
    for remedy in [*remedies, *(problem.remedy for problem in problems if problem.remedy)]:
        print(f"  {remedy}")
    return 1


def _system() -> Iterator[Finding]:
    yield Finding("chattts-velocity", __version__)
    yield Finding("python", f"{platform.python_version()} ({sys.executable})")
    yield Finding("system", platform.platform())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_single_distribution()
        except ImportError as error:
            yield Finding("ChatTTS", f"mixed files: {error}", _PROBLEM, REMEDY)
    for warning in caught:
        yield Finding("ChatTTS", str(warning.message), _NOTE)


def _packages() -> Iterator[Finding]:
    for package in REQUIRED:
        status = check_package(package)
        if status.good:
            yield Finding(package.name, status.found)
        elif status.installable:
            yield Finding(
                package.name,
                f"{status.found}; {package.purpose}",
                _PROBLEM,
                requirement=package.requirement,
            )
        else:
            again = _pip("install", "--force-reinstall", package.name)
            yield Finding(package.name, f"{status.found}; {package.purpose}", _PROBLEM, again)


def _optional() -> Iterator[Finding]:
    for package in OPTIONAL:
        status = check_package(package)
        install = _pip("install", shlex.quote(package.requirement))
        value = f"{status.found}; {package.purpose}" if not status.good else status.found
        yield Finding(
            package.name,
            f"{value}: {install}" if status.installable else value,
            _OK if status.good else _NOTE,
        )


def _processors() -> Iterator[Finding]:
    features = ", ".join(machine.cpu_features())
    yield Finding("CPU", machine.cpu_model() + (f" ({features})" if features else ""))
    limit = machine.cgroup_limit()
    container = "" if limit is None else f", {limit:g} by the container's limit"
    yield Finding(
        "cores",
        f"{machine.usable_cores():g} usable: of {os.cpu_count()}, {machine.affinity()} by affinity"
        + container,
    )
    yield from _kernels()
    try:
        yield from _torch_findings()
    except Exception as error:  # a broken installation may raise anything; see "packages"
        yield Finding("torch", f"cannot be asked: {error}", _NOTE)


def _kernels() -> Iterator[Finding]:
    """Check that the engine's CPU kernels work; compile them if they were not yet."""
    try:
        from ..model.devices.instruction_sets import FORCED, chosen, forced
        from ..model.kernels.cpu.build import BuildError
        from ..model.kernels.cpu.library import load

        kernels = load()
        about = kernels.chattts_build().decode("ascii")
        notes = []
        if (variant := forced()) is not None:
            notes.append(f"{variant.name}, by {FORCED}")
        elif kernels.source.prebuilt and (variant := chosen()) is not None:
            notes.append(variant.name)
        if kernels.source.prebuilt:
            notes.append("from the package")
        yield Finding("CPU kernels", about + (f" ({'; '.join(notes)})" if notes else ""))
    except ConfigError as error:
        yield Finding("CPU kernels", str(error), _PROBLEM)
    except ImportError as error:
        yield Finding("CPU kernels", f"cannot be asked: {error}", _NOTE)
    except BuildError as error:
        yield Finding("CPU kernels", f"velocity is slower without: {error}", _NOTE)


def _torch_findings() -> Iterator[Finding]:
    import torch

    from ..model.cuda.support import why_no_kernels
    from ..model.devices.placement import choose_placement, fast_dtype

    threads, cores = torch.get_num_threads(), math.ceil(machine.usable_cores())
    value = f"{torch.backends.cpu.get_cpu_capability()} kernels, {threads} threads"
    if threads > cores:
        yield Finding("torch", f"{value}, more than cores: use --threads {cores}", _NOTE)
    else:
        yield Finding("torch", value)
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        yield Finding(
            f"cuda:{index}",
            f"{device.name}, {device.total_memory / 2**30:.1f} GiB, compute capability "
            f"{device.major}.{device.minor}",
        )
    if torch.cuda.is_available():
        reason = why_no_kernels(torch.device("cuda"))
        value = "by Triton" if reason is None else f"velocity is slower without: {reason}"
        yield Finding("CUDA kernels", value, _OK if reason is None else _NOTE)
    else:
        build = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without it"
        yield Finding("CUDA", f"no device (torch is built {build})")
    yield Finding("MPS", "available" if torch.backends.mps.is_available() else "not available")
    placement = choose_placement()
    dtype = str(fast_dtype(placement.device)).removeprefix("torch.")
    yield Finding("by default", f"{placement.device}, dtype auto takes {dtype}")


def _sound() -> Iterator[Finding]:
    try:
        import soundfile

        from ..audio import FORMATS, find_sound_device
    except Exception as error:  # the section "packages" says what is wrong with it
        yield Finding("sound files", f"cannot be asked: {error}", _NOTE)
        return
    yield Finding(
        "sound files", f"{', '.join(FORMATS)} by libsndfile {soundfile.__libsndfile_version__}"
    )
    try:
        device = find_sound_device()
    except AudioError as error:
        yield Finding("playback", str(error), _NOTE)
    else:
        yield Finding("playback", f"{device.name}, at {device.rate} Hz")


def _models() -> Iterator[Finding]:
    try:
        yield from _checkpoints()
    except ImportError as error:  # the section "packages" names what is missing
        yield Finding("", f"cannot be asked: {error}", _NOTE)


def _checkpoints() -> Iterator[Finding]:
    from ..checkpoints import assets

    try:
        yield Finding("bundled", str(assets.locate("bundled").path))
    except ChatTTSError as error:
        yield Finding(
            "bundled",
            str(error),
            _PROBLEM,
            _pip("install", "--force-reinstall", "chattts-velocity"),
        )
    if assets.is_cached():
        yield Finding("huggingface", str(assets.locate("huggingface").path))
    else:
        yield Finding("huggingface", "not here; for the full model: chattts download", _NOTE)


def _voices() -> Iterator[Finding]:
    library = VoiceLibrary()
    yield Finding("yours", f"{len(library.names())} in {library.folder}")


def _pip(*arguments: str) -> str:
    return " ".join((shlex.quote(sys.executable), "-m pip", *arguments))


_SECTIONS: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
    ("system", _system),
    ("packages", _packages),
    ("optional", _optional),
    ("processors", _processors),
    ("sound", _sound),
    ("models", _models),
    ("voices", _voices),
)
