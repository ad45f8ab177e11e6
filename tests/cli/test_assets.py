"""``chattts download``, ``verify``, ``cache`` and ``compare``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ChatTTS.audio import save
from ChatTTS.checkpoints import assets, hashes
from ChatTTS.cli import main
from ChatTTS.errors import AssetError
from ChatTTS.utils.folders import cache_folder

Run = Callable[..., tuple[int, str, str]]


pytestmark = pytest.mark.usefixtures("empty_home")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


# ---------------------------------------------------------------- download


def test_download_tells_where(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def locate(source: str, force_redownload: bool = False) -> assets.AssetFolder:
        asked.append((source, force_redownload))
        return assets.AssetFolder(Path("there"), "huggingface")

    checked: list[assets.AssetFolder] = []
    monkeypatch.setattr(assets, "locate", locate)
    monkeypatch.setattr(hashes, "check_hashes", checked.append)
    status, out, err = run("download")
    assert (status, out) == (0, "there\n")
    assert "--model huggingface" in err
    monkeypatch.setattr(assets, "is_cached", lambda: True)
    assert "already downloaded" in run("download")[2]
    assert "already downloaded" not in run("download", "--force")[2]
    assert asked == [("huggingface", False), ("huggingface", False), ("huggingface", True)]
    assert len(checked) == 3


def test_a_failed_download_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssetError("downloading failed")

    monkeypatch.setattr(assets, "locate", fail)
    assert run("download") == (1, "", "chattts: error: downloading failed\n")


# ---------------------------------------------------------------- verify


def test_verify_the_bundled_voice(run: Run) -> None:
    for arguments in ([], ["bundled"]):
        status, out, _ = run("verify", *arguments)
        assert status == 0
        assert "asset/gpt/model.safetensors" in out
        assert "no published hash" in out


def test_verify_shows_what_is_different_and_missing(run: Run, tmp_path: Path) -> None:
    shutil.copytree(assets.locate("bundled").path / "asset", tmp_path / "mine" / "asset")
    (tmp_path / "mine" / "asset" / "Vocos.safetensors").unlink()
    status, out, err = run("verify", "mine")
    assert status == 1
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert rows["asset/Vocos.safetensors"].endswith("missing")
    assert "different" in rows["asset/gpt/model.safetensors"]
    assert "expected" in err
    assert "not the published model" in err


def test_verify_names_a_missing_model(run: Run) -> None:
    status, out, err = run("verify", "huggingface")
    assert (status, out) == (1, "")
    assert "chattts download" in err
    status, _, err = run("verify", "nowhere")
    assert status == 1
    assert "nowhere" in err


# ---------------------------------------------------------------- cache


def filled_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The two caches with 1500 bytes each."""
    hub = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub))
    folders = {"huggingface": hub / "models--2Noise--ChatTTS", "own": cache_folder()}
    for folder in folders.values():
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(bytes(1500))
    return folders


def test_cache_says_where_and_how_big(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = filled_caches(tmp_path, monkeypatch)
    for arguments in ([], ["list"]):
        status, out, _ = run("cache", *arguments)
        assert status == 0
        rows = {line.split()[0]: line for line in out.splitlines()}
        for name, folder in folders.items():
            assert "2 kB" in rows[name]
            assert str(folder) in rows[name]
        assert str(assets.locate("bundled").path) in rows["bundled"]
        assert str(tmp_path / "data") in rows["voices"]


def test_cache_clear_deletes_what_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = filled_caches(tmp_path, monkeypatch)
    status, _, err = run("cache", "clear")
    assert status == 2
    assert "Delete huggingface (2 kB), own (2 kB)?" in err
    assert "-y" in err
    status, _, err = run("cache", "clear", "elsewhere", "-y")
    assert status == 1
    assert "'elsewhere'" in err
    assert all(folder.exists() for folder in folders.values())
    status, _, err = run("cache", "clear", "own", "-y")
    assert status == 0
    assert str(folders["own"]) in err
    assert not folders["own"].exists()
    assert folders["huggingface"].exists()
    assert run("cache", "clear", "-y")[0] == 0
    assert not folders["huggingface"].exists()
    assert assets.locate("bundled").missing() == []


# ---------------------------------------------------------------- compare


@pytest.fixture
def tones(empty_home: None) -> None:
    tone = np.sin(np.arange(4800) / 9).astype(np.float32) / 2
    save("a.wav", tone)
    save("same.wav", tone)
    save("louder.wav", tone * 1.02)
    save("longer.wav", np.append(tone, tone[:100]))


@pytest.mark.usefixtures("tones")
@pytest.mark.parametrize(
    ("other", "tolerance", "status"),
    [
        ("same.wav", None, 0),
        ("louder.wav", None, 0),
        ("longer.wav", None, 0),
        ("same.wav", "0", 0),
        ("louder.wav", "0", 1),
        ("louder.wav", "0.02", 0),
        ("longer.wav", "1", 1),
    ],
)
def test_compare(other: str, tolerance: str | None, status: int, run: Run) -> None:
    options = [] if tolerance is None else ["--tolerance", tolerance]
    found, out, _ = run("compare", "a.wav", other, *options)
    assert found == status
    assert out.startswith("identical" if other == "same.wav" else "different")


@pytest.mark.usefixtures("tones")
def test_compare_draws(run: Run) -> None:
    pytest.importorskip("matplotlib")
    status, _, err = run("compare", "a.wav", "louder.wav", "--plot", "d.png")
    assert status == 0
    assert "drawn in d.png" in err
    assert Path("d.png").read_bytes().startswith(b"\x89PNG")


def test_compare_names_a_file_that_is_not_there(run: Run) -> None:
    status, out, err = run("compare", "gone.wav", "b.wav")
    assert (status, out) == (1, "")
    assert err == "chattts: error: gone.wav does not exist\n"
