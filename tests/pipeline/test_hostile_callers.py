"""Values that callers should not give: each is an error or a result of its caller alone.

Another caller of the engine gets its usual result, at the same time and afterwards.
"""

from __future__ import annotations

import fractions
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import ChatTTSError, ConfigError, TextError, VoiceError
from ChatTTS.model.generation import Cancellation, GenerationRequest
from ChatTTS.model.kernels.cpu.build import BuildError
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.speaker import encode_sample
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity import model_loader
from ChatTTS.model.velocity.async_llm_engine import AsyncLLMEngine
from ChatTTS.params import InferCodeParams, LowLatency

from ..support.chat_tools import equal, speak
from ..support.places import DATA

SECONDS = 60  # a hang is a failure, not a wait
WIDTH = 64
SHORT: dict[str, Any] = {"min_new_token": 6, "max_new_token": 6, "show_tqdm": False}
SAMPLE = encode_sample(np.arange(40).reshape(4, 10))


class MischiefError(Exception):
    """An error that a caller's value raises."""


def _raise(*_: object, **__: object) -> Any:
    raise MischiefError("a caller's own code")


_METHODS = (
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__eq__",
    "__mod__",
    "__rmod__",
    "__mul__",
    "__float__",
    "__index__",
    "__int__",
    "__str__",
    "__repr__",
    "__bool__",
)


def sly(value: Any) -> Any:
    """Make a number or text that raises as soon as another thread uses it."""
    base, owner = type(value), threading.get_ident()

    def trap(name: str) -> Callable[..., Any]:
        plain = getattr(base, name)

        def method(self: Any, *arguments: Any) -> Any:
            return plain(self, *arguments) if threading.get_ident() == owner else _raise()

        return method

    names = (*_METHODS, "__hash__", "__len__", "__iter__", "strip", "encode")
    body = {name: trap(name) for name in names if hasattr(base, name)}
    return type(f"Sly{base.__name__}", (base,), body)(value)


def broken(base: type, value: Any) -> Any:
    """Make a number or text that raises in every method."""
    body = {name: _raise for name in _METHODS if hasattr(base, name)}
    return type(f"Broken{base.__name__}", (base,), body)(value)


class Raising:
    """An event that raises."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    def is_set(self) -> Any:
        if self.error is None:
            return np.ones(2)  # neither true nor false
        raise self.error


class Late(Raising):
    """An event that raises when the engine's own thread asks it."""

    def is_set(self) -> Any:
        return super().is_set() if threading.current_thread().name == "velocity" else False


def _speaker(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full((WIDTH,), value, dtype=dtype)


def _generator() -> Iterator[str]:
    yield "hello"
    _raise()


PARAMS: dict[str, dict[str, Any]] = {
    "top_K of 64 bits": {"top_K": 2**63},
    "top_K of 200 bits": {"top_K": 2**200},
    "top_K of numpy": {"top_K": np.uint64(2**63)},
    "a sly top_K": {"top_K": sly(3)},
    "a broken top_K": {"top_K": broken(int, 3)},
    "top_P that is no number": {"top_P": float("nan")},
    "top_P as an array": {"top_P": np.array([0.5])},
    "top_P as a tensor": {"top_P": torch.tensor(0.5)},
    "a sly top_P": {"top_P": sly(0.5)},
    "a fraction": {"top_P": fractions.Fraction(1, 3)},
    "a huge fraction": {"repetition_penalty": fractions.Fraction(10**400)},
    "a penalty as an array": {"repetition_penalty": np.ones(1)},
    "a penalty as arrays": {"repetition_penalty": np.ones((4, 626))},
    "a penalty as a tensor": {"repetition_penalty": torch.ones(1)},
    "the least penalty": {"repetition_penalty": 5e-324},
    "a huge penalty": {"repetition_penalty": 1e300},
    "an endless penalty": {"repetition_penalty": float("inf")},
    "a broken penalty": {"repetition_penalty": broken(float, 1.5)},
    "temperature that is no number": {"temperature": float("nan")},
    "an endless temperature": {"temperature": float("inf")},
    "a huge temperature": {"temperature": 1e300},
    "a temperature beyond floats": {"temperature": 10**400},
    "the least temperature": {"temperature": 1e-38},
    "temperatures as objects": {"temperature": np.array([1, "a", None, 2], dtype=object)},
    "temperatures in lists": {"temperature": [[0.3, 0.3], [0.3, 0.3]]},
    "uneven temperatures": {"temperature": [[0.3], [0.3, 0.3]]},
    "no temperature": {"temperature": []},
    "a generator as temperature": {"temperature": (x for x in "ab")},
    "sly temperatures": {"temperature": [sly(0.5)] * 4},
    "a million temperatures": {"temperature": [0.5] * 10**6},
    "frames without number": {"max_new_token": 10**30, "min_new_token": 0, "temperature": 1e30},
    "frames without end": {"max_new_token": float("inf")},
    "a least of frames beyond all": {"min_new_token": 10**30},
    "a sly count": {"max_new_token": sly(6)},
    "the greatest seed": {"manual_seed": 2**64 - 1},
    "a seed beyond": {"manual_seed": 2**64},
    "a seed of numpy": {"manual_seed": np.int8(-1)},
    "a sly seed": {"manual_seed": sly(3)},
    "half a character": {"prompt": "\ud800"},
    "tags without end": {"prompt": "[speed_5]" * 5000},
    "a sly prompt": {"prompt": sly("[speed_5]")},
    "flags that are neither": {"show_tqdm": np.ones(2), "ensure_non_empty": np.ones(2)},
    "a speaker of padding": {"spk_emb": "\u3d06"},
    "a speaker of one word": {"spk_emb": "\u4e00" * 3},
    "a speaker as a number": {"spk_emb": 5},
    "a speaker as a list": {"spk_emb": [[1.0], [2.0, 3.0]]},
    "a speaker as bytes": {"spk_emb": b"abc"},
    "a speaker without values": {"spk_emb": torch.empty(WIDTH, device="meta")},
    "a speaker as a sparse tensor": {"spk_emb": _speaker(1.0).to_sparse()},
    "a speaker that overflows": {"spk_emb": _speaker(6e4, torch.float16)},
    "a speaker that overflows all": {"spk_emb": _speaker(1e38)},
    "a speaker that is no number": {"spk_emb": _speaker(float("nan"))},
    "a speaker as objects": {"spk_emb": np.array([None] * WIDTH)},
    "an expanded speaker": {"spk_emb": torch.ones(1).expand(10**12)},
    "a sly speaker string": {"spk_emb": sly("\u4e00\u4e01")},
    "a sample as a number": {"spk_smp": 5},
    "a sample as a list": {"spk_smp": []},
    "an empty sample": {"spk_smp": ""},
    "a sample of padding": {"spk_smp": "\u3d06"},
    "a sly sample": {"spk_smp": sly(SAMPLE), "txt_smp": sly("hello")},
    "a transcript as a number": {"spk_smp": SAMPLE, "txt_smp": 5},
}
CALLS: dict[str, dict[str, Any]] = {
    "bytes as text": {"text": b"hello"},
    "a number as text": {"text": 5},
    "numbers as texts": {"text": [5, None]},
    "a generator that raises": {"text": _generator()},
    "a sly text": {"text": [sly("hello the world")]},
    "half a character as text": {"text": "hello \ud800 world"},
    "settings as a number": {"params_refine_text": 5},
    "settings named by numbers": {"params_refine_text": {5: 1, "a": 2}},
    "an event that is none": {"interrupt": 5},
    "an event that raises": {"interrupt": Raising(MischiefError())},
    "an event that raises late": {"interrupt": Late(MischiefError())},
    "an event that exits": {"interrupt": Late(SystemExit())},
    "an event that interrupts": {"interrupt": Late(KeyboardInterrupt())},
    "an event that is neither": {"interrupt": Late()},
    "growth beyond all": {"stream": True, "low_latency": {"growth": 1e308, "largest": 10**400}},
    "a sly latency": {"stream": True, "low_latency": LowLatency(growth=sly(1.2), first=sly(2))},
    "batches of nothing": {"max_split_batch": float("nan")},
    "batches as text": {"max_split_batch": "4"},
    "batches beyond all": {"max_split_batch": float("inf")},
}


def ask(chat: Chat, **given: Any) -> object:
    """Make one call with the usual arguments and those given; return its result or its error."""
    params = SHORT | {"manual_seed": 1} | given.pop("params", {})
    arguments: dict[str, Any] = {"text": "one good day", "skip_refine_text": True} | given
    try:
        result = chat.infer(**arguments, params_infer_code=InferCodeParams(**params))
        return list(result) if arguments.get("stream") else result
    except (ChatTTSError, MischiefError) as error:
        return error


@pytest.fixture(scope="module", params=["kernels", "torch"])
def chat(request: pytest.FixtureRequest) -> Iterator[Chat]:
    """A chat on velocity, with the sampler of the kernels or of torch."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "torch":

            def no_team(size: int) -> None:
                raise BuildError("not in this test")

            patch.setattr(model_loader, "Team", no_team)
        loaded = Chat()
        loaded.load_or_raise(
            "custom", custom_path=DATA / "model-a", device="cpu", use_vllm=True, num_threads=1
        )
    yield loaded
    loaded.unload()


@pytest.fixture(scope="module")
def alone(chat: Chat) -> list[np.ndarray]:
    return victim(chat)


def victim(chat: Chat) -> list[np.ndarray]:
    return speak(chat, "hello the world", min_new_token=12, max_new_token=12, spk_smp=SAMPLE)


def beside(chat: Chat, work: Callable[[], object]) -> tuple[list[np.ndarray], object]:
    """Do ``work`` beside another caller; return that caller's sounds and the result of ``work``."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(victim(chat)))
    thread.start()
    result = work()
    thread.join(SECONDS)
    assert not thread.is_alive()
    return found[0], result


@pytest.mark.parametrize("name", [*PARAMS, *CALLS])
@pytest.mark.slow_for("torch-*")
def test_other_callers_notice_nothing(chat: Chat, alone: list[np.ndarray], name: str) -> None:
    given = {"params": PARAMS[name]} if name in PARAMS else dict(CALLS[name])
    found, _ = beside(chat, lambda: ask(chat, **given))
    assert equal(found, alone)
    assert equal(victim(chat), alone)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("top_P as an array", ConfigError),
        ("a broken top_K", ConfigError),
        ("a broken penalty", ConfigError),
        ("a huge fraction", ConfigError),
        ("a penalty as arrays", ConfigError),
        ("a temperature beyond floats", ConfigError),
        ("uneven temperatures", ConfigError),
        ("flags that are neither", ConfigError),
        ("a speaker of padding", VoiceError),
        ("a speaker of one word", VoiceError),
        ("a speaker as a list", VoiceError),
        ("a speaker as bytes", VoiceError),
        ("a speaker without values", VoiceError),
        ("a speaker as objects", VoiceError),
        ("an expanded speaker", VoiceError),
        ("a sample as a number", ConfigError),
        ("a sample as a list", ConfigError),
        ("a sample of padding", VoiceError),
        ("a transcript as a number", ConfigError),
        ("bytes as text", TextError),
        ("a number as text", TextError),
        ("numbers as texts", TextError),
        ("settings as a number", ConfigError),
        ("settings named by numbers", ConfigError),
        ("an event that is none", ConfigError),
        ("growth beyond all", ConfigError),
        ("batches of nothing", ConfigError),
        ("batches as text", ConfigError),
    ],
)
def test_errors_are_told_in_words(chat: Chat, name: str, error: type[ChatTTSError]) -> None:
    given = {"params": PARAMS[name]} if name in PARAMS else dict(CALLS[name])
    found = ask(chat, **given)
    assert isinstance(found, error)
    assert len(str(found)) < 400


@pytest.mark.parametrize("name", ["top_K of 64 bits", "top_K of 200 bits", "top_K of numpy"])
def test_a_huge_top_k_is_none(chat: Chat, name: str) -> None:
    found, plain = (
        ask(chat, params={"temperature": 1.0, "top_K": top_k})
        for top_k in (PARAMS[name]["top_K"], 626)
    )
    assert isinstance(found, list)
    assert isinstance(plain, list)
    assert equal(found, plain)


# ---------------------------------------------------------------- the engine's own interface

PROMPT: Any = Prompt(np.arange(20, 40), np.zeros((0, 0), np.int64), None, np.zeros(20, np.bool_))
SAMPLING = SamplingParams((1.0,) * 4, 0.7, 20, 1.05, 6, 6)
KEY: Any = DrawKey(3, Pass.CODE)
REQUEST: Any = GenerationRequest(PROMPT, SAMPLING, KEY, request_id="r")


def engine_of(chat: Chat) -> AsyncLLMEngine:
    engine: AsyncLLMEngine = chat.gpt.engine.engine  # type: ignore[attr-defined]
    return engine


def run(engine: AsyncLLMEngine, request: GenerationRequest, cancelled: Any = None) -> Any:
    """Run one request; return its ids or its error."""
    try:
        outputs = [o for step in engine.stream([request], cancelled) for o in step]
    except (ChatTTSError, MischiefError) as error:
        return error
    return np.concatenate([d.ids for o in outputs for d in o.deltas])


class Moving(np.ndarray):
    """An array that raises in the methods that the engine uses."""

    __array_ufunc__ = _raise
    __getitem__ = _raise
    astype = tolist = _raise


def _moving(values: Any) -> Any:
    return np.array(values).view(Moving)


class SlyParams(SamplingParams):
    """Settings that raise when the engine's thread reads them."""

    def __getattribute__(self, name: str) -> Any:
        return (
            _raise()
            if threading.current_thread().name == "velocity"
            else super().__getattribute__(name)
        )


REQUESTS: dict[str, Any] = {
    "a number as id": replace(REQUEST, request_id=5),
    "a list as id": replace(REQUEST, request_id=[]),
    "a sly id": replace(REQUEST, request_id=sly("r")),
    "no prompt": replace(REQUEST, prompt=None),
    "objects as ids": replace(REQUEST, prompt=replace(PROMPT, text=np.array([None] * 20))),
    "ids of another kind": replace(REQUEST, prompt=replace(PROMPT, text=_moving(PROMPT.text))),
    "slots as texts": replace(REQUEST, prompt=replace(PROMPT, speaker_slots=np.array(["x"] * 20))),
    "a complex speaker": replace(
        REQUEST, prompt=replace(PROMPT, speaker=np.ones(WIDTH, np.complex64))
    ),
    "a speaker beyond float32": replace(
        REQUEST, prompt=replace(PROMPT, speaker=np.full(WIDTH, 1e300))
    ),
    "a scalar as ids": replace(REQUEST, prompt=replace(PROMPT, text=np.int64(5))),
    "no settings": replace(REQUEST, sampling=None),
    "settings of another class": replace(REQUEST, sampling=KEY),
    "sly settings": replace(REQUEST, sampling=SlyParams((1.0,) * 4, 0.7, 20, 1.05, 6, 6)),
    "a sly seed": replace(REQUEST, key=replace(KEY, seed=sly(3))),
    "an endless seed": replace(REQUEST, key=replace(KEY, seed=1 << 10**6)),
    "no key": replace(REQUEST, key=None),
    "a priority that is none": replace(REQUEST, priority="high"),
    "a priority that is no number": replace(REQUEST, priority=float("nan")),
    "a sly priority": replace(REQUEST, priority=sly(1.0)),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.slow_for("torch-*")
def test_hostile_requests_harm_no_other_request(
    chat: Chat, alone: list[np.ndarray], name: str
) -> None:
    found, result = beside(chat, lambda: run(engine_of(chat), REQUESTS[name]))
    assert isinstance(result, (ChatTTSError, np.ndarray))
    assert equal(found, alone)
    assert equal(victim(chat), alone)


def test_settings_are_checked_when_they_are_made() -> None:
    for changes in (
        {"temperature": 1.0},
        {"temperature": "1111"},
        {"temperature": (np.ones(2),) * 4},
        {"temperature": (10**400,) * 4},
        {"repetition_penalty": np.ones(1)},
        {"repetition_penalty": "1"},
        {"top_p": torch.tensor(0.5)},
        {"top_k": 2.0},
        {"top_k": broken(int, 5)},
        {"best": np.ones(2)},
        {"n": 2**17},
    ):
        with pytest.raises(ConfigError, match=next(iter(changes))):
            replace(SAMPLING, **changes)
    settled = replace(SAMPLING, temperature=(1e-38,) * 4, top_k=2**63, repetition_penalty=1e300)
    assert settled.temperature == (0.0,) * 4
    assert settled.is_greedy
    assert settled.top_k == 2**31 - 1
    assert settled.repetition_penalty < 1e38


def test_the_least_temperature_is_greedy(chat: Chat) -> None:
    engine = engine_of(chat)
    cold = run(engine, replace(REQUEST, sampling=replace(SAMPLING, temperature=(1e-38,) * 4)))
    zero = run(engine, replace(REQUEST, sampling=replace(SAMPLING, temperature=(0.0,) * 4)))
    np.testing.assert_array_equal(cold, zero)


def test_arrays_may_change_once_a_request_is_taken(chat: Chat) -> None:
    engine = engine_of(chat)
    expected = run(engine, REQUEST)
    text, slots = PROMPT.text.copy(), PROMPT.speaker_slots.copy()
    request = replace(REQUEST, prompt=replace(PROMPT, text=text, speaker_slots=slots))
    steps = engine.stream([request])
    ids = [d.ids for o in next(steps) for d in o.deltas]
    text[:] = 10**9  # an index far outside of all tables
    ids += [d.ids for step in steps for o in step for d in o.deltas]
    np.testing.assert_array_equal(np.concatenate(ids), expected)


def test_ids_without_a_sign_share_no_blocks_with_a_speaker(chat: Chat) -> None:
    """For an unsigned id, ``~id`` is a valid id: such a prompt must not match a speaker's slot."""
    engine = engine_of(chat)
    slots = np.zeros(64, np.bool_)
    slots[1] = True
    low = np.full(64, 30, np.uint8)
    voiced = replace(PROMPT, text=low, speaker_slots=slots)
    plain_text = low.astype(np.int64)
    plain_text[1] = 255 - 30
    plain = replace(PROMPT, text=plain_text, speaker_slots=np.zeros(64, np.bool_))
    before = engine.metrics().cached_positions
    run(engine, replace(REQUEST, prompt=voiced))
    run(engine, replace(REQUEST, prompt=plain))
    assert engine.metrics().cached_positions == before


@pytest.mark.parametrize("error", [MischiefError(), SystemExit(), KeyboardInterrupt()])
def test_an_event_that_raises_ends_its_call_and_is_told(
    chat: Chat, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    endless = replace(SAMPLING, min_new=10**6, max_new=10**6)
    result = run(engine_of(chat), replace(REQUEST, sampling=endless), Late(error))
    assert isinstance(result, np.ndarray)
    assert f"its interrupt event raised {type(error).__name__}" in caplog.text


def test_ctrl_c_is_no_fault_of_an_event() -> None:
    with pytest.raises(KeyboardInterrupt):
        Cancellation(Raising(KeyboardInterrupt())).is_set()  # type: ignore[arg-type]
