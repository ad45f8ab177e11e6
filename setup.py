"""Say where the CPU kernels of a wheel that is built from these sources come from.

All else about the distribution is in pyproject.toml. ``pip install -v .`` shows what a build says.
"""

from __future__ import annotations

import os
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py

_COMPILERS = ("c++", "g++", "clang++")


def kernels_note(compilers: tuple[str, ...] = _COMPILERS) -> str:
    """Return what becomes of the kernels on this machine, as far as a build can know."""
    command = (os.environ.get("CXX") or "").split()[:1]
    found = next((name for name in (*command, *compilers) if shutil.which(name)), None)
    if found is None:
        return (
            "this wheel has no CPU kernels, and there is no C++ compiler here. Without one at the "
            "first start (g++, clang++, or `pip install ziglang`), speech is slower"
        )
    return (
        f"this wheel has no CPU kernels: they will be compiled at the first start, by {found} "
        "here. `make wheels` builds wheels that have them"
    )


class BuildWithNote(build_py):
    """Copies the modules, and then says what the wheel lacks."""

    def run(self) -> None:
        super().run()
        print(f"chattts-velocity: {kernels_note()}", flush=True)


setup(cmdclass={"build_py": BuildWithNote})
