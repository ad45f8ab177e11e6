"""A child that loads hostile checkpoints, one after another, and speaks with those that load.

Run it as ``python -m tests.support.hostile_child``. It reads lines of JSON with the id, the folder
and the engine of each checkpoint, and answers each with one line. It catches no error that would
end a user's program.
"""

from __future__ import annotations

import ctypes
import json
import logging
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import ChatTTSError

# Bytes beyond the address space at the start: a backstop far above any good load.
_ROOM = 2 << 30
_TEXT = "hi there"
_SPEECH = {
    "max_new_token": 6,
    "min_new_token": 6,
    "manual_seed": 1,
    "ensure_non_empty": False,
    "show_tqdm": False,
}
_FIELDS = {"VmHWM": "peak", "VmSize": "mapped"}


def memory() -> dict[str, int]:
    """Return bytes: peak resident memory since :func:`forget_peak`, and mapped memory."""
    try:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
    except OSError:  # a system without this file
        return {"peak": 0, "mapped": 0}
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[key].split()[0]) << 10 for key, name in _FIELDS.items()}


def forget_peak() -> None:
    """Reset the peak of resident memory, and return freed memory to the system."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", "ascii")
    except (OSError, AttributeError):
        pass  # then each case counts from the overall peak


def use(chat: Chat) -> None:
    """Run every computation with a checkpoint's weights once."""
    given: dict[str, Any] = {"skip_refine_text": True, "params_infer_code": _SPEECH}
    for use_decoder in (True, False):
        (samples,) = chat.infer(_TEXT, use_decoder=use_decoder, **given)
        assert len(samples), "silence"
        assert np.isfinite(samples).all(), "no sound"
    chat.infer(_TEXT, refine_text_only=True, params_refine_text=_SPEECH)
    noise = np.random.default_rng(0).standard_normal(24_000).astype(np.float32) / 10
    sample = chat.sample_audio_speaker(noise)
    voice = {**_SPEECH, "spk_smp": sample, "txt_smp": "so", "spk_emb": chat.sample_random_speaker()}
    chat.infer(_TEXT, skip_refine_text=True, params_infer_code=voice)


def tried(folder: str, engine: str, dtype: str) -> dict[str, Any]:
    """Load a checkpoint and speak with it; return the stage that was reached and the error."""
    chat = Chat()
    answer: dict[str, Any] = {"stage": "load", "error": None, "message": "", "own": True}
    try:
        chat.load_or_raise(
            "custom",
            custom_path=folder,
            device="cpu",
            num_threads=1,
            dtype=dtype,
            use_vllm=engine == "velocity",
            kv_memory="64MB" if engine == "velocity" else None,
        )
        answer["stage"] = "use"
        use(chat)
        answer["stage"] = "spoke"
    except Exception as error:
        own = isinstance(error, ChatTTSError)
        where = "" if own else traceback.format_exc(limit=-3)
        answer |= {"error": type(error).__name__, "message": str(error) + where, "own": own}
    finally:
        chat.unload()
    return answer


def main() -> None:
    logging.disable(logging.CRITICAL)
    cases = [json.loads(line) for line in sys.stdin]
    for engine in sorted({case["engine"] for case in cases}):
        answer = tried(cases[0]["good"], engine, "float32")  # imports, and kernels are compiled
        assert answer["stage"] == "spoke", answer
    limit = memory()["mapped"] + _ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for case in cases:
        forget_peak()
        before = memory()["peak"]
        # At this limit the system ends the process, even within native code.
        signal.setitimer(signal.ITIMER_PROF, case["seconds"])
        answer = tried(case["folder"], case["engine"], case["dtype"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        grown = max(0, memory()["peak"] - before)
        print(json.dumps({**answer, "id": case["id"], "grown": grown}), flush=True)
    assert torch.get_num_threads() == 1


if __name__ == "__main__":
    main()
