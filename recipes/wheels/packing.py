"""Put compiled kernels into copies of the package's plain wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import ChatTTS
from ChatTTS.model.kernels.cpu.prebuilt import FOLDER

from .kernels import Target

# Where the package looks for its kernels, in the wheel.
_PLACE = FOLDER.relative_to(Path(ChatTTS.__file__).parents[1])


def plain_wheel(repository: Path, work: Path) -> Path:
    """Build the wheel without kernels from the last commit, and return it unpacked.

    Args:
        repository: of the sources.
        work: an empty folder, which is filled.

    Raises:
        subprocess.CalledProcessError: a tool failed.
    """
    archive = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD"], cwd=repository, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(work / "sources", filter="data")
    _python("pip", "wheel", "-q", "--no-deps", "-w", str(work), str(work / "sources"))
    (made,) = work.glob("*.whl")
    _python("wheel", "unpack", "-d", str(work), str(made))
    return next(work.glob("*/ChatTTS")).parent


def pack(plain: Path, target: Target, kernels: Path, into: Path) -> None:
    """Write a wheel for ``target``: the plain one and its kernels.

    Args:
        plain: the unpacked plain wheel.
        kernels: the folder of the target's libraries.
        into: the folder of the wheel.
    """
    work = kernels.parent / f"{target.system}-wheel"
    shutil.copytree(plain, work / plain.name)
    shutil.copytree(kernels, work / plain.name / _PLACE)
    (about,) = (work / plain.name).glob("*.dist-info/WHEEL")
    text = about.read_text(encoding="utf-8")
    text = re.sub(r"^Root-Is-Purelib: .*$", "Root-Is-Purelib: false", text, flags=re.M)
    text = re.sub(r"^Tag: .*$", f"Tag: py3-none-{target.platform}", text, flags=re.M)
    about.write_text(text, encoding="utf-8")
    into.mkdir(parents=True, exist_ok=True)
    _python("wheel", "pack", "-d", str(into), str(work / plain.name))


def _python(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], check=True)
