"""The standard engine: rows are independent, ends are kept, no row runs on without a reader."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.checkpoints.assets import AssetFolder
from ChatTTS.errors import ConfigError, GenerationError, TextError
from ChatTTS.loading import load_model
from ChatTTS.model.devices.placement import choose_placement
from ChatTTS.model.generation import (
    Cancellation,
    Delta,
    FinishReason,
    GenerationRequest,
)
from ChatTTS.model.gpt import EngineOptions
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.standard.engine import StandardEngine
from ChatTTS.model.tokenizer import code_prompt, refine_prompt
from ChatTTS.params import InferCodeParams
from ChatTTS.pipeline.model import Model

from ..support.places import DATA

FOLDER = AssetFolder(DATA / "model-a", "custom")
LIVELY = SamplingParams((1.0,) * 4, 0.9, 30, 1.1, 0, 24)


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(FOLDER, choose_placement("cpu"), EngineOptions(use_vllm=False))


def standard(model: Model) -> StandardEngine:
    engine = model.gpt.engine
    assert isinstance(engine, StandardEngine)
    return engine


def code_request(
    model: Model, text: str, seed: int = 0, sampling: SamplingParams = LIVELY
) -> GenerationRequest:
    prompt = model.tokenizer.prompt(code_prompt(text, "[speed_5]", speaker=False))
    return GenerationRequest(prompt, sampling, DrawKey(seed, Pass.CODE))


def refine_request(model: Model, text: str, seed: int = 0) -> GenerationRequest:
    prompt = model.tokenizer.prompt(refine_prompt(text, "[oral_2]"))
    return GenerationRequest(
        prompt, SamplingParams((1.0,), 0.9, 30, 1.1, 0, 12), DrawKey(seed, Pass.REFINE)
    )


def run(
    model: Model, requests: Sequence[GenerationRequest], cancelled: Cancellation | None = None
) -> list[tuple[list[list[int]], FinishReason]]:
    """Return ids and finish reason of each request; check that each ends exactly once."""
    ids: list[list[list[int]]] = [[] for _ in requests]
    finishes: dict[int, FinishReason] = {}
    for deltas in model.gpt.generate(requests, cancelled or Cancellation()):
        for delta in deltas:
            assert delta.index not in finishes
            assert len(delta.ids) == len(delta.hiddens)
            ids[delta.index].extend(delta.ids.tolist())
            if delta.finish is not None:
                finishes[delta.index] = delta.finish
    return [(ids[row], finishes[row]) for row in range(len(requests))]


def test_alone_or_in_a_ragged_batch(model: Model) -> None:
    texts = ["hello", "come to the water, this is one good day", "one", "hello"]
    requests = [code_request(model, text, seed) for seed, text in enumerate(texts)]
    together = run(model, requests)
    assert together == [run(model, [request])[0] for request in requests]
    assert together[0] != together[3]  # same text, other seed
    assert run(model, requests) == together


def test_order_does_not_matter(model: Model) -> None:
    requests = [code_request(model, "one good day", seed) for seed in range(4)]
    assert run(model, requests[::-1]) == run(model, requests)[::-1]


def test_every_row_has_its_own_settings(model: Model) -> None:
    settings = [
        LIVELY,
        SamplingParams((0.0,) * 4, 0.7, 20, 1.05, 0, 5),
        SamplingParams((0.2, 0.9, 1.5, 0.0), 0.5, 3, 1.0, 9, 9),
        SamplingParams((2.0,) * 4, 1.0, 626, 2.0, 3, 16),
    ]
    requests = [code_request(model, "hello", 3, sampling) for sampling in settings]
    together = run(model, requests)
    assert together == [run(model, [request])[0] for request in requests]
    assert len(together[2][0]) == 9


def test_a_request_for_several_answers_is_refused(model: Model) -> None:
    request = code_request(model, "hello", sampling=replace(LIVELY, n=2))
    with pytest.raises(ConfigError, match=r"n is 2.*LLM\.generate"):
        run(model, [request])


def test_text_and_codes_side_by_side(model: Model) -> None:
    requests = [refine_request(model, "hello"), code_request(model, "hello", 1)]
    together = run(model, requests)
    assert together == [run(model, [request])[0] for request in requests]
    assert len(together[0][0][0]) == 1
    assert len(together[1][0][0]) == 4


def test_limits(model: Model) -> None:
    for length in (1, 5):
        sampling = replace(LIVELY, min_new=length, max_new=length)
        ids, finish = run(model, [code_request(model, "hello", 0, sampling)])[0]
        assert (len(ids), finish) == (length, FinishReason.LENGTH)


def test_the_end_frame_is_not_part_of_the_result(model: Model) -> None:
    long = replace(LIVELY, max_new=400)
    ids, finish = run(model, [code_request(model, "hello", 0, long)])[0]
    assert finish is FinishReason.STOP
    assert all(code < 625 for frame in ids for code in frame)


def test_the_models_positions_are_the_last_limit(
    model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    request = code_request(model, "hello", 0, replace(LIVELY, min_new=500, max_new=500))
    engine = standard(model)
    positions = len(request.prompt) + 7
    engine.max_positions, before = positions, engine.max_positions
    try:
        ids, finish = run(model, [request])[0]
        assert (len(ids), finish) == (7, FinishReason.LENGTH)
        assert "positions" in caplog.text
        engine.max_positions = len(request.prompt)
        with pytest.raises(TextError, match="shorten"):
            run(model, [request])
        with pytest.raises(TextError, match="shorten"):
            model.gpt.generate([request], Cancellation())  # before the first step is asked for
    finally:
        engine.max_positions = before


def test_greedy_does_not_depend_on_the_seed(model: Model) -> None:
    greedy = replace(LIVELY, temperature=(0.0,) * 4)
    first, second = (run(model, [code_request(model, "hello", s, greedy)]) for s in (1, 2))
    assert first == second


def test_extremes_do_not_overflow(model: Model) -> None:
    def ids(**changes: Any) -> list[list[int]]:
        params = InferCodeParams(max_new_token=20, **changes)
        sampling = SamplingParams.from_params(params, num_codebooks=4)
        return run(model, [code_request(model, "hello", 1, sampling)])[0][0]

    greedy = ids(temperature=0)
    for temperature in (1e-12, 1e-30, 1e-40):
        assert ids(temperature=temperature) == greedy
    for penalty in (1e-10, 1e10):
        assert all(0 <= code < 625 for frame in ids(repetition_penalty=penalty) for code in frame)


def test_numbers_of_numpy_are_temperatures() -> None:
    temperatures: list[Any] = [np.float32(0.5), 0.5, [0.5] * 4, np.full(4, 0.5)]
    for given in temperatures:
        params = InferCodeParams(temperature=given)
        assert SamplingParams.from_params(params, num_codebooks=4).temperature == (0.5,) * 4
    with pytest.raises(ConfigError, match="3 values"):
        SamplingParams.from_params(InferCodeParams(temperature=[0.5] * 3), num_codebooks=4)


def test_cancelling_ends_every_row_within_a_step(model: Model) -> None:
    cancelled = Cancellation()
    endless = replace(LIVELY, min_new=300, max_new=300)
    requests = [code_request(model, "hello", seed, endless) for seed in range(2)]
    steps: list[list[Delta]] = []
    for deltas in model.gpt.generate(requests, cancelled):
        steps.append(deltas)
        if len(steps) == 5:
            cancelled.set()
    assert len(steps) == 6
    assert [d.finish for d in steps[-1]] == [FinishReason.ABORT] * 2
    assert all(len(d.ids) == 0 for d in steps[-1])


def test_weights_that_are_not_finite_are_named(model: Model) -> None:
    broken = load_model(FOLDER, choose_placement("cpu"), EngineOptions(use_vllm=False))
    with torch.no_grad():
        broken.gpt.embed.head_code.get_parameter("weight")[0, 0] = torch.nan
    with pytest.raises(GenerationError, match="not finite"):
        run(broken, [code_request(broken, "hello")])
    assert run(model, [code_request(model, "hello")])[0][0]


def test_a_finished_row_leaves_the_batch(model: Model) -> None:
    seen: list[int] = []
    engine = standard(model)
    forward = engine.model

    def counting(**inputs: Any) -> Any:
        seen.append(len(inputs["inputs_embeds"]))
        return forward(**inputs)

    engine.model = counting
    try:
        lengths = (3, 10)
        settings = [replace(LIVELY, min_new=n, max_new=n) for n in lengths]
        run(model, [code_request(model, "hello", 0, s) for s in settings])
    finally:
        engine.model = forward
    assert seen == [2] * 3 + [1] * 7
