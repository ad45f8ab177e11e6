"""The engine of a script that asks for none, and what it gets that touches the modules."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.loading import synthesizers
from ChatTTS.model import engine_choice
from ChatTTS.model.devices.placement import choose_placement
from ChatTTS.model.engine_choice import EngineOptions, asks_for_standard, velocity_is_faster
from ChatTTS.model.kernels.cpu import library
from ChatTTS.model.kernels.cpu.build import BuildError
from ChatTTS.model.llama.config import LlamaShape
from ChatTTS.model.standard.engine import StandardEngine, cache_keyword
from ChatTTS.model.velocity.generator import VelocityGenerator
from ChatTTS.utils import machine, openmp

from ..support.chat_tools import TEXT, speak
from ..support.places import DATA

CPU = choose_placement("cpu", "float32")
CUDA = replace(CPU, device=torch.device("cuda"))
PUBLISHED = LlamaShape(768, 3072, 12, 20, 4096, 12, 64)
SMALL = LlamaShape(384, 1024, 6, 8, 4096, 6, 64)


def load(**options: Any) -> Chat:
    chat = Chat()
    chat.load_or_raise("custom", custom_path=DATA / "model-a", device="cpu", **options)
    return chat


def no_kernels() -> None:
    raise BuildError("no C++ compiler was found")


@pytest.fixture
def chat() -> Iterator[Chat]:
    loaded = load()
    yield loaded
    loaded.unload()


def test_a_plain_script_runs_on_velocity(chat: Chat, standard: Chat) -> None:
    assert isinstance(chat.gpt.engine, VelocityGenerator)
    np.testing.assert_allclose(speak(chat, TEXT)[0], speak(standard, TEXT)[0], atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [{"use_vllm": False}, {"enable_cache": False}],
    ids=str,
)
def test_scripts_that_want_the_standard_engine_get_it(options: dict[str, Any]) -> None:
    assert isinstance(load(**options).gpt.engine, StandardEngine)


def test_the_kernels_that_experimental_asks_for_are_those_of_velocity(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert isinstance(load(experimental=True).gpt.engine, VelocityGenerator)
    assert "experimental" not in caplog.text


def test_compiling_is_for_cuda(caplog: pytest.LogCaptureFixture) -> None:
    compiles = EngineOptions(compile=True)
    assert asks_for_standard(compiles, CUDA)
    assert not asks_for_standard(compiles, CPU)
    with caplog.at_level(logging.DEBUG, "ChatTTS"):
        chat = load(compile=True, use_vllm=False)
        load(compile=True).unload()
    engine = chat.gpt.engine
    assert isinstance(engine, StandardEngine)
    assert engine.model is engine.observed, "torch.compile would have wrapped it"
    said = [r for r in caplog.records if "compile=True is not used" in r.getMessage()]
    assert [record.levelno for record in said] == [logging.DEBUG] * 2


def test_where_no_kernels_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(library, "load", no_kernels)
    assert not velocity_is_faster(SMALL, CPU)
    assert "no C++ compiler was found" in caplog.text
    assert velocity_is_faster(PUBLISHED, CPU)
    assert velocity_is_faster(PUBLISHED, replace(CPU, dtype=torch.float16))
    assert not velocity_is_faster(SMALL, replace(CPU, dtype=torch.float16))
    assert isinstance(load().gpt.engine, StandardEngine)


def test_on_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not velocity_is_faster(PUBLISHED, replace(CPU, device=torch.device("mps")))
    for reason in (None, "triton is not installed"):
        monkeypatch.setattr(engine_choice, "why_no_kernels", lambda *_, reason=reason: reason)
        assert velocity_is_faster(SMALL, CUDA) == (reason is None)


def test_on_a_gpu_whose_kernels_are_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        engine_choice, "why_no_kernels", lambda _, head_dim: "too wide" if head_dim > 128 else None
    )
    assert velocity_is_faster(SMALL, CUDA)
    assert not velocity_is_faster(replace(SMALL, head_dim=256), CUDA)


def test_a_model_that_velocity_cannot_run_runs_on_the_standard_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any) -> None:
        raise ConfigError("the cache does not fit")

    monkeypatch.setattr(VelocityGenerator, "load", fails)
    assert isinstance(load().gpt.engine, StandardEngine)
    with pytest.raises(ConfigError, match="does not fit"):
        load(kv_memory="64MB")  # that is asked of velocity


# ---------------------------------------------------------------- scripts that touch the modules


def silence_the_llama(chat: Chat) -> None:
    with torch.no_grad():
        chat.gpt.gpt.get_parameter("norm.weight").zero_()


def silence_the_heads(chat: Chat) -> None:
    with torch.no_grad():
        chat.embed.get_parameter("head_code.weight").zero_()


def silence_the_decoder(chat: Chat) -> None:
    state = {name: torch.zeros_like(value) for name, value in chat.decoder.state_dict().items()}
    chat.decoder.load_state_dict({**state, "coef": chat.decoder.coef})


def silence_the_vocoder(chat: Chat) -> None:
    with torch.no_grad():
        chat.vocos.backbone.embed.weight.zero_()


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [silence_the_llama, silence_the_heads, silence_the_decoder, silence_the_vocoder]
)
def test_what_a_script_changes_is_heard(chat: Chat, change: Callable[[Chat], None]) -> None:
    before = speak(chat, TEXT)[0]
    change(chat)
    assert not np.allclose(before, speak(chat, TEXT)[0], atol=1e-3)


def test_touching_alone_changes_no_code(chat: Chat, caplog: pytest.LogCaptureFixture) -> None:
    before = speak(chat, TEXT)[0]
    with caplog.at_level(logging.INFO, "ChatTTS"):
        assert chat.gpt.gpt is chat.gpt.gpt
        assert chat.dvae is chat.dvae
    said = [r.getMessage() for r in caplog.records if "use_vllm=True" in r.getMessage()]
    assert len(said) == 2, said
    assert isinstance(chat.gpt.engine, StandardEngine)
    np.testing.assert_allclose(speak(chat, TEXT)[0], before, atol=1e-4)


def test_reading_names_and_voices_touches_nothing(chat: Chat) -> None:
    chat.sample_random_speaker()
    assert chat.gives_attention
    chat.sample_audio_speaker(0.3 * np.sin(np.arange(24_000) / 20))
    assert chat.coef
    assert isinstance(chat.gpt.engine, VelocityGenerator)
    assert chat._model is not None
    assert chat._model.plain_parts is not None


def test_an_engine_that_was_asked_for_stays() -> None:
    chat = load(use_vllm=True)
    assert chat.embed is chat.gpt.embed
    with pytest.raises(AttributeError, match="use_vllm=False"):
        _ = chat.gpt.gpt
    assert isinstance(chat.gpt.engine, VelocityGenerator)
    chat.unload()


# ---------------------------------------------------------------- threads, and transformers


def test_small_products_take_one_thread_and_large_ones_more() -> None:
    assert SMALL.useful_threads == 1
    assert PUBLISHED.useful_threads > 4


def test_fewer_threads_within_a_block_of_one_thread() -> None:
    torch.ones(1)
    usual = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        others: list[int] = []
        with openmp.at_most(1):
            assert torch.get_num_threads() == 1
            if openmp._libraries():
                other = threading.Thread(target=lambda: others.append(torch.get_num_threads()))
                other.start()
                other.join()
                assert others == [3]
        with openmp.at_most(8), openmp.at_most(None):
            assert torch.get_num_threads() == 3
        with pytest.raises(KeyError), openmp.at_most(2):
            raise KeyError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(usual)


def test_a_step_computes_in_as_many_threads_as_it_can_use(
    standard: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = standard.gpt.engine
    assert isinstance(engine, StandardEngine)
    forward, seen = engine._forward, set()

    def noting(*arguments: Any) -> Any:
        seen.add(torch.get_num_threads())
        return forward(*arguments)

    monkeypatch.setattr(engine, "_forward", noting)
    usual = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        speak(standard, TEXT, min_new_token=2, max_new_token=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(usual)
    assert seen == {1}


@pytest.mark.slow
def test_threads_that_were_asked_for_are_taken() -> None:
    engine = load(use_vllm=False, num_threads=2).gpt.engine
    assert isinstance(engine, StandardEngine)
    assert engine._max_threads is None


@pytest.mark.parametrize(("asked", "cores", "taken"), [(None, 3.5, 3), (None, 0.5, 1), (2, 3.5, 2)])
def test_the_sound_is_computed_on_all_cores_unless_a_number_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked: int | None, cores: float, taken: int
) -> None:
    def team(size: int) -> None:
        raise LookupError(size)

    monkeypatch.setattr(synthesizers, "Team", team)
    monkeypatch.setattr(machine, "usable_cores", lambda: cores)
    unused: Any = None
    with pytest.raises(LookupError) as caught:
        synthesizers._native_decoders(unused, unused, unused, CPU, EngineOptions(num_threads=asked))
    assert caught.value.args == (taken,)


def test_the_cache_goes_by_the_name_that_transformers_has() -> None:
    class Older:
        def forward(self, past_key_values: object = None, use_cache: bool = False) -> None: ...

    class Newer:
        def forward(self, cache: object = None, use_cache: bool = False) -> None: ...

    assert cache_keyword(Older()) == "past_key_values"
    assert cache_keyword(Newer()) == "cache"
    assert cache_keyword(lambda past_key_values: None) == "past_key_values"
