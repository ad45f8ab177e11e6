"""What the engine and its ranks send each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch

from ChatTTS.model.generation import GenerationRequest, Listener
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.executor.ranks import messages
from ChatTTS.model.velocity.executor.ranks.messages import (
    Failed,
    Ran,
    Run,
    Start,
    decode,
    encode,
    is_failure,
)
from ChatTTS.model.velocity.executor.ranks.pipes import read_message, write_message
from ChatTTS.model.velocity.plan import (
    BlockMove,
    MoveKind,
    SequenceData,
    StepPlan,
    StepResult,
    Work,
)

PROMPT = Prompt(
    np.arange(5),
    np.arange(8).reshape(2, 4),
    np.linspace(0, 1, 6, dtype=np.float32),
    np.array([True, False, False, False, True]),
)
SAMPLING = SamplingParams((0.3, 1.0), 0.7, 20, 1.05, 0, 99, n=2)
REQUEST = GenerationRequest(
    PROMPT,
    SAMPLING,
    DrawKey(2**63, Pass.REFINE, 5),
    ((0, 1), (2, 3)),
    listener=Listener(12, 46.875),
)
PLAN = StepPlan(
    ended=(3, 4),
    moves=(BlockMove(MoveKind.OUT, 1, 2),),
    new=(SequenceData(7, REQUEST),),
    work=(Work(7, 0, 7, (4, 2, 9), True),),
)
RESULT = StepResult(
    ids=np.arange(4).reshape(1, 4),
    hiddens=torch.tensor([[1.5, float("nan")]], dtype=torch.bfloat16),
    logprobs=np.array([-0.1], dtype=np.float32),
    finite=np.array([True]),
    attention={0: np.ones((2, 5), dtype=np.float32)},
)


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if is_dataclass(a):
        return type(a) is type(b) and all(
            equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(a)
        )
    return type(a) is type(b) and bool(a == b)


MESSAGES = {
    "start": Start(
        EngineArgs(Path("some/where"), kv_memory="1GB").create_engine_config(),
        *(1, "127.0.0.1", 4000, 2, "cpu"),
    ),
    "run": Run(PLAN, {7: np.arange(8).reshape(2, 4)}),
    "ran": Ran(RESULT),
    "no rows": Ran(
        StepResult(
            np.zeros((0, 4), dtype=np.int64),
            torch.zeros(0, 6),
            np.zeros(0, dtype=np.float32),
            np.zeros(0, dtype=np.bool_),
        )
    ),
    "failed": Failed("ConfigError", "a word — 词"),
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_a_message_arrives_as_it_was(message: object) -> None:
    assert equal(message, decode(encode(message)))


def classes_of(hint: Any) -> Iterator[type]:
    """Yield the classes of ours that a type hint names."""
    for part in get_args(hint):
        yield from classes_of(part)
    if is_dataclass(hint) or (isinstance(hint, type) and issubclass(hint, Enum)):
        yield hint  # type: ignore[misc]


@pytest.mark.parametrize("kind", messages._DATACLASSES, ids=lambda kind: kind.__name__)
def test_a_message_can_hold_what_its_fields_may_be(kind: type) -> None:
    named = {
        each
        for hint in get_type_hints(kind, localns={"Tensor": torch.Tensor}).values()
        for each in classes_of(hint)
    }
    assert named <= set(messages._KINDS.values())


@pytest.mark.parametrize("message", [MESSAGES["run"], MESSAGES["ran"]], ids=["run", "ran"])
def test_bytes_that_are_no_message(message: object) -> None:
    whole = encode(message)
    for end in range(0, len(whole), 7):
        with pytest.raises(ValueError, match="no message"):
            decode(whole[:end])


@pytest.mark.parametrize(
    "text", ['{"Popen":["ls"]}', '{"array":["O",[1]]}', '{"tensor":["load",[1]]}', '{"a":1,"b":2}']
)
def test_a_message_makes_nothing_but_what_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="no message"):
        decode(len(text).to_bytes(8, "little") + text.encode() + bytes(8))


def test_a_failure_is_seen_at_its_beginning() -> None:
    assert [is_failure(encode(message)) for message in MESSAGES.values()] == [
        name == "failed" for name in MESSAGES
    ]


def test_what_no_message_holds_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold a set"):
        encode({"a": {1}})


def test_pipes_cut_messages_apart() -> None:
    pipe = BytesIO()
    for message in (b"one", b"", b"three" * 99):
        write_message(pipe, message)
    whole = pipe.getvalue()
    reading = BytesIO(whole)
    assert [read_message(reading) for _ in range(4)] == [b"one", b"", b"three" * 99, None]
    assert read_message(BytesIO(whole[:9])) is None
