"""Request parameters: what the caller named stays, the rest may come from the checkpoint."""

import copy
from dataclasses import fields

import numpy as np
import pytest

from ChatTTS.errors import ConfigError
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
        ("top_P", 0),
        ("top_P", 1.1),
        ("top_P", "0.7"),
        ("prompt", None),
        ("top_K", 0),
        ("temperature", -1),
        ("temperature", "0.3"),
        ("temperature", None),
        ("temperature", [0.3, -0.1, 0.3, 0.3]),
        ("repetition_penalty", 0),
        ("max_new_token", 0),
        ("max_new_token", None),
        ("min_new_token", -1),
        ("min_new_token", 9999),
        ("manual_seed", 2**64),
        ("manual_seed", 42.5),
        ("stream_batch", 2.5),
        ("stream_batch", 0),
        ("stream_speed", 0),
        ("pass_first_n_batches", -1),
        ("txt_smp", "a transcript without its sample"),
    ],
)
def test_nonsense_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        InferCodeParams(**{name: value}).with_defaults({})


def test_extreme_values_that_scripts_use() -> None:
    for temperature in (0, 1e-12, [0.1, 0.2, 0.3, 0.4], np.float32(0.3), np.full(4, 0.3)):
        params = InferCodeParams(temperature=temperature, min_new_token=5, manual_seed=-1)
        assert params.with_defaults({"temperature": 9}).temperature is temperature
    assert InferCodeParams(txt_smp="").with_defaults({}).spk_smp is None  # a form's empty field


def test_an_unknown_default_of_a_checkpoint_is_named() -> None:
    with pytest.raises(ConfigError, match="speed"):
        InferCodeParams().with_defaults({"speed": 5})


def test_code_params_extend_refine_params() -> None:
    assert {f.name for f in fields(RefineTextParams)} < {f.name for f in fields(InferCodeParams)}
