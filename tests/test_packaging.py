"""The installed package: versions, the files of a wheel, and another package of equal name."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ChatTTS.coexistence import check_single_distribution

from .support.places import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]

# ---------------------------------------------------------------- the published distribution


def install_published(site: Path, files: list[str] | None, version: str = "0.2.5") -> None:
    """Write the metadata of an installed `ChatTTS`; with `files` None it lacks a list of files."""
    info = site / f"chattts-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ChatTTS\nVersion: {version}\n")
    if files is not None:
        (info / "RECORD").write_text("".join(f"{name},,\n" for name in files))


def test_both_in_one_folder_is_an_error(tmp_path: Path) -> None:
    install_published(tmp_path, ["ChatTTS/__init__.py", "ChatTTS/core.py"])
    with pytest.raises(ImportError) as caught:
        check_single_distribution(tmp_path / "ChatTTS", [str(tmp_path)])
    message = str(caught.value)
    assert "ChatTTS 0.2.5" in message
    assert str(tmp_path / "ChatTTS") in message
    assert "pip uninstall -y ChatTTS chattts-velocity && pip install chattts-velocity" in message


def test_both_in_one_folder_is_seen_without_a_list_of_files(tmp_path: Path) -> None:
    install_published(tmp_path, None)
    with pytest.raises(ImportError):
        check_single_distribution(tmp_path / "ChatTTS", [str(tmp_path)])


def test_both_in_one_folder_is_seen_through_a_link(tmp_path: Path) -> None:
    install_published(tmp_path / "site", ["ChatTTS/__init__.py"])
    (tmp_path / "link").symlink_to(tmp_path / "site", target_is_directory=True)
    with pytest.raises(ImportError):
        check_single_distribution(tmp_path / "site" / "ChatTTS", [str(tmp_path / "link")])


@pytest.mark.parametrize("files", [["ChatTTS/__init__.py"], ["__editable__.chattts.pth"]])
def test_the_published_package_in_another_folder_is_a_warning(
    tmp_path: Path, files: list[str]
) -> None:
    install_published(tmp_path / "site", files)
    editable = files[0].startswith("__editable__")
    package = tmp_path / ("site" if editable else "checkout") / "ChatTTS"
    with pytest.warns(UserWarning, match=r"ChatTTS 0\.2\.5 .*depends on sys\.path.*pip uninstall"):
        check_single_distribution(package, [str(tmp_path / "site")])


def test_without_the_published_package_there_is_no_warning(tmp_path: Path) -> None:
    info = tmp_path / "chattts_velocity-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chattts-velocity\nVersion: 1.0\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_single_distribution(tmp_path / "ChatTTS", [str(tmp_path)])


@pytest.mark.slow
@pytest.mark.parametrize("use", ["ChatTTS.Chat", "ChatTTS.save", "__import__('ChatTTS.cli')"])
def test_installed_over_the_published_package_the_first_use_says_so(
    tmp_path: Path, use: str
) -> None:
    shutil.copytree(
        ROOT / "ChatTTS", tmp_path / "ChatTTS", ignore=shutil.ignore_patterns("bundled", "__pyc*")
    )
    # A file of the published package in the place of ours.
    (tmp_path / "ChatTTS" / "config" / "__init__.py").write_text("")
    install_published(tmp_path, ["ChatTTS/__init__.py", "ChatTTS/config/__init__.py"])
    done = subprocess.run(
        [sys.executable, "-c", f"import ChatTTS; {use}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "pip uninstall -y ChatTTS chattts-velocity" in done.stderr.splitlines()[-1]


# ---------------------------------------------------------------- versions


def constraints() -> list[Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def environment(python: str) -> dict[str, str]:
    return {"python_version": python, "sys_platform": "linux", "extra": ""}


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_every_dependency_is_pinned_once_and_within_its_range(python: str) -> None:
    pins: dict[str, str] = {}
    for pin in constraints():
        if pin.marker is None or pin.marker.evaluate(environment(python)):
            name = canonicalize_name(pin.name)
            assert name not in pins, f"{name} is pinned twice on Python {python}"
            pins[name] = str(pin.specifier)
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for line in [line for group in groups for line in group]:
        wanted = Requirement(line)
        if wanted.name == PROJECT["name"]:
            continue  # an extra of the package itself, whose requirements are checked as well
        if wanted.marker is not None and not wanted.marker.evaluate(environment(python)):
            continue
        pinned = pins[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(pinned.removeprefix("=="), prereleases=True), line


def test_constraints_are_plain_exact_pins() -> None:
    for pin in constraints():
        assert re.fullmatch(r"==[0-9][0-9a-z.]*", str(pin.specifier)), pin
        assert pin.url is None


def test_constraints_hold_with_either_build_of_torch() -> None:
    pins = {pin.name: str(pin.specifier) for pin in constraints()}
    assert pins["torch"] == "==2.13.0"  # without +cpu or +cu
    assert pins["triton"] == "==3.7.1"  # requirements of the CUDA build of torch


# ---------------------------------------------------------------- files


def package_data() -> set[str]:
    package = ROOT / "ChatTTS"
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["ChatTTS"]
    return {
        path.relative_to(package).as_posix()
        for pattern in patterns
        for path in package.glob(pattern)
        if path.is_file()
    }


def test_every_data_file_of_the_package_goes_into_a_wheel() -> None:
    package = ROOT / "ChatTTS"
    data = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert data == package_data()
    assert {"py.typed", "published_model.json", "bundled/asset/gpt/model.safetensors"} <= data


def test_a_wheel_stays_under_60_megabytes() -> None:
    # Weights and packed dictionaries do not compress; the sources are small beside them.
    total = sum((ROOT / "ChatTTS" / name).stat().st_size for name in package_data())
    assert total < 60e6


def test_every_package_is_found() -> None:
    packages = {path.parent for path in (ROOT / "ChatTTS").rglob("*.py")}
    assert all((package / "__init__.py").is_file() for package in packages)


@pytest.fixture
def kernels_note(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return the function of `setup.py` that writes what a build says of the kernels."""
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    monkeypatch.delenv("CXX", raising=False)
    note: Callable[..., str] = runpy.run_path(str(ROOT / "setup.py"))["kernels_note"]
    return note


def test_a_build_says_where_kernels_come_from(
    kernels_note: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "there is no C++ compiler here" in kernels_note(())
    assert f"compiled at the first start, by {sys.executable} " in kernels_note(
        ("no-such-compiler", sys.executable)
    )
    monkeypatch.setenv("CXX", f"{sys.executable} -O2")
    assert f"compiled at the first start, by {sys.executable} " in kernels_note(())


def test_the_command_exists() -> None:
    for name, target in PROJECT["scripts"].items():
        assert callable(EntryPoint(name, target, "console_scripts").load())


def test_licence() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text(encoding="utf-8")


# ---------------------------------------------------------------- commands


def make(*arguments: str) -> str:
    return subprocess.run(
        ["make", "--no-print-directory", "-C", str(ROOT), *arguments],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make")


@needs_make
def test_make_alone_lists_every_target() -> None:
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    listed = re.findall(r"^make ([\w-]+)", make(), re.MULTILINE)
    assert sorted(listed) == sorted(" ".join(phony).split())


@needs_make
def test_the_environment_is_refreshed_when_the_versions_change_and_only_then(
    tmp_path: Path,
) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("bin/python", ".installed", ".installed-dev"):
        (tmp_path / ".venv" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".venv" / name).touch()
    later = (tmp_path / ".venv/.installed-dev").stat().st_mtime + 10
    os.utime(tmp_path / ".venv/bin/python", (later, later))  # a link to a newer interpreter
    assert "pip install" not in make("-C", str(tmp_path), "-n", "demo", "test")
    for name in ("pyproject.toml", "constraints.txt"):
        os.utime(tmp_path / name, (later, later))
        plan = make("-C", str(tmp_path), "-n", "demo", "test")
        assert plan.count("pip install") == 2
        assert "venv " not in plan.replace(".venv", "")  # the environment itself is re-used
        os.utime(tmp_path / name, (0, 0))


def test_continuous_integration_is_a_script_that_can_run() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in script.read_text()
