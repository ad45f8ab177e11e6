"""Compile the CPU kernels for other systems, with Zig's compiler."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ChatTTS.model.devices.instruction_sets import VARIANTS, Variant
from ChatTTS.model.kernels.cpu import prebuilt

_SOURCE = Path(prebuilt.__file__).parent / "kernels.cpp"
# Those of a compilation by the user (model/kernels/cpu/build.py), and no symbols for debuggers.
_FLAGS = (
    *("-std=c++17", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-pthread", "-s"),
    "-fvisibility=hidden",
)


@dataclass(frozen=True)
class Target:
    """A system and an architecture.

    Attributes:
        system: as the package names it (:func:`ChatTTS.model.kernels.cpu.prebuilt.system`).
        triple: as Zig's compiler names it, with the oldest version of the system's library.
        platform: as the names of wheels have it.
    """

    system: str
    triple: str
    platform: str

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants of the architecture."""
        machine = self.system.partition("-")[2]
        return tuple(variant for variant in VARIANTS if variant.machine == machine)

    def file_name(self, variant: Variant) -> str:
        """Return the name of a variant's library."""
        return f"{variant.name}.{prebuilt.ENDINGS[self.system.partition('-')[0]]}"


TARGETS = (
    Target("linux-x86_64", "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64"),
    Target("linux-aarch64", "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
    Target("windows-x86_64", "x86_64-windows-gnu", "win_amd64"),
    Target("macos-aarch64", "aarch64-macos.11.0", "macosx_11_0_arm64"),
    Target("macos-x86_64", "x86_64-macos.11.0", "macosx_11_0_x86_64"),
)


def compile_kernels(target: Target, folder: Path) -> Iterator[Path]:
    """Compile every variant of ``target`` into ``folder``, and write its list of contents.

    Yields:
        the file of each library when it is made.

    Raises:
        subprocess.CalledProcessError: the compiler failed.
    """
    folder.mkdir(parents=True)
    libraries = {}
    for variant in target.variants:
        made = folder / target.file_name(variant)
        command = [sys.executable, "-m", "ziglang", "c++", *_FLAGS]
        command += ["-target", target.triple, f"-mcpu={variant.target}"]
        subprocess.run([*command, str(_SOURCE), "-o", str(made)], check=True)
        libraries[variant.name] = hashlib.sha256(made.read_bytes()).hexdigest()
        yield made
    for beside in folder.glob("*.lib"):  # the linker for Windows writes import libraries
        beside.unlink()
    contents = {"system": target.system, "sources": prebuilt.sources(), "libraries": libraries}
    (folder / prebuilt.CONTENTS).write_text(json.dumps(contents, indent=2) + "\n")
