"""Check that a stream goes on while other work is captured, or runs uncaptured, beside it.

This part needs the packages of the audio decoders beside torch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ChatTTS
from ChatTTS.params import InferCodeParams

from ..common.comparison import texts
from .scale import Scale, Task
from .sound import whole_checkpoint
from .timing import wait_for_captures

SAMPLE_RATE = 24_000
# Seconds of silence that a player may have: as much as a listener hardly hears.
_MOST_SILENT = 0.1
# A sample prompt's length in seconds.
_PROMPT_SECONDS = 3
# Memory for the keys and values of a second model.
_SECOND_KV_MEMORY = "512MB"


@dataclass(frozen=True)
class Heard:
    """The sound of a stream, and its gaps.

    Attributes:
        samples: all of them.
        silent: seconds in which a player that began with the first piece had no samples.
        gap: the longest time between two pieces, in seconds.
    """

    samples: np.ndarray
    silent: float
    gap: float


def measure(task: Task, dtype: str) -> None:
    """Record the pauses of a stream alone, and beside each kind of other work.

    Raises:
        RuntimeError: other work or the stream failed, the samples are others than alone, or (on a
            GPU) a player of the stream would have paused; the record says which.
    """
    scale, record = task.scale, task.record
    folder = whole_checkpoint(task)
    chat = _loaded(folder, scale, dtype, scale.kv_memory)
    for _ in range(2):  # the first one warms up
        alone = _listen(chat, scale)
    record.put(dtype=dtype, alone=_told(alone, alone))
    noise = np.random.default_rng(0).normal(0, 0.1, _PROMPT_SECONDS * SAMPLE_RATE)

    def another() -> None:
        second = _loaded(folder, scale, dtype, min(_SECOND_KV_MEMORY, scale.kv_memory, key=_size))
        _speak(second, scale, 1)
        second.unload()

    others: dict[str, Callable[[], Any]] = {
        f"{scale.beside} other texts": lambda: _speak(chat, scale, scale.beside),
        "sample prompts read": lambda: chat.sample_audio_speaker(noise.astype(np.float32)),
        "another model loaded": another,
    }
    found: dict[str, Any] = {}
    wrong = []
    for name, work in others.items():
        heard, times, error = _beside(chat, scale, work)
        each = [_told(one, alone) for one in heard]
        own = found[name] = {figure: max(one[figure] for one in each) for figure in each[0]}
        own["times"] = times
        if error is not None:
            own["failed"] = repr(error)
        record.put(beside=found)
        paused = own["silent_ms"] > 1000 * _MOST_SILENT and task.device.type == "cuda"
        if error is not None or own["difference"] > 0 or paused:
            wrong.append(name)
    chat.unload()
    if wrong:
        raise RuntimeError(f"the stream is disturbed by: {', '.join(wrong)}")


def _beside(
    chat: ChatTTS.Chat, scale: Scale, work: Callable[[], Any]
) -> tuple[list[Heard], int, BaseException | None]:
    """Listen to a stream, again and again until ``work`` was done at least once beside it.

    Returns:
        All that was heard, how often the work was done, and its error.
    """
    times, errors, is_over = 0, [], threading.Event()

    def repeat() -> None:
        nonlocal times
        try:
            while not times or not is_over.is_set():
                work()
                times += 1
        except Exception as error:  # of any kind: it is reported
            errors.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    heard = [_listen(chat, scale)]
    while not times and thread.is_alive():
        heard.append(_listen(chat, scale))
    is_over.set()
    thread.join()
    return heard, times, errors[0] if errors else None


def _listen(chat: ChatTTS.Chat, scale: Scale) -> Heard:
    """Listen to one stream; its text and seed are always the same."""
    pieces: list[np.ndarray] = []
    silent = gap = 0.0
    played_until = last = 0.0
    for piece in chat.stream(
        texts(1, scale.prompt, 0)[0],
        skip_refine_text=True,
        do_text_normalization=False,
        do_homophone_replacement=False,
        split_text=False,
        params_infer_code=_params(scale),
    ):
        now = time.perf_counter()
        if pieces:
            silent += max(0.0, now - played_until)
            gap = max(gap, now - last)
        played_until = max(played_until, now) + len(piece.samples) / SAMPLE_RATE
        last = now
        pieces.append(piece.samples)
    return Heard(np.concatenate(pieces), silent, gap)


def _speak(chat: ChatTTS.Chat, scale: Scale, count: int) -> None:
    chat.infer(
        texts(count, scale.prompt, 1),
        skip_refine_text=True,
        do_text_normalization=False,
        do_homophone_replacement=False,
        split_text=False,
        params_infer_code=_params(scale),
    )


def _params(scale: Scale) -> InferCodeParams:
    """Return the default settings for exactly ``scale.frames`` frames."""
    count = scale.frames
    return InferCodeParams(max_new_token=count, min_new_token=count, manual_seed=0, show_tqdm=False)


def _told(heard: Heard, alone: Heard) -> dict[str, Any]:
    """Return the figures of a stream.

    Among them is the norm of its difference from the one alone, by the norm of that one.
    """
    difference = float("inf")
    if heard.samples.shape == alone.samples.shape and np.isfinite(heard.samples).all():
        norm = max(float(np.linalg.norm(alone.samples)), 1e-30)
        difference = float(np.linalg.norm(heard.samples - alone.samples)) / norm
    return {"silent_ms": 1000 * heard.silent, "gap_ms": 1000 * heard.gap, "difference": difference}


def _loaded(folder: Path, scale: Scale, dtype: str, kv_memory: str) -> ChatTTS.Chat:
    chat = ChatTTS.Chat()
    chat.load_or_raise(
        "custom",
        custom_path=folder,
        device=scale.device,
        dtype=dtype,
        use_vllm=True,
        kv_memory=kv_memory,
    )
    wait_for_captures(chat._loaded.capturables)
    return chat


def _size(memory: str) -> int:
    """Return the bytes of a size such as ``4MB``."""
    return int(memory[:-2]) * {"MB": 1 << 20, "GB": 1 << 30}[memory[-2:]]
