"""Contradictory configurations are named in an error, never in a traceback of a library."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from ChatTTS.checkpoints.assets import AssetFolder
from ChatTTS.errors import AssetError, ConfigError
from ChatTTS.loading import load_model
from ChatTTS.model.devices.placement import choose_placement, fast_dtype
from ChatTTS.model.gpt import EngineOptions

from ..support.places import DATA

MODEL_A = DATA / "model-a"


def load_changed(tmp_path: Path, file: str, keys: tuple[str, ...], value: Any) -> None:
    """Load model-a with one value of one of its JSON files changed."""
    shutil.copytree(MODEL_A, tmp_path / "model")
    path = tmp_path / "model" / "asset" / file
    values = json.loads(path.read_text(encoding="utf-8"))
    part = values
    for key in keys[:-1]:
        part = part.setdefault(key, {})
    part[keys[-1]] = value
    path.write_text(json.dumps(values), encoding="utf-8")
    load_model(
        AssetFolder(tmp_path / "model", "custom"),
        choose_placement("cpu"),
        EngineOptions(use_vllm=False),
    )


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        ("spk_stat", 5, "spk_stat"),
        ("defaults.speakers", ["clara"], "defaults.speakers"),
        ("defaults.speakers", {"clara": 5}, "defaults.speakers"),
        ("defaults.characters", 5, "defaults.characters"),
        ("defaults.language", 5, "defaults.language"),
        ("defaults.refine_trained", "no", "defaults.refine_trained"),
        ("defaults.alignment_delay", 5, "between 0 and 1"),
        ("defaults.alignment_delay", "long", "a number"),
        ("defaults.code", [1], "defaults.code"),
        ("defaults.code", {"temperature": "warm"}, "temperature"),
        ("defaults.refine", {"spk_emb": "clara"}, "spk_emb"),
        ("dvae.vq.levels", 5, "levels"),
        ("dvae.vq.levels", [5, 5], "levels is 25"),
        ("dvae.vq.R", 3, "G . dvae.vq.R is 6"),
        ("dvae.encoder.idim", 8, "dvae.encoder.idim is 8"),
        ("decoder.idim", 10**4, "gpt.hidden_size is 64"),
        ("decoder.idim", 10**9, "decoder.idim must be a whole number from 1 to 65536"),
    ],
)
def test_wrong_sizes_and_defaults_are_named(
    tmp_path: Path, keys: str, value: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_changed(tmp_path, "config.json", tuple(keys.split(".")), value)
    assert "config.json" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_act", "nonsense"),
        ("head_dim", -1),
        ("rope_parameters", 5),
        ("rope_parameters", {"rope_type": "nonsense"}),
    ],
)
def test_an_error_names_a_llama_config_that_describes_no_llama(
    tmp_path: Path, key: str, value: Any
) -> None:
    with pytest.raises(AssetError, match="describes no Llama"):
        load_changed(tmp_path, "gpt/config.json", (key,), value)


def test_auto_on_a_torch_that_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "_is_avx512_bf16_supported", raising=False)
    assert fast_dtype(torch.device("cpu")) is torch.float32
