"""The folder that a download goes to if the caller names one."""

import shutil
from pathlib import Path

import huggingface_hub.constants
import pytest

from ChatTTS.checkpoints.assets import AssetFolder, is_cached, locate
from ChatTTS.errors import AssetError

from ..support.asset_tools import Hub
from ..support.places import DATA

MODEL_A = DATA / "model-a"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Hub:
    """An empty hub that cannot be reached."""
    cache = tmp_path_factory.mktemp("hub") / "cache"
    return Hub().instead_of_the_real_one(monkeypatch, cache)


def test_local_downloads_into_the_path_that_is_named(hub: Hub, tmp_path: Path) -> None:
    hub.cached = hub.online = MODEL_A
    mine = tmp_path / "mine"
    assert locate("local", custom_path=mine) == AssetFolder(mine, "local")
    assert (mine / "asset" / "DVAE.safetensors").is_file()
    assert hub.asked == ["download"]
    locate("local", custom_path=mine)
    assert hub.asked == ["download"], "what is there is taken"
    locate("local", custom_path=mine, force_redownload=True)
    assert hub.asked == ["download", "forced download"]


def test_only_a_download_that_was_cut_off_is_completed(hub: Hub, tmp_path: Path) -> None:
    hub.online = MODEL_A
    model = Path(shutil.copytree(MODEL_A, tmp_path / "model"))
    (model / "asset" / "DVAE.safetensors").unlink()
    with pytest.raises(AssetError, match=r"DVAE\.safetensors"):
        locate("local", custom_path=model)
    assert hub.asked == [], "the user's own files are not mixed with downloads"
    (model / ".cache" / "huggingface").mkdir(parents=True)
    assert locate("local", custom_path=model).missing() == []


def test_a_path_for_the_hub_is_its_cache(hub: Hub, tmp_path: Path) -> None:
    hub.cached = tmp_path  # the default cache is not searched
    hub.online = MODEL_A
    mine = tmp_path / "caches"
    assert locate("huggingface", custom_path=mine) == AssetFolder(MODEL_A, "huggingface")
    assert list(hub.caches) == [mine]
    locate("huggingface", custom_path=str(mine))
    assert hub.asked == ["download"]


def test_without_a_folder_of_the_checkpoint_the_cache_is_not_searched(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub.cached = MODEL_A
    assert is_cached()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
    assert not is_cached()
