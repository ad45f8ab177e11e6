"""The files with the attention heads that a search chose for a checkpoint."""

from __future__ import annotations

import json
import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ChatTTS.checkpoints.assets import AssetFolder, Origin
from ChatTTS.checkpoints.hashes import verify
from ChatTTS.config import AlignmentHeads, Config
from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.loading import sidecar_files
from ChatTTS.loading.sidecar_files import stored_heads
from ChatTTS.pipeline.alignment.head_scores import HeadChoice, Score, ScoredHead
from ChatTTS.utils.cache_files import CacheFolder
from ChatTTS.utils.folders import cache_folder

from ..support.places import DATA

pytestmark = pytest.mark.usefixtures("empty_home")

HEADS = ((1, 2), (0, 3))
CHOICE = HeadChoice(HEADS, Score(0.9, 0.8, 0.7), (ScoredHead(1, 2, Score(0.8, 0.7, 0.6)),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    shutil.copytree(DATA / "model-a", path)
    return path


def config_of(folder: Path) -> Config:
    return Config.from_file(folder / "asset" / "config.json")


def keep(folder: Path, origin: Origin = "custom") -> Path | None:
    stored = stored_heads(AssetFolder(folder, origin), config_of(folder))
    return stored.put(CHOICE.heads, CHOICE)


def heads_of(folder: Path, origin: Origin = "custom") -> AlignmentHeads:
    """Return the heads that loading finds stored."""
    return stored_heads(AssetFolder(folder, origin), config_of(folder)).known or ()


def beside(folder: Path) -> Path:
    return folder / "asset" / "alignment_heads.json"


@pytest.mark.parametrize("origin", ["custom", "local"])
def test_a_choice_is_kept_beside_a_checkpoint_of_the_users(folder: Path, origin: Origin) -> None:
    assert heads_of(folder, origin) == ()
    files = set(os.listdir(folder / "asset"))
    assert keep(folder, origin) == beside(folder)
    assert heads_of(folder, origin) == HEADS
    assert set(os.listdir(folder / "asset")) - files == {"alignment_heads.json"}
    assert not cache_folder().exists()
    told = json.loads(beside(folder).read_text(encoding="utf-8"))
    assert told["version"] == 1
    assert told["score"]["total"] == pytest.approx(CHOICE.joint.total, abs=1e-3)
    assert [told["scores"][0][name] for name in ("layer", "head", "sharpness")] == [1, 2, 0.6]
    assert heads_of(folder, "huggingface") == ()  # no published file


@pytest.mark.parametrize("origin", ["huggingface", "bundled"])
def test_other_choices_are_kept_in_the_cache(folder: Path, origin: Origin) -> None:
    path = keep(folder, origin)
    assert path is not None
    assert path.parent == cache_folder() / "heads"
    assert len(path.stem) == 64
    assert heads_of(folder, origin) == HEADS
    assert not beside(folder).exists()
    weights = folder / "asset" / "Embed.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")  # another checkpoint
    assert heads_of(folder, origin) == ()


def test_a_folder_that_is_read_only_has_its_choice_in_the_cache(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    path = keep(folder)
    assert path is not None
    assert path.parent == cache_folder() / "heads"
    assert heads_of(folder) == HEADS


def test_a_disk_that_refuses_is_no_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sidecar_files, "atomic_write", full)
    path = keep(folder)
    assert path is not None
    assert path.parent == cache_folder() / "heads"
    monkeypatch.setattr(CacheFolder, "writing", full)
    assert keep(folder) is None
    assert "No space left" in caplog.text


def test_heads_in_the_configuration_come_first(folder: Path) -> None:
    beside(folder).write_text("damaged", encoding="utf-8")
    config = config_of(folder)
    named = replace(config, defaults=replace(config.defaults, alignment_heads=((0, 0),)))
    assert stored_heads(AssetFolder(folder, "custom"), named).known is None


DAMAGED = [
    ("", "Expecting value"),
    ("[]", "version 1"),
    ("{}", "version 1"),
    ('{"version": 2, "heads": [[0, 0]]}', "version 1"),
    ('{"version": 1}', "pairs of a layer and a head"),
    ('{"version": 1, "heads": []}', "pairs of a layer and a head"),
    ('{"version": 1, "heads": {"a": 1}}', "pairs of a layer and a head"),
    ('{"version": 1, "heads": [[0, true]]}', "pairs of a layer and a head"),
    ('{"version": 1, "heads": [[0, 0, 0]]}', "pairs of a layer and a head"),
    ('{"version": 1, "heads": [[0, 1.0]]}', "pairs of a layer and a head"),
    ('{"version": 1, "heads": [[3, 0]]}', "layers 0 to 2 with heads 0 to 3"),
    ('{"version": 1, "heads": [[0, -1]]}', "layers 0 to 2 with heads 0 to 3"),
    ('{"version": 1, "heads": [[0, 0], [0, 0]]}', "different heads"),
    ('{"version": 1, "version": 1, "heads": [[0, 0]]}', "twice"),
]


@pytest.mark.parametrize(("content", "reason"), DAMAGED)
def test_a_damaged_file_is_one_error_with_the_remedy(
    folder: Path, content: str, reason: str
) -> None:
    beside(folder).write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        heads_of(folder)
    assert str(beside(folder)) in str(caught.value)
    assert reason in str(caught.value)
    assert "delete the file, and run `chattts align`" in str(caught.value)


def test_a_file_that_is_no_file_is_an_error(folder: Path) -> None:
    beside(folder).mkdir()
    with pytest.raises(ConfigError, match=r"alignment_heads\.json: it is a folder"):
        heads_of(folder)
    beside(folder).rmdir()
    beside(folder).symlink_to(folder / "gone")
    with pytest.raises(ConfigError, match="delete the file"):
        heads_of(folder)


def test_a_damaged_file_ends_loading(folder: Path) -> None:
    beside(folder).write_text('{"version": 1, "heads": [[9, 0]]}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"alignment_heads\.json: .* has layer 9"):
        Chat().load_or_raise("custom", custom_path=folder, device="cpu")


@pytest.mark.parametrize(("content", "reason"), [DAMAGED[0], DAMAGED[10]])
def test_a_damaged_file_in_the_cache_is_named_and_not_used(
    folder: Path, content: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = keep(folder, "huggingface")
    assert path is not None
    path.write_text(content, encoding="utf-8")
    assert heads_of(folder, "huggingface") == ()
    [record] = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert str(path) in record.getMessage()
    assert reason in record.getMessage()
    assert keep(folder, "huggingface") == path
    assert heads_of(folder, "huggingface") == HEADS


def test_verify_lists_the_file(folder: Path) -> None:
    keep(folder)
    files = {file.name: file.status for file in verify(AssetFolder(folder, "custom")).files}
    assert files["asset/alignment_heads.json"] == "unknown"
