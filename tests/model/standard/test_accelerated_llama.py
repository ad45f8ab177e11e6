"""The accelerated Llama of the standard path, beside transformers' own."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import EngineUnavailableError, GenerationError
from ChatTTS.model import gpt
from ChatTTS.model.devices.placement import Placement
from ChatTTS.model.llama.config import read_llama_shape
from ChatTTS.model.standard import accelerated_llama as te_llama
from ChatTTS.model.standard.accelerated_llama import TELlamaModel, load_te_llama
from ChatTTS.model.standard.paged_cache import BlockStore, PagedCache

from ...support.chat_tools import LIVELY, TEXT
from ...support.cuda_twins import use_twins
from ...support.kernel_tools import DEVICE, EMULATED
from ...support.places import DATA
from ...support.recorder_tools import record_anywhere

MODEL = DATA / "model-a"
HIDDEN, CPU = 64, torch.device("cpu")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, standard: Chat) -> TELlamaModel:
    use_twins(monkeypatch)
    monkeypatch.setattr(te_llama, "_FIRST_POSITIONS", 64)  # it must grow
    monkeypatch.setattr(te_llama, "_MAX_ROWS", 16)  # prompts are computed in parts
    return load_on(CPU, standard)


def load_on(device: torch.device, chat: Chat) -> TELlamaModel:
    """Load the accelerated Llama of a chat's checkpoint."""
    folder = MODEL / "asset" / "gpt"
    shape = read_llama_shape(folder / "config.json", chat.config.gpt)
    return load_te_llama(folder / "model.safetensors", shape, device, torch.float32)


def with_te_llama(chat: Chat, model: TELlamaModel, *, cached: bool = True) -> Callable[[], None]:
    """Put the accelerated Llama into a chat; return a function that takes it out again."""
    engine: Any = chat.gpt.engine
    before = engine.model, engine.new_cache

    def restore() -> None:
        engine.model, engine.new_cache = before

    engine.model = model
    engine.new_cache = model.new_cache if cached else lambda: None
    return restore


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.slow_for("False")
def test_the_same_sound(standard: Chat, model: TELlamaModel, cached: bool) -> None:
    """Rows of different lengths, some of which end sooner; prompts are padded on the left."""
    texts = [TEXT, "hello.", "come to the water, come now. hello the world, this is one good day."]
    params = {**LIVELY, "min_new_token": 0, "max_new_token": 70}
    settings: dict[str, Any] = {"skip_refine_text": True, "params_infer_code": params}
    expected = standard.infer(texts, **settings)
    restore = with_te_llama(standard, model, cached=cached)
    try:
        found = standard.infer(texts, **settings)
    finally:
        restore()
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        assert abs(ours - theirs).max() < 1e-4
    gc.collect()
    assert model._store.blocks.num_used == 0
    assert model._store.blocks.num_free == len(model._store.pool)
    assert len(model._store.pool) > 2 or not cached, "the store grew"


def test_steps_of_a_store_that_grew_are_recorded_in_other_memory(
    model: TELlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA's allocator refuses memory whose graphs are all gone."""
    recorder: Any = model._recorder
    log: list[str] = []

    def noted(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            log.append(name)
            return own(*args)

        return call

    for name in ("record", "start_over"):
        monkeypatch.setattr(recorder, name, noted(name, getattr(recorder, name)))
    cache = model.new_cache()
    for position in (3, 4, 5):
        if position == 5:
            model._store.take(model._store.blocks.available + 1)
        model(
            inputs_embeds=model._llama.new_rows(1).zero_().unsqueeze(0),
            attention_mask=None,
            position_ids=torch.tensor([[position]]),
            past_key_values=cache,
            use_cache=True,
        )
    assert log == ["start_over", "record"] * 2


@pytest.mark.slow
@torch.inference_mode()
def test_bits_of_compiled_kernels(monkeypatch: pytest.MonkeyPatch, standard: Chat) -> None:
    """A sequence alone, and beside a longer one: padded, and with its prompt in parts."""
    if not (EMULATED or torch.cuda.is_available()):
        pytest.skip("needs compiled kernels: tests/ptx runs it")
    record_anywhere(monkeypatch, late=True)
    model, prompts = load_on(DEVICE, standard), (5, 18)
    random = torch.manual_seed(0)
    given = [torch.randn(length + 2, HIDDEN, generator=random) for length in prompts]

    def run(*numbers: int) -> torch.Tensor:
        cache, padded = model.new_cache(), max(prompts[number] for number in numbers)
        embeds, positions = torch.zeros(len(numbers), padded + 2, HIDDEN), []
        for row, number in enumerate(numbers):
            embeds[row, padded - prompts[number] :] = given[number]
            places = torch.arange(padded + 2) - (padded - prompts[number])
            positions.append(places.clamp_min(0))
        where = torch.stack(positions)
        mask = torch.stack([embeds[row].any(dim=1).long() for row in range(len(numbers))])
        states = []
        for start, stop in ((0, padded), (padded, padded + 1), (padded + 1, padded + 2)):
            output = model(
                inputs_embeds=embeds[:, start:stop].to(DEVICE),
                attention_mask=mask[:, :stop].to(DEVICE),
                position_ids=where[:, start:stop].to(DEVICE),
                past_key_values=cache,
                use_cache=True,
            )
            states.append(output.last_hidden_state[:, -1])
        return torch.stack(states, dim=1)

    alone = run(0)
    monkeypatch.setattr(te_llama, "_MAX_ROWS", 8)
    assert run(0, 1)[0].equal(alone[0])
    assert run(1, 0)[1].equal(alone[0])


def test_threads_share_it(standard: Chat, model: TELlamaModel) -> None:
    texts = [TEXT, "hello.", "come to the water."]
    params = {**LIVELY, "max_new_token": 40}
    settings: dict[str, Any] = {"skip_refine_text": True, "params_infer_code": params}
    expected = [standard.infer(text, **settings)[0] for text in texts]
    found: dict[int, Any] = {}
    restore = with_te_llama(standard, model)
    try:
        threads = [
            threading.Thread(
                target=lambda i=i, text=text: found.update({i: standard.infer(text, **settings)[0]})
            )
            for i, text in enumerate(texts)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        restore()
    for i, samples in enumerate(expected):
        assert abs(found[i] - samples).max() < 1e-4


@torch.inference_mode()
def test_a_row_that_left_writes_nothing(model: TELlamaModel) -> None:
    """Its blocks may belong to another call by then."""
    cache = model.new_cache()

    def decode(rows: int, position: int) -> None:
        model(
            inputs_embeds=model._llama.new_rows(rows).fill_(1.0).unsqueeze(1),
            attention_mask=None,
            position_ids=torch.full((rows, 1), position),
            past_key_values=cache,
            use_cache=True,
        )

    decode(4, 3)
    left = cache._held[3]
    cache.batch_select_indices(torch.tensor([0, 1, 2]))
    model._store.pool[left] = 7.0
    decode(3, 4)
    assert list(model._steps) == [4], "the step of four rows was taken again"
    assert (model._store.pool[left] == 7.0).all()


def test_blocks_come_back() -> None:
    store = BlockStore(lambda count: torch.zeros(count, 1, 2, 1, 8, 4), 4)
    store.pool[:] = 7
    cache, other = PagedCache(store, 10), PagedCache(store, 10)
    cache.reserve(2, 9)
    other.reserve(1, 60)
    assert (store.pool[:4] == 7).all(), "what was there stays when the store grows"
    tables = cache.tables[:, : len(cache._held[0])].flatten().tolist()
    tables += other.tables[:, : len(other._held[0])].flatten().tolist()
    assert len(set(tables)) == len(tables)
    cache.batch_select_indices(torch.tensor([1]))
    assert cache.tables[0, : len(cache._held[0])].tolist() == cache._held[0]
    before = cache._held[0][:2]
    cache.reserve(1, 80)
    assert cache._held[0][:2] == before
    assert len(cache._held[0]) == 10
    del cache, other
    gc.collect()
    assert store.blocks.num_used == 0
    assert store.blocks.num_free == len(store.pool)


def test_a_store_that_cannot_grow_says_the_numbers() -> None:
    sizes = [torch.zeros(4, 1, 2, 1, 8, 4 << 12)]

    def new_pool(count: int) -> torch.Tensor:
        if count > 4:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return sizes[0]

    store = BlockStore(new_pool, 4)
    taken = store.take(3)
    with pytest.raises(GenerationError, match=r"cache of 8 MB beside the 4 MB .*max_split_batch"):
        store.take(2)
    store.give_back(taken)
    cache = PagedCache(store, 10)
    with pytest.raises(GenerationError):
        cache.reserve(3, 16)
    assert store.blocks.num_used == 0, "nor have some of the rows a block"
    assert sorted(store.take(4)) == [0, 1, 2, 3]


# ---------------------------------------------------------------- when it is used


def on_cuda(monkeypatch: pytest.MonkeyPatch, reason: str | None) -> Placement:
    """A placement that names CUDA; no tensor is moved to the device."""
    monkeypatch.setattr(gpt, "why_no_kernels", lambda *_: reason)
    return Placement(torch.device("cuda"), torch.float32, torch.device("cuda"))


def ask(chat: Chat, placement: Placement, **options: Any) -> Any:
    folder = MODEL / "asset" / "gpt"
    shape = read_llama_shape(folder / "config.json", chat.config.gpt)
    asked = gpt.EngineOptions(**options)
    return gpt._accelerated(shape, folder / "model.safetensors", placement, asked)


def test_it_is_taken_where_it_was_asked_for(
    standard: Chat, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    placement = on_cuda(monkeypatch, None)
    record_anywhere(monkeypatch)
    monkeypatch.setattr(
        te_llama,
        "load_te_llama",
        lambda weights, shape, device, dtype: load_te_llama(
            weights, shape, torch.device("cpu"), dtype
        ),
    )
    assert ask(standard, placement) is None
    model, observed, new_cache = ask(standard, placement, experimental=True, compile=True)
    assert observed is None, "its kernels give no attention"
    assert isinstance(model, TELlamaModel)
    assert isinstance(new_cache(), PagedCache)
    assert [record.message for record in caplog.records] == [
        "compile=True is not used: experimental=True has its kernels"
    ]


def test_without_kernels_the_plain_model_is_taken_and_the_reason_said(
    standard: Chat, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert ask(standard, on_cuda(monkeypatch, "triton is not installed"), experimental=True) is None
    cpu = replace(on_cuda(monkeypatch, None), device=torch.device("cpu"))
    assert ask(standard, cpu, experimental=True) is None

    def refuses(*args: object) -> TELlamaModel:
        raise EngineUnavailableError("a Llama with biases")

    monkeypatch.setattr(te_llama, "load_te_llama", refuses)
    assert ask(standard, on_cuda(monkeypatch, None), experimental=True) is None
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [text.removeprefix("experimental=True is not used: ") for text in warnings] == [
        "triton is not installed",
        "the accelerated Llama needs CUDA, not cpu",
        "a Llama with biases",
    ]


def test_its_heads_give_no_attention(
    monkeypatch: pytest.MonkeyPatch, standard: Chat, model: TELlamaModel
) -> None:
    monkeypatch.setattr(gpt, "_accelerated", lambda *_: (model, None, model.new_cache))
    chat = Chat()
    chat.load_or_raise("custom", custom_path=MODEL, device="cpu", experimental=True)
    assert not chat.gives_attention
    assert standard.gives_attention
