"""``Chat`` with adapters, on both engines: each row has its own, or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.common.random_adapter import save_adapter
from ChatTTS.core import Chat
from ChatTTS.errors import AssetError, ConfigError
from ChatTTS.model.generation import Cancellation, GenerationRequest
from ChatTTS.model.lora.reader import read_adapter
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.velocity.generator import VelocityGenerator
from ChatTTS.model.velocity.llm import LLM

from ..support.adapter_tools import MODEL, merged_checkpoint, shape_of
from ..support.chat_tools import TEXT, Recording, equal, speak
from ..support.velocity_models import make_shape

NAMES = (None, "anna", "bert", "anna", None)


@dataclass(frozen=True)
class Loaded:
    chat: Chat
    is_velocity: bool
    folders: dict[str, Path]


def load(adapter: object, use_vllm: bool, folder: Path = MODEL, dtype: str = "float32") -> Chat:
    chat = Chat()
    chat.load_or_raise(
        "custom",
        custom_path=folder,
        device="cpu",
        use_vllm=use_vllm,
        num_threads=1,
        dtype=dtype,
        adapter=adapter,  # type: ignore[arg-type]
    )
    return chat


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, shape = tmp_path_factory.mktemp("adapters"), shape_of()
    return {
        "anna": save_adapter(folder / "anna", shape, seed=1, rank=5),
        "bert": save_adapter(folder / "bert", shape, seed=2, targets={"v_proj", "gate_proj"}),
    }


@pytest.fixture(scope="module", params=["standard", "velocity"])
def loaded(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Iterator[Loaded]:
    is_velocity = request.param == "velocity"
    chat = load(folders, is_velocity)
    yield Loaded(chat, is_velocity, folders)
    chat.unload()


def generated(chat: Chat, names: Sequence[str | None], first: int = 0) -> list[torch.Tensor]:
    """Run one request for each adapter, side by side; return their codes [frames, codebooks].

    Args:
        first: the number of the first request, by which its draws differ.
    """
    model = chat._loaded
    sampling = SamplingParams(
        (0.9,) * 4, top_p=0.9, top_k=30, repetition_penalty=1.05, max_new=30, min_new=30
    )
    requests = [
        GenerationRequest(
            model.tokenizer.prompt(f"[Stts]{TEXT}[Ptts]"),
            sampling,
            DrawKey(7, Pass.CODE, utterance=first + i),
            adapter=name,
        )
        for i, name in enumerate(names)
    ]
    codes: list[list[torch.Tensor]] = [[] for _ in names]
    for deltas in model.gpt.generate(requests, Cancellation()):
        for delta in deltas:
            codes[delta.index].append(delta.ids)
    return [torch.cat(parts) for parts in codes]


def test_two_adapters_and_none_in_one_batch(loaded: Loaded) -> None:
    """Each row has the codes of its lone run, and those without an adapter the checkpoint's."""
    together = generated(loaded.chat, NAMES)
    assert len({codes.numpy().tobytes() for codes in together}) == len(NAMES)
    for i, (name, codes) in enumerate(zip(NAMES, together, strict=True)):
        (alone,) = generated(loaded.chat, [name], first=i)
        assert torch.equal(alone, codes)
    plain = load(None, loaded.is_velocity)
    for i, name in enumerate(NAMES):
        if name is None:
            assert torch.equal(generated(plain, [None], first=i)[0], together[i])
    plain.unload()


def test_as_merged_into_the_weights(loaded: Loaded, tmp_path: Path) -> None:
    """Rounding differs, and changes no draw here."""
    adapter = read_adapter(loaded.folders["anna"], "anna", shape_of())
    merged = load(None, loaded.is_velocity, merged_checkpoint(tmp_path / "merged", adapter))
    found = speak(loaded.chat, TEXT, adapter="anna")[0]
    np.testing.assert_allclose(found, speak(merged, TEXT)[0], atol=1e-4)
    merged.unload()


def test_both_engines_agree(folders: dict[str, Path]) -> None:
    found = []
    for use_vllm in (False, True):
        chat = load(folders, use_vllm)
        found.append(generated(chat, NAMES))
        chat.unload()
    assert equal([codes.numpy() for codes in found[0]], [codes.numpy() for codes in found[1]])


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_rows_of_smaller_weights_keep_their_codes(folders: dict[str, Path], dtype: str) -> None:
    chat = load(folders, True, dtype=dtype)
    together = generated(chat, NAMES)
    for i, name in enumerate(NAMES):
        assert torch.equal(generated(chat, [name], first=i)[0], together[i])
    chat.unload()


def test_prompts_with_other_adapters_share_no_blocks(folders: dict[str, Path]) -> None:
    chat = load(folders, True)
    text = "one good day to the world and to you " * 5
    engine = chat.gpt.engine
    assert isinstance(engine, VelocityGenerator)
    alone = {}
    for name in ("base", "anna", "bert"):
        before = engine.engine.metrics().cached_positions
        alone[name] = speak(chat, text, adapter=name)
        assert engine.engine.metrics().cached_positions == before
    for name, first in alone.items():
        before = engine.engine.metrics().cached_positions
        assert equal(speak(chat, text, adapter=name), first)
        assert engine.engine.metrics().cached_positions > before
    chat.unload()


def test_scripts_on_the_engine_name_one(folders: dict[str, Path]) -> None:
    llm = LLM(MODEL, device="cpu", num_threads=1, adapters=folders)
    sampling = SamplingParams((0.9,) * 4, 0.9, 30, 1.05, 12, 12)
    codes = {
        name: llm.generate(TEXT, sampling, seeds=3, use_tqdm=False, adapter=name)[0]
        .completions[0]
        .ids
        for name in (None, "anna", "bert")
    }
    assert len({own.tobytes() for own in codes.values()}) == 3
    with pytest.raises(ConfigError, match="no adapter"):
        llm.generate(TEXT, sampling, use_tqdm=False, adapter="carl")
    llm.close()


def test_one_folder_speaks_by_default(loaded: Loaded, tmp_path: Path) -> None:
    speaker = loaded.chat.sample_random_speaker()
    folder = save_adapter(tmp_path / "own", shape_of(), seed=1, rank=5, speaker=speaker)
    chat = load(folder, loaded.is_velocity)
    own = speak(chat, TEXT)
    assert equal(own, speak(chat, TEXT, adapter="default"))
    # It is the adapter of the same numbers, with the speaker that it was trained with.
    named = speak(loaded.chat, TEXT, adapter="anna", spk_emb=speaker)
    np.testing.assert_allclose(own[0], named[0], atol=1e-5)
    np.testing.assert_allclose(speak(chat, TEXT, adapter="base")[0], speak(loaded.chat, TEXT)[0])
    chat.unload()


def test_texts_are_refined_without_one(folders: dict[str, Path]) -> None:
    chat = load(folders["anna"], use_vllm=False)
    with Recording(chat) as engine:
        settings = {"max_new_token": 8, "show_tqdm": False}
        chat.infer(TEXT, params_refine_text=settings, params_infer_code=settings)
    assert {(request.key.kind, request.adapter) for request in engine.requests} == {
        (Pass.REFINE, None),
        (Pass.CODE, "default"),
    }


def test_an_unknown_name_is_told(loaded: Loaded) -> None:
    with pytest.raises(ConfigError, match=r"no adapter 'carl'.*anna, bert"):
        speak(loaded.chat, TEXT, adapter="carl")
    with pytest.raises(ConfigError, match="adapter must be text"):
        speak(loaded.chat, TEXT, adapter=3)
    with Recording(loaded.chat) as recording:
        speak(loaded.chat, TEXT, min_new_token=1, max_new_token=1)
    request = replace(recording.requests[0], adapter="carl")
    with pytest.raises(ConfigError, match="no adapter 'carl'"):
        next(iter(loaded.chat.gpt.generate([request], Cancellation())))


def test_an_adapter_of_another_model_is_not_loaded(tmp_path: Path, loaded: Loaded) -> None:
    folder = save_adapter(tmp_path / "wrong", make_shape(96, 4, 4, 24))
    with pytest.raises(AssetError, match="belongs to"):
        load(folder, loaded.is_velocity)


def test_a_speaker_that_is_none_is_told_at_loading(tmp_path: Path) -> None:
    folder = save_adapter(tmp_path / "a", shape_of(), rank=1, speaker="nobody")
    for use_vllm in (False, True):
        with pytest.raises(AssetError, match=r"speaker\.txt: .*correct it, or remove it"):
            load(folder, use_vllm)


def test_a_divided_model_takes_none(folders: dict[str, Path]) -> None:
    chat = Chat()
    with pytest.raises(ConfigError, match="adapters need a model that is not divided"):
        chat.load_or_raise(
            "custom",
            custom_path=MODEL,
            device="cpu",
            use_vllm=True,
            tensor_parallel_size=2,
            adapter=folders,
        )
