"""The model loader: from a checkpoint's files to parts that compute.

Tested are its checks, packing, fallbacks, and the share of the machine's memory that it takes.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ChatTTS.errors import AssetError, ChatTTSError, ConfigError, EngineUnavailableError
from ChatTTS.model.devices import placement
from ChatTTS.model.kernels.cpu.build import BuildError
from ChatTTS.model.kernels.cpu.library import Team
from ChatTTS.model.llama.weights import LlamaFile
from ChatTTS.model.velocity import model_loader
from ChatTTS.model.velocity.backends.cpu.llama import NativeLlama
from ChatTTS.model.velocity.backends.cpu.packing import PackedLinear
from ChatTTS.model.velocity.backends.cpu.sampler import NativeSampler
from ChatTTS.model.velocity.backends.torch.sampler import TorchSampler
from ChatTTS.model.velocity.configs import CacheConfig, EngineArgs
from ChatTTS.model.velocity.layers import Llama
from ChatTTS.model.velocity.loaded_model import LoadedModel
from ChatTTS.model.velocity.model_loader import ModelLoader
from ChatTTS.model.velocity.worker import Worker
from ChatTTS.utils import machine

from ...support.places import DATA
from ...support.velocity_models import (
    change_json,
    copy_checkpoint,
    make_shape,
    make_team,
    make_tensors,
    save_llama,
)


def load(folder: Path = DATA / "model-a", **changes: Any) -> LoadedModel:
    settings: dict[str, Any] = {"device": "cpu", "num_threads": 1, **changes}
    args = EngineArgs(folder, **settings)
    return ModelLoader(args.create_engine_config()).load()


@pytest.fixture
def _no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> None:
        raise BuildError("no C++ compiler was found")

    monkeypatch.setattr(model_loader, "Team", refuse)


@pytest.fixture
def team() -> Team:
    return make_team(1)


# ---------------------------------------------------------------- every tensor accounted for


def change_weights(folder: Path, **changes: Tensor | None) -> None:
    path = folder / "asset" / "gpt" / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()} | changes
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path)


@pytest.mark.parametrize(
    "name", ["norm.weight", "layers.2.self_attn.k_proj.weight", "layers.0.input_layernorm.weight"]
)
def test_a_missing_or_misshapen_tensor_is_named(tmp_path: Path, name: str) -> None:
    folder = copy_checkpoint(tmp_path)
    for damage in (None, torch.zeros(7, 3), torch.zeros(0)):
        change_weights(folder, **{name: damage})
        with pytest.raises(AssetError, match=name):
            load(folder)


def test_a_tensor_without_a_use_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = copy_checkpoint(tmp_path)
    change_weights(folder, **{"layers.3.mlp.up_proj.weight": torch.zeros(2)})
    load(folder)
    unused = [r for r in caplog.records if "nothing uses" in r.getMessage()]
    assert len(unused) == 1
    assert "layers.3.mlp.up_proj.weight" in unused[0].getMessage()
    assert "embed_tokens" not in unused[0].getMessage()


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_act": "gelu"},
        {"attention_bias": True},
        {"mlp_bias": True},
    ],
)
def test_a_llama_of_another_kind(tmp_path: Path, change: dict[str, object]) -> None:
    folder = copy_checkpoint(tmp_path)
    change_json(folder / "asset" / "gpt" / "config.json", **change)
    with pytest.raises(EngineUnavailableError, match="use_vllm"):
        load(folder)


@pytest.mark.parametrize("change", [{"num_key_value_heads": 3}, {"head_dim": 15}])
def test_a_llama_of_no_kind(tmp_path: Path, change: dict[str, object]) -> None:
    folder = copy_checkpoint(tmp_path)
    change_json(folder / "asset" / "gpt" / "config.json", **change)
    with pytest.raises(AssetError, match=f"config.json describes no Llama.*{next(iter(change))}"):
        load(folder)


def test_missing_files_are_named(tmp_path: Path) -> None:
    for name in ("gpt/model.safetensors", "gpt/config.json", "Embed.safetensors", "tokenizer"):
        folder = copy_checkpoint(tmp_path, "model-b")
        path = folder / "asset" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        with pytest.raises(ChatTTSError, match=name):
            load(folder)
        shutil.rmtree(folder)


def test_a_layer_is_what_the_file_says(tmp_path: Path) -> None:
    shape = make_shape(kv_heads=2)
    file, tensors = save_llama(tmp_path, shape), make_tensors(shape)
    for index in range(shape.num_hidden_layers):
        layer = file.layer(index)
        own = {n.split(".")[-2]: t for n, t in tensors.items() if f"layers.{index}." in n}
        assert layer.qkv.equal(torch.cat([own[f"{part}_proj"] for part in "qkv"]))
        assert layer.out.equal(own["o_proj"])
        assert layer.gate.equal(own["gate_proj"])
        assert layer.up.equal(own["up_proj"])
        assert layer.down.equal(own["down_proj"])
        assert layer.attention_norm.equal(own["input_layernorm"])
        assert layer.mlp_norm.equal(own["post_attention_layernorm"])
        assert file.layer(index, torch.bfloat16).down.equal(own["down_proj"].bfloat16())
    assert file.final_norm().equal(tensors["norm.weight"])


def test_files_in_other_floats(tmp_path: Path) -> None:
    shape = make_shape()
    path = tmp_path / "model.safetensors"
    save_file({n: t.bfloat16() for n, t in make_tensors(shape).items()}, path)
    layer = LlamaFile(path, shape).layer(1)
    assert layer.qkv.dtype is layer.mlp_norm.dtype is torch.float32
    assert layer.up.equal(make_tensors(shape)["layers.1.mlp.up_proj.weight"].bfloat16().float())


# ---------------------------------------------------------------- which parts


@pytest.mark.parametrize("folder", [DATA / "model-a", DATA / "model-a" / "asset"])
def test_the_checkpoint_or_its_asset_folder(folder: Path) -> None:
    assert load(folder).config.gpt.hidden_size == 64


@pytest.mark.usefixtures("team")
@pytest.mark.parametrize(
    ("dtype", "quantization"), [("float32", None), ("bfloat16", None), ("float32", "int8")]
)
def test_parts_on_the_kernels(dtype: str, quantization: str | None) -> None:
    loaded = load(dtype=dtype, quantization=quantization, num_threads=3)
    assert isinstance(loaded.llama, NativeLlama)
    assert isinstance(loaded.sampler, NativeSampler)
    assert isinstance(loaded.embed.head_code, PackedLinear)
    assert isinstance(loaded.embed.head_text, PackedLinear)
    assert loaded.embed.text.weight.dtype is getattr(torch, dtype)
    assert (quantization or dtype) in loaded.how
    assert "3 threads" in loaded.how


@pytest.mark.usefixtures("team")
def test_eight_bits_may_be_asked_for_as_a_dtype() -> None:
    assert "int8" in load(dtype="int8").how


@pytest.mark.usefixtures("team")
@pytest.mark.parametrize("fast", [torch.float32, torch.bfloat16])
def test_with_eight_bits_nothing_depends_on_what_the_processor_is_fast_in(
    fast: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "fast_dtype", lambda device: fast)
    embed = load(dtype="int8").embed
    assert embed.text.weight.dtype is embed.code.weight.dtype is torch.bfloat16
    for head in (embed.head_text, embed.head_code):
        assert head.kind == "wide bfloat16"


@pytest.mark.usefixtures("_no_kernels")
def test_without_kernels_torch_does_it(caplog: pytest.LogCaptureFixture) -> None:
    loaded = load()
    assert isinstance(loaded.llama, Llama)
    assert isinstance(loaded.sampler, TorchSampler)
    assert "torch" in loaded.how
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "no C++ compiler was found" in warnings[0]


@pytest.mark.usefixtures("_no_kernels")
def test_eight_bits_need_the_kernels(caplog: pytest.LogCaptureFixture) -> None:
    load(quantization="int8")
    assert sum("quantization is not used" in r.getMessage() for r in caplog.records) == 1


def test_float16_has_no_kernels(caplog: pytest.LogCaptureFixture) -> None:
    loaded = load(dtype="float16", quantization="int8")
    assert isinstance(loaded.llama, Llama)
    assert loaded.embed.code.weight.dtype is torch.float16
    assert any("quantization is not used" in r.getMessage() for r in caplog.records)


@pytest.mark.usefixtures("team")
def test_unasked_it_takes_the_cores_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, threads in ((3.9, 3), (0.5, 1)):
        monkeypatch.setattr(machine, "usable_cores", lambda cores=cores: cores)
        assert f"{threads} threads" in load(num_threads=None).how


@pytest.mark.slow
@pytest.mark.usefixtures("team")
@pytest.mark.parametrize(
    ("dtype", "quantization", "most"), [("bfloat16", None, 2), ("float32", None, 4)]
)
def test_no_second_set_of_the_weights_stays(
    dtype: str, quantization: str | None, most: int
) -> None:
    """After loading, the live tensors take ``most`` bytes for each weight, and little more."""

    def alive() -> dict[int, int]:
        gc.collect()
        tensors = [o for o in gc.get_objects() if issubclass(type(o), Tensor)]
        dense = [t for t in tensors if t.device.type == "cpu" and t.layout is torch.strided]
        storages = [tensor.untyped_storage() for tensor in dense]
        return {storage.data_ptr(): storage.nbytes() for storage in storages}

    before = alive()
    loaded = load(dtype=dtype, quantization=quantization)
    new = {place: size for place, size in alive().items() if before.get(place) != size}
    folder = DATA / "model-a" / "asset"
    files = [load_file(folder / name) for name in ("gpt/model.safetensors", "Embed.safetensors")]
    numbers = sum(t.numel() for tensors in files for t in tensors.values())
    rotary = 2 * 4 * loaded.shape.max_position_embeddings * loaded.shape.head_dim
    assert numbers * most * 0.9 < sum(new.values()) < numbers * most * 1.1 + rotary


# ---------------------------------------------------------------- the pool of blocks


def start(**changes: Any) -> tuple[Worker, CacheConfig]:
    args = EngineArgs(DATA / "model-a", device="cpu", num_threads=1, **changes)
    made = Worker(args.create_engine_config())
    cache = made.plan_cache()
    made.init_cache(cache)
    return made, cache


def test_blocks_are_counted_by_the_memory_given() -> None:
    made, cache = start(kv_memory="3MB", swap_memory="1MB", block_size=16)
    size = made.model.llama.block_bytes
    assert (cache.num_blocks, cache.num_host_blocks) == ((3 << 20) // size, (1 << 20) // size)
    assert (cache.block_size, cache.memory, cache.host_memory) == (16, 3 << 20, 1 << 20)
    assert (len(made._pool), len(made._host)) == (cache.num_blocks, cache.num_host_blocks)
    assert made._pool[0].nbytes == made._host[0].nbytes == size


def test_too_little_for_one_block() -> None:
    with pytest.raises(ConfigError, match=r"kv_memory is 1024 bytes.* 32 positions"):
        start(kv_memory="1KB")


@pytest.mark.parametrize("name", ["kv_memory", "swap_memory"])
def test_more_than_there_is(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no memory for a KV cache.*{name}"):
        start(**({"kv_memory": "3MB"} | {name: "1000000TB"}))


def test_unasked_no_more_than_is_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << 40)
    _, cache = start(max_num_seqs=3, block_size=100)
    assert cache.num_blocks == 3 * 11  # of 1024 positions
    assert cache.num_host_blocks == 0


def test_room_for_so_many_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << 40)
    made, cache = start(kv_memory="2 sequences", max_num_seqs=3, block_size=100)
    assert cache.num_blocks == 2 * 11  # of 1024 positions
    assert cache.block_bytes == made.model.llama.block_bytes
    with pytest.raises(ConfigError, match="at least 1 sequence"):
        start(kv_memory="0 sequences")


def test_unasked_a_part_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 10 << 20)
    made, cache = start()
    assert cache.num_blocks is not None
    taken = cache.num_blocks * made.model.llama.block_bytes
    assert 2 << 20 < taken <= 10 << 18


def test_no_memory_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 5 << 10)
    with pytest.raises(ConfigError, match="kv_memory"):
        start()


# ---------------------------------------------------------------- the machine's memory

GIB = 1 << 30
V2 = {"proc/self/cgroup": "0::/a/b\n"}
INNER, OUTER = "sys/fs/cgroup/a/b", "sys/fs/cgroup/a"
V1 = {"proc/self/cgroup": "9:cpu:/other\n4:memory:/a\n"}
OLD = "sys/fs/cgroup/memory/a"


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 4 * GIB),
        (V2, 4 * GIB),
        ({**V2, f"{INNER}/memory.max": "max", f"{INNER}/memory.current": "100"}, 4 * GIB),
        ({**V2, f"{INNER}/memory.max": 2 * GIB, f"{INNER}/memory.current": GIB}, GIB),
        ({**V2, f"{OUTER}/memory.max": 2 * GIB, f"{OUTER}/memory.current": GIB}, GIB),
        (
            {
                **V2,
                f"{INNER}/memory.max": 2 * GIB,
                f"{INNER}/memory.current": GIB,
                f"{INNER}/memory.stat": f"anon 5\ninactive_file {GIB // 2}\nactive_file 7\n",
            },
            GIB * 3 // 2,
        ),
        ({**V2, f"{INNER}/memory.max": GIB, f"{INNER}/memory.current": GIB + 5}, 0),
        ({**V2, f"{INNER}/memory.max": 64 * GIB, f"{INNER}/memory.current": 1}, 4 * GIB),
        ({**V2, f"{INNER}/memory.max": 9}, 4 * GIB),
        ({**V2, f"{INNER}/memory.max": "what", f"{INNER}/memory.current": "that"}, 4 * GIB),
        (
            {**V1, f"{OLD}/memory.limit_in_bytes": GIB * 2, f"{OLD}/memory.usage_in_bytes": GIB},
            GIB,
        ),
        (
            {
                **V1,
                f"{OLD}/memory.limit_in_bytes": 2**63 - 4096,
                f"{OLD}/memory.usage_in_bytes": GIB,
            },
            4 * GIB,
        ),
    ],
)
def test_available_memory(tmp_path: Path, files: dict[str, object], free: int) -> None:
    files = {"proc/meminfo": f"MemTotal: 9 kB\nMemAvailable: {4 << 20} kB\n", **files}
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(content), "ascii")
    assert machine.available_memory(tmp_path) == free


def test_a_system_that_tells_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.available_memory(tmp_path) > 0
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert machine.available_memory(tmp_path) == GIB


def test_this_machine() -> None:
    assert 0 < machine.usable_cores() <= (os.cpu_count() or 1)
    assert machine.available_memory() > 1 << 20
