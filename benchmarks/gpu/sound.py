"""Time speech on the GPU, from text to samples: the first samples of a stream, and whole runs.

This part needs the packages of the audio decoders beside torch.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import Any

from ChatTTS.config import Config

from ..common.comparison import texts
from ..common.random_checkpoint import config_from, write_checkpoint
from ..common.report import FRAMES_PER_SECOND
from .scale import Task
from .timing import spread, wait_for_captures

_RUNS = 3
_WAYS = ("stream", "low_latency")
# Largest number of streams in whole runs.
_MOST_STREAMS = 64


def measure(task: Task, dtype: str) -> None:
    """Time loading, then streams of one request, then whole runs of several texts."""
    # Only this part needs the packages of the audio decoders.
    from ..cpu.chat_child import chat, run
    from ..cpu.streaming import child

    scale, record = task.scale, task.record
    record.put(dtype=dtype, frames=scale.frames, prompt=scale.prompt)
    folder = whole_checkpoint(task)
    began = time.perf_counter()
    chat.load_or_raise(
        "custom",
        custom_path=folder,
        device=scale.device,
        dtype=dtype,
        use_vllm=True,
        kv_memory=scale.kv_memory,
    )
    record.put(load_s=time.perf_counter() - began)
    wait_for_captures(chat._loaded.capturables)
    number = 0
    first: dict[str, Any] = {}
    for way in _WAYS:
        seconds = []
        for _ in range(_RUNS + 1):
            said = getattr(child, way)(texts(1, scale.prompt, number), scale.frames)
            seconds.append(next(at for at, samples, _ in said["chunks"][0] if samples))
            number += 1
        first[way] = spread(seconds[1:])
        record.put(first_sound_ms=first)
    whole: dict[str, Any] = {}
    for streams in (count for count in scale.streams if count <= _MOST_STREAMS):
        seconds = []
        for _ in range(_RUNS):
            seconds.append(run(texts(streams, scale.prompt, number), scale.frames)["infer_s"])
            number += streams
        own = spread(seconds[1:], 1)
        spoken = streams * scale.frames / FRAMES_PER_SECOND
        whole[str(streams)] = {"infer_s": own, "rtf": own["median"] / spoken}
        record.put(streams=whole)
    chat.unload()


def whole_checkpoint(task: Task) -> Path:
    """Return the folder of a whole checkpoint; the first part that needs it writes it."""
    folder = task.folder / "whole"
    if not folder.exists():
        partial = task.folder / "whole.partial"
        shutil.rmtree(partial, ignore_errors=True)
        write_checkpoint(partial, whole_config(task))
        partial.rename(folder)
    return folder


def whole_config(task: Task) -> Config:
    """Return the sizes of a whole checkpoint; a tiny one has one block in each audio network."""
    gpt = task.scale.gpt
    return config_from(
        argparse.Namespace(
            hidden=gpt.hidden_size,
            intermediate=gpt.intermediate_size,
            heads=gpt.num_attention_heads,
            layers=gpt.num_hidden_layers,
            positions=gpt.max_position_embeddings,
            text_tokens=gpt.num_text_tokens,
            audio_layers=None if gpt == Config().gpt else 1,
        )
    )
