"""``Chat`` on velocity: faults that only an engine shared by all calls can have."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import GenerationError, NotLoadedError
from ChatTTS.model.velocity.generator import VelocityGenerator
from ChatTTS.model.velocity.metrics import Metrics
from ChatTTS.pipeline.results import Waveforms
from ChatTTS.utils.fair_lock import FairLock

from ...support.chat_tools import TEXT, equal, quick, speak
from ...support.places import DATA, ROOT

SECONDS = 60  # a hang is a failure, not a wait


@pytest.fixture
def chat() -> Iterator[Chat]:
    loaded = Chat()
    loaded.load_or_raise(
        "custom", custom_path=DATA / "model-a", device="cpu", use_vllm=True, num_threads=1
    )
    yield loaded
    loaded.unload()


def metrics(chat: Chat) -> Metrics:
    engine = chat.gpt.engine
    assert isinstance(engine, VelocityGenerator)
    return engine.engine.metrics()


def in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()


# ---------------------------------------------------------------- sharing


def test_calls_of_many_threads_share_the_batch(chat: Chat) -> None:
    alone = [speak(chat, TEXT, manual_seed=i) for i in range(8)]
    before, found = metrics(chat), {}
    in_threads(8, lambda i: found.update({i: speak(chat, TEXT, manual_seed=i)}))
    assert all(equal(found[i], alone[i]) for i in range(8))
    after = metrics(chat)
    assert after.steps - before.steps < after.generated_tokens - before.generated_tokens


def test_a_list_is_one_batch_however_long(chat: Chat) -> None:
    texts = [f"{TEXT} " * (1 + i % 3) for i in range(12)]
    before = metrics(chat).steps
    together = speak(chat, texts, max_new_token=20, min_new_token=20)
    assert metrics(chat).steps - before < 2 * 20 + 12
    alone = [speak(chat, text, max_new_token=20, min_new_token=20)[0] for text in texts]
    assert equal(together, alone)


def test_the_same_prompt_again_is_not_computed_again(chat: Chat) -> None:
    text = "one good day to the world and to you " * 5
    first = speak(chat, text)
    before = metrics(chat)
    assert equal(speak(chat, text), first)
    assert metrics(chat).cached_positions > before.cached_positions
    other = chat.sample_random_speaker()
    hits = metrics(chat).cached_positions
    assert not equal(speak(chat, text, spk_emb=other), first)
    assert metrics(chat).cached_positions == hits  # another speaker shares nothing


# ---------------------------------------------------------------- ends


def test_unload_ends_what_runs(chat: Chat) -> None:
    stream = chat.infer(TEXT, stream=True, **quick(min_new_token=900, max_new_token=900))
    next(iter(stream))
    chat.unload()
    rest = list(stream)
    assert sum(chunk.shape[1] for chunk in rest) < 900 * 512
    with pytest.raises(NotLoadedError):
        speak(chat, TEXT)
    assert "velocity" not in [thread.name for thread in threading.enumerate()]


def test_loading_anew_leaves_running_calls_alone(chat: Chat) -> None:
    wanted = speak(chat, TEXT)
    stream = chat.infer(TEXT, stream=True, **quick())
    chunks = [next(iter(stream))]
    chat.load_or_raise(
        "custom", custom_path=DATA / "model-b", device="cpu", use_vllm=True, num_threads=1
    )
    chunks += list(stream)
    np.testing.assert_allclose(np.concatenate(chunks, axis=1)[0], wanted[0], atol=1e-5)


def test_a_broken_voice_is_an_error_for_its_own_call_alone(chat: Chat) -> None:
    wanted = speak(chat, TEXT)
    table = chat.embed.text.weight
    broken = chat.tokenizer.ids("water")[0]
    kept = table[broken].clone()
    found: dict[int, object] = {}

    def work(i: int) -> None:
        try:
            found[i] = speak(chat, "water" if i == 1 else TEXT)
        except GenerationError as error:
            found[i] = error

    with torch.inference_mode():
        table[broken] = torch.nan
        in_threads(4, work)
        table[broken] = kept
    assert isinstance(found.pop(1), GenerationError)
    assert all(isinstance(sound, list) and equal(sound, wanted) for sound in found.values())
    assert equal(speak(chat, TEXT), wanted)


SCRIPT = """
import os, sys
import ChatTTS
chat = ChatTTS.Chat()
chat.load_or_raise("custom", custom_path=sys.argv[1], device="cpu", use_vllm=True, num_threads=2)
params = dict(max_new_token=30, min_new_token=30, manual_seed=1)
first = chat.infer("hello the world", skip_refine_text=True, params_infer_code=params)[0]
stream = chat.infer("hello the world", True, skip_refine_text=True,
                    params_infer_code=dict(params, max_new_token=900, min_new_token=900))
next(iter(stream))  # the engine is at work now
"""
ENDS = {
    "the end of the interpreter": "",
    "an exception": "raise SystemExit(0)",
    "a fork": """
child = os.fork()
if child == 0:
    again = chat.infer("hello the world", skip_refine_text=True, params_infer_code=params)[0]
    os._exit(0 if (again == first).all() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stream.close()
""",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.slow
def test_nothing_hangs(end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT + end, str(DATA / "model-a")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if "not the published checkpoint" not in line]
    assert (done.returncode, said) == (0, [])


# ---------------------------------------------------------------- precision


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "int8", "auto", pytest.param("float16", marks=pytest.mark.thorough)]
)
@pytest.mark.slow_for("bfloat16", "auto")
def test_faster_dtypes_speak_and_repeat(dtype: str) -> None:
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True, dtype=dtype, num_threads=1)
    settings = {"manual_seed": 3, "min_new_token": 0, "max_new_token": 400, "temperature": 0.3}
    first = speak(chat, "good morning to you.", **settings)
    assert equal(speak(chat, "good morning to you.", **settings), first)
    assert 0.8 < len(first[0]) / 24_000 < 4
    assert isinstance(first, Waveforms)
    assert first.rows[0].finish_reason == "stop"
    chat.unload()


# ---------------------------------------------------------------- the fair lock


def test_turns_come_in_the_order_of_asking() -> None:
    compute_lock, order = FairLock(), []

    def ask(i: int) -> None:
        compute_lock.run(lambda: order.append(i))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]

    def first() -> None:
        for thread in threads:
            last = compute_lock._last
            thread.start()
            deadline = time.monotonic() + SECONDS
            while compute_lock._last is last:
                assert time.monotonic() < deadline
        assert order == []

    compute_lock.run(first)
    for thread in threads:
        thread.join(SECONDS)
    assert order == [0, 1, 2, 3]
