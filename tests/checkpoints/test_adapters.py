"""The folders of adapters: as peft saves them, and damaged or hostile ones."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from benchmarks.common.random_adapter import save_adapter
from ChatTTS.errors import AssetError, ConfigError
from ChatTTS.model.lora.names import adapter_folders, chosen_adapter
from ChatTTS.model.lora.reader import CONFIG, SPEAKER, WEIGHTS, read_adapter

from ..support.adapter_tools import make_adapter
from ..support.velocity_models import make_shape

SHAPE = make_shape(kv_heads=2)
PLACE = "base_model.model.layers.1.self_attn.q_proj.lora_"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_adapter(tmp_path / "one", SHAPE, rank=3)


def change(folder: Path, **settings: Any) -> None:
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    (folder / CONFIG).write_text(json.dumps(config | settings), "utf-8")


def put(folder: Path, **tensors: Tensor | None) -> None:
    """Change tensors of layer 1's queries, ``A`` and ``B``, or add others; None removes one."""
    found = load_file(folder / WEIGHTS)
    for name, tensor in tensors.items():
        key = f"{PLACE}{name}.weight" if name in "AB" else name.replace("__", ".")
        found.pop(key, None)
        if tensor is not None:
            found[key] = tensor
    save_file(found, folder / WEIGHTS)


def refusal(folder: Path) -> str:
    """Return the error of a folder; check that it names it."""
    with pytest.raises(AssetError) as caught:
        read_adapter(folder, "one", SHAPE)
    assert str(folder) in str(caught.value)
    return str(caught.value)


def test_reads_what_the_folder_holds(folder: Path) -> None:
    plain = read_adapter(folder, "one", SHAPE)
    assert plain.speaker is None
    assert len(plain.products) == 7 * SHAPE.num_hidden_layers
    stored = load_file(folder / WEIGHTS)
    own = plain.products[1, "q_proj"]
    assert torch.equal(own.down, stored[f"{PLACE}A.weight"])
    assert torch.equal(own.up, stored[f"{PLACE}B.weight"])
    # The fused matrix has the sums of all three, each in its own outputs.
    fused = plain.fused(SHAPE, 1, "qkv")
    assert fused is not None
    parts = [plain.products[1, f"{name}_proj"].whole() for name in "qkv"]
    assert torch.allclose(fused.whole(), torch.cat(parts), atol=1e-6)


def test_the_scale_is_that_of_peft(folder: Path) -> None:
    up = read_adapter(folder, "one", SHAPE).products[1, "q_proj"].up
    change(folder, lora_alpha=6)
    assert torch.equal(read_adapter(folder, "one", SHAPE).products[1, "q_proj"].up, 2 * up)
    change(folder, use_rslora=True)
    found = read_adapter(folder, "one", SHAPE).products[1, "q_proj"].up
    assert torch.allclose(found, 6 / 3**0.5 * up)
    change(folder, use_rslora=False, alpha_pattern={"layers.1.self_attn.q_proj": 12})
    adapter = read_adapter(folder, "one", SHAPE)
    assert torch.equal(adapter.products[1, "q_proj"].up, 4 * up)


def test_of_a_llama_with_a_head_and_in_half_precision(folder: Path) -> None:
    stored = load_file(folder / WEIGHTS)
    renamed = {
        key.replace("model.layers", "model.model.layers"): tensor.bfloat16()
        for key, tensor in stored.items()
    }
    save_file(renamed, folder / WEIGHTS)
    found = read_adapter(folder, "one", SHAPE).products[1, "q_proj"].down
    assert torch.equal(found, stored[f"{PLACE}A.weight"].bfloat16().float())


def test_the_digest_tells_adapters_apart(tmp_path: Path) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "a": {"seed": 1},
        "b": {"seed": 2},
        "c": {"seed": 1, "speaker": "x"},
        "d": {"seed": 1, "lora_alpha": 5},
    }
    digests = {
        make_adapter(tmp_path, SHAPE, name, **given).info.digest for name, given in kinds.items()
    }
    assert len(digests) == 4
    assert make_adapter(tmp_path, SHAPE, "e", seed=1).info.digest in digests


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no configuration": (lambda f: (f / CONFIG).unlink(), "save_pretrained"),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), "save_pretrained"),
    "not JSON": (lambda f: (f / CONFIG).write_text("{", "utf-8"), "not valid JSON"),
    "a list": (lambda f: (f / CONFIG).write_text("[]", "utf-8"), "no object"),
    "another kind": (lambda f: change(f, peft_type="IA3"), "only LORA"),
    "weight decomposition": (lambda f: change(f, use_dora=True), "use_dora"),
    "biases": (lambda f: change(f, bias="all"), "bias"),
    "whole modules": (lambda f: change(f, modules_to_save=["norm"]), "modules_to_save"),
    "another base": (lambda f: change(f, init_lora_weights="pissa"), "under the adapter"),
    "a base changed by gradients": (
        lambda f: change(f, init_lora_weights="lora_ga"),
        "under the adapter",
    ),
    "a cut base": (lambda f: change(f, kasa_config={"beta": 1e-4}), "kasa_config"),
    "a setting of the future": (lambda f: change(f, use_more=True), "use_more"),
    "a scale of text": (lambda f: change(f, use_rslora="false"), "use_rslora"),
    "another rank": (lambda f: change(f, r=4), "do not belong together"),
    "a rank of text": (lambda f: change(f, r="3"), "do not belong together"),
    "no scale": (lambda f: change(f, lora_alpha=None), "must be a number"),
    "a huge scale": (lambda f: change(f, lora_alpha=1e30), "too large"),
    "a slow pattern": (lambda f: change(f, rank_pattern={"(a+)+$": 3}), "no regular"),
    "patterns in a list": (lambda f: change(f, alpha_pattern=[1]), "an object"),
    "not finite": (lambda f: put(f, A=torch.full((3, 64), float("nan"))), "NaN"),
    "another width": (lambda f: put(f, A=torch.zeros(3, 65)), "another model"),
    "other outputs": (lambda f: put(f, B=torch.zeros(63, 3)), "another model"),
    "no rank": (lambda f: put(f, A=torch.zeros(0, 64), B=torch.zeros(64, 0)), "a rank of 1"),
    "a rank of thousands": (
        lambda f: put(f, A=torch.zeros(600, 64), B=torch.zeros(64, 600)),
        "a rank of 1",
    ),
    "three dimensions": (lambda f: put(f, A=torch.zeros(3, 8, 8)), "a rank of 1"),
    "whole numbers": (lambda f: put(f, A=torch.zeros(3, 64, dtype=torch.int32)), "needs floats"),
    "half of a pair": (lambda f: put(f, B=None), "lora_B"),
    "a layer that is not there": (
        lambda f: put(
            f, base_model__model__layers__2__self_attn__q_proj__lora_A__weight=torch.zeros(3, 64)
        ),
        "belongs to no projection",
    ),
    "a projection in another module": (
        lambda f: put(
            f, base_model__model__layers__1__mlp__q_proj__lora_A__weight=torch.zeros(3, 64)
        ),
        "belongs to no projection",
    ),
    "an unknown tensor": (lambda f: put(f, embed_tokens=torch.zeros(3)), "belongs to no"),
    "two for one place": (
        lambda f: put(
            f, base_model__model__layers__01__self_attn__q_proj__lora_A__weight=torch.zeros(3, 64)
        ),
        "two tensors",
    ),
    "nothing": (lambda f: save_file({}, f / WEIGHTS), "no tensors"),
    "a pickle": (lambda f: (f / WEIGHTS).write_bytes(pickle.dumps({})), "cannot be read"),
    "cut off": (lambda f: os.truncate(f / WEIGHTS, 900), "cannot be read"),
    "a speaker in another encoding": (lambda f: (f / SPEAKER).write_bytes(b"\xff"), "speaker"),
    "a long speaker": (lambda f: (f / SPEAKER).write_bytes(b"a" * 100_000), "longer than"),
}


@pytest.mark.parametrize(("damage", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_refuses(folder: Path, damage: Callable[[Path], object], reason: str) -> None:
    damage(folder)
    assert reason in refusal(folder)


@pytest.mark.parametrize("kind", ["cut", "nan"])
def test_a_damaged_file_is_not_the_checkpoints(folder: Path, kind: str) -> None:
    if kind == "cut":
        os.truncate(folder / WEIGHTS, 900)
    else:
        put(folder, A=torch.full((3, 64), float("inf")))
    message = refusal(folder)
    assert "chattts download" not in message
    assert "train the adapter again" in message


def test_settings_that_change_nothing(folder: Path) -> None:
    change(folder, lora_dropout=0.1, peft_version="0.99", eva_config={"rho": 2.0}, use_more=None)
    change(folder, init_lora_weights="eva", exclude_modules=["x"], layers_to_transform=[0, 1])
    assert read_adapter(folder, "one", SHAPE).products


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_waits_for_no_pipe(folder: Path) -> None:
    for name, reason in ((CONFIG, "a pipe"), (WEIGHTS, "a pipe")):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert reason in refusal(folder)
        (folder / name).unlink()
        save_adapter(folder, SHAPE, rank=3)


def test_old_pickled_weights_are_named(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")
    assert "safe_serialization" in refusal(folder)


# ---------------------------------------------------------------- names


def test_folders_by_their_names(tmp_path: Path) -> None:
    assert adapter_folders(None) == {}
    assert adapter_folders(str(tmp_path)) == {"default": tmp_path}
    assert adapter_folders({"anna": tmp_path}) == {"anna": tmp_path}


@pytest.mark.parametrize(
    "given",
    [
        {"": "x"},
        {"base": "x"},
        {"../x": "x"},
        {"a b": "x"},
        {"a" * 65: "x"},
        {3: "x"},
        {"a": 3},
        {"a": ""},
        {"a": "x\0y"},
        7,
        {f"a{i}": "x" for i in range(65)},
    ],
    ids=str,
)
def test_names_that_no_adapter_has(given: Any) -> None:
    with pytest.raises(ConfigError, match="adapter"):
        adapter_folders(given)


def test_which_adapter_a_request_means() -> None:
    assert chosen_adapter(None, ("anna",)) is None
    assert chosen_adapter(None, ("anna", "default")) == "default"
    assert chosen_adapter("base", ("default",)) is None
    assert chosen_adapter("anna", ("anna",)) == "anna"
    with pytest.raises(ConfigError, match="anna"):
        chosen_adapter("bert", ("anna",))
    with pytest.raises(ConfigError, match="none is loaded"):
        chosen_adapter("bert", ())
