"""``chattts doctor``: its report on this machine and on simulated ones."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from ChatTTS.checkpoints import assets
from ChatTTS.cli import doctor, main, packages
from ChatTTS.coexistence import REMEDY
from ChatTTS.errors import AssetError
from ChatTTS.model.kernels.cpu import library
from ChatTTS.model.kernels.cpu.build import BuildError
from ChatTTS.utils import machine

from ..support.places import ROOT
from ..support.sound_tools import FakeLibrary, hide_portaudio

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(assets, "is_cached", lambda: False)


def report(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main(["doctor"])
    return status, capsys.readouterr().out


def line(out: str, name: str) -> str:
    return next(text for text in out.splitlines() if f" {name} " in text)


# ---------------------------------------------------------------- the report


def test_a_good_installation(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = report(capsys)
    assert status == 0
    assert out.endswith("Everything that is needed is installed.\n")
    for package in packages.REQUIRED:
        assert not line(out, package.name).startswith(" !")
    assert sys.executable in line(out, "python")
    assert "dtype auto takes" in line(out, "by default")
    assert "wav, flac, mp3" in line(out, "sound files")
    assert "chattts download" in line(out, "huggingface")


def test_what_is_missing_is_mended_by_one_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"soxr": None, "transformers": "6.3.0", "numpy": "1.2"}

    def version(name: str) -> str:
        found = versions.get(name, "")
        if found is None:
            raise PackageNotFoundError(name)
        return found or importlib.metadata.version(name)

    monkeypatch.setattr(packages, "version", version)
    status, out = report(capsys)
    assert status == 1
    assert line(out, "soxr").startswith(" !")
    assert "missing" in line(out, "soxr")
    assert "6.3.0 does not fit transformers>=4.45,<6" in line(out, "transformers")
    mends = out.partition("To fix it:\n")[2].splitlines()
    assert len(mends) == 1
    assert mends[0].endswith("-m pip install 'transformers>=4.45,<6' 'numpy>=1.26' 'soxr>=0.5'")
    assert sys.executable in mends[0]


def test_what_does_not_import_is_installed_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> SimpleNamespace:
        if name == "soxr":
            raise OSError("undefined symbol: x\nand more")
        return SimpleNamespace()

    monkeypatch.setattr(packages, "importlib", SimpleNamespace(import_module=broken))
    status, out = report(capsys)
    assert status == 1
    assert "does not import: undefined symbol: x" in line(out, "soxr")
    assert out.endswith("-m pip install --force-reinstall soxr\n")


def test_optional_packages_are_no_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = packages.Package("not-there-at-all>=1", "for a test")
    monkeypatch.setattr(doctor, "OPTIONAL", (missing,))
    status, out = report(capsys)
    assert status == 0
    assert line(out, "not-there-at-all").startswith(" -")
    assert "pip install 'not-there-at-all>=1'" in out


def test_the_sound_device(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = FakeLibrary.installed(monkeypatch)
    assert line(report(capsys)[1], "playback").split()[-4:] == ["Speaker,", "at", "24000", "Hz"]
    library.has_device = False
    status, out = report(capsys)
    assert status == 0
    assert line(out, "playback").startswith(" -")
    assert "no audio output device" in line(out, "playback")


def test_without_portaudio_there_is_a_note(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_portaudio(monkeypatch)
    status, out = report(capsys)
    assert status == 0
    assert line(out, "playback").startswith(" -")
    assert "apt install libportaudio2" in line(out, "playback")


def test_without_a_compiler_there_is_a_note(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise BuildError("no C++ compiler was found; install one")

    monkeypatch.setattr(library, "load", fail)
    status, out = report(capsys)
    assert status == 0
    assert line(out, "CPU kernels").startswith(" -")
    assert "install one" in line(out, "CPU kernels")


def test_kernels_that_cannot_be_forced_are_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHATTTS_KERNELS", "x86-64-v99")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert line(out, "CPU kernels").startswith(" !")
    assert "there is no such variant" in out


def test_the_published_package_in_the_same_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise ImportError("files of two distributions")

    monkeypatch.setattr(doctor, "check_single_distribution", refuse)
    status, out = report(capsys)
    assert status == 1
    assert "files of two distributions" in out
    assert out.endswith(f"  {REMEDY}\n")


def test_a_damaged_bundled_voice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssetError("files are gone")

    monkeypatch.setattr(assets, "locate", fail)
    status, out = report(capsys)
    assert status == 1
    assert "files are gone" in line(out, "bundled")
    assert "--force-reinstall chattts-velocity" in out


def test_more_threads_than_cores(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    monkeypatch.setattr(machine, "affinity", lambda: 64)
    monkeypatch.setattr(machine, "cgroup_limit", lambda *_: 1.5)
    _, out = report(capsys)
    assert "1.5 usable" in line(out, "cores")
    assert "--threads 2" in out


def test_nothing_but_python_is_enough_to_find_out(tmp_path: Path) -> None:
    """Without any other package the help works, and doctor names them all."""
    script = f"""
import sys
sys.path[:] = [p for p in sys.path if "site-packages" not in p] + [{str(ROOT)!r}]
from ChatTTS.cli import main
print(main(["--help"]), main(["say", "--help"]), main(["say", "hi"]))
sys.exit(main(["doctor"]))
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "\n0 0 1\n" in done.stdout
    assert "Traceback" not in done.stderr
    assert done.stderr.count("`chattts doctor` shows what is missing") == 1
    wanted = [package.requirement for package in packages.REQUIRED]
    command = done.stdout.splitlines()[-1]
    assert [name for name in wanted if name not in command] == []


# ---------------------------------------------------------------- packages


def test_the_list_of_packages_is_that_of_the_project() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"]
    for_tests = ("dev", "reference")
    optional = [
        line
        for name, lines in extras.items()
        if name not in for_tests
        for line in lines
        if not line.startswith(project["name"])  # `all` names the others
    ]
    for declared, listed in (
        (project["dependencies"], packages.REQUIRED),
        (optional, packages.OPTIONAL),
    ):
        here = [Requirement(requirement) for requirement in declared]
        expected = {(r.name, r.specifier) for r in here if not r.marker or r.marker.evaluate()}
        found = [Requirement(package.requirement) for package in listed]
        assert {(r.name, r.specifier) for r in found} == expected


@pytest.mark.parametrize(
    ("found", "requirement", "fits"),
    [
        ("2.13.0+cpu", "torch>=2.4", True),
        ("2.4", "torch>=2.4", True),
        ("2.4.0", "torch>=2.4", True),
        ("2.4", "torch>=2.4.0", True),
        ("0.2", "x<0.2.0", False),
        ("2.3.9", "torch>=2.4", False),
        ("5.23.0", "transformers>=4.45,<6", True),
        ("6.0.0", "transformers>=4.45,<6", False),
        ("4.44.9", "transformers>=4.45,<6", False),
        ("0.1.0", "x>=0.1.0,<0.2", True),
        ("0.2.0", "x>=0.1.0,<0.2", False),
        ("10.0", "x>=9.5", True),
        ("1.0rc1", "x>=1", True),
        ("1", "x", True),
    ],
)
def test_ranges(found: str, requirement: str, fits: bool) -> None:
    assert packages.satisfies(found, requirement) is fits


# ---------------------------------------------------------------- the machine


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        # The tightest limit of a control group and its ancestors applies.
        (
            {
                "proc/self/cgroup": "0::/outer/inner\n",
                "sys/fs/cgroup/outer/cpu.max": "200000 100000\n",
                "sys/fs/cgroup/outer/inner/cpu.max": "400000 100000\n",
            },
            2.0,
        ),
        # A container sees its own control group as the root, although its path is that of the host.
        (
            {
                "proc/self/cgroup": "0::/docker/abc\n",
                "sys/fs/cgroup/cpu.max": "300000 100000\n",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/x/cpu.max": "1 100000\n",
            },
            0.5,
        ),
    ],
)
def test_limits_of_containers(files: dict[str, str], cores: float | None, tmp_path: Path) -> None:
    root = write(tmp_path, files)
    assert machine.cgroup_limit(root) == cores
    if cores is not None:
        assert machine.usable_cores(root) == min(cores, machine.affinity())


def test_the_cpu(tmp_path: Path) -> None:
    info = (
        "processor\t: 0\nmodel name\t: A Fine CPU\nflags\t\t: fpu avx2 amx_tile\n\n"
        "processor\t: 1\nmodel name\t: Another\nflags\t\t: fpu\n"
    )
    root = write(tmp_path, {"proc/cpuinfo": info})
    assert machine.cpu_model(root) == "A Fine CPU"
    assert machine.cpu_features(root) == ["avx2", "amx_tile"]
    assert machine.cpu_model(tmp_path / "nowhere")
    assert machine.cpu_features(tmp_path / "nowhere") == []
