"""Contradictory configurations are named in an error, never in a traceback of a library."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from ChatTTS.checkpoints.assets import AssetFolder
from ChatTTS.config import Config
from ChatTTS.config.config import GPTConfig
from ChatTTS.errors import AssetError, ConfigError
from ChatTTS.loading import load_model
from ChatTTS.model.devices.placement import choose_placement, fast_dtype
from ChatTTS.model.gpt import EngineOptions
from ChatTTS.model.llama.config import LlamaShape, read_llama_shape

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


def test_the_sizes_of_a_checkpoint_without_a_config_are_the_published_ones(tmp_path: Path) -> None:
    given = Config.from_file(tmp_path / "config.json")
    embed = {"hidden_size": 768, "num_audio_tokens": 626, "num_text_tokens": 21178, "num_vq": 4}
    llama = {"intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 20}
    assert asdict(given.gpt) == {**embed, **llama, "max_position_embeddings": 4096}
    assert asdict(given.embed) == embed
    layers = {"n_layer": 12, "bn_dim": 128}
    assert asdict(given.decoder) == {"idim": 384, "odim": 384, "hidden": 512, **layers}
    assert asdict(given.dvae.encoder) == {"idim": 512, "odim": 1024, "hidden": 256, **layers}
    assert asdict(given.dvae.decoder) == {"idim": 512, "odim": 512, "hidden": 256, **layers}
    assert asdict(given.dvae.vq) == {"dim": 1024, "levels": (5, 5, 5, 5), "G": 2, "R": 2}
    vocos = {"dim": 512, "intermediate_dim": 1536, "num_layers": 8}
    mel = {"sample_rate": 24_000, "n_fft": 1024, "hop_length": 256, "n_mels": 100}
    assert asdict(given.vocos) == {**vocos, "mel": {**mel, "padding": "center"}}


def test_a_llama_that_says_nothing_is_a_plain_one(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    shape = read_llama_shape(path, GPTConfig())
    assert (shape.num_key_value_heads, shape.head_dim, shape.hidden_act) == (12, 64, "silu")
    assert (shape.rms_norm_eps, shape.rope_theta, shape.rope_scaling) == (1e-6, 10_000, {})
    assert (shape.attention_bias, shape.mlp_bias) == (False, False)
    assert shape == LlamaShape(768, 3072, 12, 20, 4096, 12, 64)


def test_the_least_sizes_of_a_vocoder() -> None:
    values = json.loads((MODEL_A / "asset" / "config.json").read_text(encoding="utf-8"))
    mel, head = (values["vocos"][part]["init_args"] for part in ("feature_extractor", "head"))
    least = {"sample_rate": 1000, "n_fft": 64, "hop_length": 32}
    mel.update(least)
    head.update(n_fft=64, hop_length=32)
    assert asdict(Config.from_dict(values).vocos.mel).items() >= least.items()
    for name, size in least.items():
        mel.update({**least, name: size - 1})
        with pytest.raises(ConfigError, match=f"{name} must be a whole number from {size} to"):
            Config.from_dict(values)


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
        ("rope_parameters", {"rope_type": "longrope", "short_factor": 5}),
        ("rope_parameters", {"rope_type": "longrope", "short_factor": [1.0] * 2000}),
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
