"""Request parameters: fields that the caller sets stay; others may come from the checkpoint."""

import copy
import inspect
import pickle
from dataclasses import asdict, fields, replace
from typing import Any, cast

import numpy as np
import pydantic
import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.params import InferCodeParams, RefineTextParams, as_params


def test_published_defaults() -> None:
    refine, code = RefineTextParams(), InferCodeParams()
    assert (refine.top_P, refine.top_K, refine.temperature) == (0.7, 20, 0.7)
    assert (refine.repetition_penalty, refine.max_new_token) == (1.0, 384)
    assert (code.prompt, code.temperature, code.repetition_penalty) == ("[speed_5]", 0.3, 1.05)
    assert (code.max_new_token, code.stream_batch, code.stream_speed) == (2048, 24, 12000)
    assert code.pass_first_n_batches == 2


def test_defaults_fill_only_what_was_not_named() -> None:
    params = InferCodeParams("[speed_2]", temperature=0.3)
    params.top_K = 20
    effective = params.with_defaults(
        {"prompt": "x", "temperature": 0.9, "top_K": 1, "repetition_penalty": 1.0}
    )
    assert (effective.prompt, effective.temperature, effective.top_K) == ("[speed_2]", 0.3, 20)
    assert effective.repetition_penalty == 1.0
    assert params.repetition_penalty == 1.05  # the caller's object is untouched


def test_copies_remember_what_was_named() -> None:
    params = copy.deepcopy(InferCodeParams(top_K=20))
    assert params.with_defaults({"top_K": 5}).top_K == 20


def test_dicts_of_old_versions() -> None:
    assert (
        as_params(InferCodeParams, {"prompt": "[speed_1]", "spk_emb": None}).prompt == "[speed_1]"
    )
    with pytest.raises(ConfigError, match="has no tempreature"):
        as_params(InferCodeParams, {"tempreature": 1})
    with pytest.raises(ConfigError, match="expected InferCodeParams"):
        as_params(InferCodeParams, RefineTextParams())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_P", -0.1),
        ("top_P", 1.1),
        ("top_P", "0.7"),
        ("prompt", 5),
        ("top_K", 0),
        ("top_K", 2.5),
        ("temperature", -1),
        ("temperature", "0.3"),
        ("temperature", None),
        ("temperature", [0.3, -0.1, 0.3, 0.3]),
        ("repetition_penalty", 0),
        ("max_new_token", 0),
        ("max_new_token", None),
        ("min_new_token", None),
        ("manual_seed", 2**64),
        ("manual_seed", 42.5),
    ],
)
def test_nonsense_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        InferCodeParams(**{name: value}).with_defaults({})


def test_extreme_values_that_scripts_use() -> None:
    given: list[Any] = [0, 1e-12, [0.1, 0.2, 0.3, 0.4], np.float32(0.3), np.full(4, 0.3)]
    for temperature in given:
        params = InferCodeParams(temperature=temperature, min_new_token=5, manual_seed=-1)
        assert params.with_defaults({"temperature": 9}).temperature is temperature
    assert InferCodeParams(txt_smp="").with_defaults({}).spk_smp is None  # a form's empty field


def test_an_unknown_default_of_a_checkpoint_is_named() -> None:
    with pytest.raises(ConfigError, match="speed"):
        InferCodeParams().with_defaults({"speed": 5})


def test_code_params_extend_refine_params() -> None:
    assert {f.name for f in fields(RefineTextParams)} < {f.name for f in fields(InferCodeParams)}


# ---------------------------------------------------------------- made by forms and servers


class Request(pydantic.BaseModel):
    """A request body as a dozen public servers declare it."""

    text: list[str]
    refine: Chat.RefineTextParams = None  # type: ignore[assignment]
    code: Chat.InferCodeParams


CHECKPOINT: dict[str, Any] = {
    "prompt": "[speed_9]",
    "temperature": 0.1,
    "top_K": 7,
    "max_new_token": 99,
}


def test_pydantic_makes_params_and_what_differs_is_named() -> None:
    body = {"text": ["a"], "code": {"temperature": 0.5, "stream_batch": True, "manual_seed": 4}}
    request = Request.model_validate(body)
    effective = request.code.with_defaults(CHECKPOINT)
    assert (effective.temperature, effective.manual_seed, effective.stream_batch) == (0.5, 4, 1)
    assert (effective.prompt, effective.top_K) == ("[speed_9]", 7)
    request.code.top_K = 20  # the server set these fields, although to the default values
    assert request.code.with_defaults(CHECKPOINT).top_K == 20
    assert request.refine is None
    assert "_named" not in str(request.model_dump())


def test_the_schema_of_a_form_is_the_fields() -> None:
    schema = Request.model_json_schema()["$defs"]["InferCodeParams"]["properties"]
    assert set(schema) == {f.name for f in fields(InferCodeParams)}


@pytest.mark.parametrize(
    "copied",
    [
        lambda p: type(p)(**vars(p)),
        lambda p: type(p)(**asdict(p)),
        lambda p: as_params(InferCodeParams, asdict(p)),
        replace,
    ],
    ids=["vars", "asdict", "dict", "replace"],
)
def test_a_copy_of_all_fields_names_what_differs(copied: Any) -> None:
    params = InferCodeParams(temperature=0.5, spk_emb="voice")
    again = copied(params)
    assert asdict(again) == asdict(params)
    effective = again.with_defaults(CHECKPOINT)
    assert (effective.temperature, effective.prompt) == (0.5, "[speed_9]")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_copies_and_pickles_keep_all(protocol: int) -> None:
    named = InferCodeParams(temperature=0.3)
    made = Request(text=[], code=cast(Any, {"temperature": 0.5})).code
    for params in (named, made):
        for again in (
            copy.copy(params),
            copy.deepcopy(params),
            pickle.loads(pickle.dumps(params, protocol)),
        ):
            assert vars(again) == vars(params)
            assert again.named == params.named == {"temperature"}


def test_a_copy_stands_for_itself() -> None:
    params = InferCodeParams(temperature=0.3)
    again = copy.copy(params)
    again.top_K = 20
    assert params.named == {"temperature"}
    assert again.named == {"temperature", "top_K"}


def test_they_are_compared_hashed_and_shown_as_scripts_expect() -> None:
    first, second = InferCodeParams(), InferCodeParams()
    assert len({first, second, first}) == 2
    assert first == first
    assert first != second
    assert list(inspect.signature(InferCodeParams).parameters) == [
        f.name for f in fields(InferCodeParams)
    ]
    assert inspect.signature(Chat.RefineTextParams).parameters["top_P"].default == 0.7
    assert "temperature=0.3" in repr(first)
    assert list(vars(first)) == [f.name for f in fields(InferCodeParams)]


def test_a_tensor_as_speaker_is_named() -> None:
    assert InferCodeParams(**vars(InferCodeParams(spk_emb=torch.zeros(3)))).named == {"spk_emb"}


def test_other_attributes_of_scripts_do_no_harm() -> None:
    params = InferCodeParams()
    params.speed = 3  # scripts for other models set such an attribute
    assert params.with_defaults(CHECKPOINT).prompt == "[speed_9]"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"top_P": None}, {"top_p": 1.0}),
        ({"top_P": 0.0}, {"top_p": 0.0}),
        ({"top_K": None}, {"top_k": 2**31 - 1}),
        ({"top_K": 5.0}, {"top_k": 5}),
        ({"repetition_penalty": None}, {"repetition_penalty": 1.0}),
        ({"min_new_token": 9, "max_new_token": 4}, {"min_new": 4, "max_new": 4}),
        ({"min_new_token": -1}, {"min_new": 0}),
    ],
)
def test_values_that_the_published_package_accepts(
    given: dict[str, Any], meant: dict[str, Any]
) -> None:
    sampling = SamplingParams.from_params(
        InferCodeParams(**given).with_defaults({}), num_codebooks=4
    )
    assert {name: getattr(sampling, name) for name in meant} == meant


def test_an_empty_prompt_is_not_replaced_by_the_checkpoints() -> None:
    assert InferCodeParams(prompt=cast(Any, None)).with_defaults(CHECKPOINT).prompt == ""


@pytest.mark.parametrize(
    ("given", "meant"),
    [(0, 24), (-3, 24), (None, 24), ("all", 24), (8.0, 8), (8.9, 8), (float("inf"), 24), (3, 3)],
)
def test_sizes_of_chunks_are_only_a_wish(given: Any, meant: int) -> None:
    assert InferCodeParams(stream_batch=given).with_defaults({}).stream_batch == meant
    speed = InferCodeParams(stream_speed=given).with_defaults({}).stream_speed
    assert speed == (12000 if meant == 24 else meant)


def test_passing_no_batches_first_is_allowed() -> None:
    cases: list[tuple[Any, int]] = [(0, 0), (-1, 0), (1.5, 1), (None, 2)]
    for given, meant in cases:
        params = InferCodeParams(pass_first_n_batches=given).with_defaults({})
        assert params.pass_first_n_batches == meant
