"""Check the packages that this one needs: whether they are installed and work."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True)
class Package:
    """A distribution.

    Attributes:
        requirement: as pip takes it, such as ``torch>=2.4``.
        purpose: what it is used for.
        imported_as: its module, where that is not the distribution's name.
    """

    requirement: str
    purpose: str
    imported_as: str = ""

    @property
    def name(self) -> str:
        """The distribution's name."""
        return re.split(r"[\[<>=]", self.requirement, maxsplit=1)[0]

    @property
    def module(self) -> str:
        """The name of its module."""
        return self.imported_as or self.name.replace("-", "_")


@dataclass(frozen=True)
class PackageStatus:
    """The result of :func:`check_package`.

    Attributes:
        found: the version with a remark, or the problem.
        good: whether the package can be used.
        installable: whether installing it (or another version) solves the problem.
    """

    found: str
    good: bool = False
    installable: bool = False


# Copied from pyproject.toml (a test compares them): a package that pip did not install, such as a
# copy of the sources, has no metadata with its requirements.
REQUIRED = (
    Package("torch>=2.7", "computes"),
    Package("transformers>=4.45,<6", "the language model"),
    Package("tokenizers>=0.20", "text to tokens"),
    Package("numpy>=1.26", "arrays"),
    Package("soundfile>=0.12.1", "sound files"),
    Package("soxr>=0.5", "resampling"),
    Package("huggingface-hub>=0.25,<3", "downloads"),
    Package("tqdm>=4.62", "progress bars"),
    *([Package("tomli>=2", "reads lexicons")] if sys.version_info < (3, 11) else []),
)
OPTIONAL = (
    Package("matplotlib>=3.8", "for --plot"),
    Package("sounddevice>=0.4.6", "for --play"),
    Package("pocketsphinx>=5.0.3", "for check"),
    Package("pysubs2>=1.8", "for --subtitles"),
    Package("lxml>=5.2", "for read"),
    *(
        Package(requirement, "for serve", imported_as)
        for requirement, imported_as in (
            ("fastapi>=0.115", ""),
            ("starlette>=0.40", ""),
            ("pydantic>=2.9", ""),
            ("anyio>=4.4", ""),
            ("uvicorn>=0.34,<0.55", ""),
            ("websockets>=13", ""),
            ("python-multipart>=0.0.18", ""),
            ("protobuf>=5.27.2", "google.protobuf"),
            ("prometheus-client>=0.21", ""),
            ("av>=17", ""),
        )
    ),
    Package("grpcio>=1.66", "for serve, gRPC", "grpc"),
    Package("grpcio-health-checking>=1.66", "for serve, gRPC", "grpc_health"),
    Package("grpcio-reflection>=1.66", "for serve, gRPC", "grpc_reflection"),
    Package("wyoming>=1.7", "for serve --wyoming-port"),
    Package("zeroconf>=0.132", "for serve --wyoming-port"),
    Package("c2pa-python>=0.38,<1", "for --c2pa-cert and verify", "c2pa"),
    Package("cryptography>=41", "for --c2pa-cert"),
    Package("mcp>=2.1", "for mcp"),
    Package("mcp-types>=2.1", "for mcp"),
    *((Package("tomli>=2", "for read --voices"),) if sys.version_info < (3, 11) else ()),
    # On Python 3.10 it needs other versions of the packages for serve than the tested ones.
    *(
        (Package("ray[serve]>=2.60,<2.70", "for serve --data-parallel-size"),)
        if sys.version_info >= (3, 11)
        else ()
    ),
)


def check_package(package: Package) -> PackageStatus:
    """Check a package's version and import it."""
    try:
        found = version(package.name)
    except PackageNotFoundError:
        return PackageStatus("missing", installable=True)
    if not satisfies(found, package.requirement):
        return PackageStatus(f"{found} does not fit {package.requirement}", installable=True)
    try:
        importlib.import_module(package.module)
    except Exception as error:  # a broken installation may raise anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return PackageStatus(f"{found} does not import: {reason}")
    return PackageStatus(found, good=True)


def satisfies(found: str, requirement: str) -> bool:
    """Return whether a version meets a requirement that is made of ``>=`` and ``<``."""
    bounds = re.findall(r"(>=|<)([\d.]+)", requirement)
    return all(
        (_release(found) >= _release(bound)) == (operator == ">=") for operator, bound in bounds
    )


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version for comparisons: (2, 13) for 2.13.0+cpu."""
    matched = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(number) for number in matched[0].split(".")] if matched else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
