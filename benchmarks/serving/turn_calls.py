"""Count the Python calls of the loop of a GPU, for a turn, for a stream in it and for a frame.

    python -m benchmarks.serving.turn_calls --streams 64

Streams are read as they come, on the simulated device of ``benchmarks.serving.host``. Calls of the
package's own functions in the loop's thread are counted; unlike times, their numbers do not depend
on the machine. README.md explains the table.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import ChatTTS
from ChatTTS.core import Chat

from ..common.command import check_at_least_one, new_parser, origin, write_json
from ..common.random_checkpoint import temporary_checkpoint
from .simulated.device import Counters
from .simulated.patches import simulate
from .simulated.sizes import host_config
from .simulated.steps import H100

_PACKAGE = str(Path(ChatTTS.__file__).parent) + os.sep
_SAMPLES_PER_FRAME = 512
_TEXT = (
    "This is one of many sentences that are spoken at once, and it is long enough to take a while "
    "for its listener to hear all of it."
)


@dataclass
class LoopCalls:
    """The calls of the package's functions in the thread of the loop, by file and name.

    Attributes:
        calls: how often each was called.
    """

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    _loop: int = 0

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call: for ``threading.setprofile``."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(_PACKAGE):
            return
        if code.co_name == "_take_turns":
            self._loop = threading.get_ident()
        if threading.get_ident() == self._loop:
            self.calls[code.co_filename.removeprefix(_PACKAGE), code.co_name] += 1

    def of(self, name: str, file: str) -> int:
        """Return how often a function was called; raise KeyError if it never was."""
        if (count := self.calls[file, name]) == 0:
            raise KeyError(f"{name} of {file} was not called: the loop has changed")
        return count


async def listen(chat: Chat, streams: int) -> int:
    """Read so many streams at once; return their samples."""

    async def one(seed: int) -> int:
        params = Chat.InferCodeParams(manual_seed=seed, show_tqdm=False)
        stream = chat.stream(_TEXT, skip_refine_text=True, params_infer_code=params)
        return sum([len(piece.samples) async for piece in stream])

    return sum(await asyncio.gather(*map(one, range(streams))))


def main() -> None:
    parser = new_parser("serving.turn_calls", __doc__ or "")
    parser.add_argument("--streams", type=int, default=64, help="that are spoken at once")
    parser.add_argument("--functions", type=int, default=40, help="how many the table has")
    parser.add_argument("--json", type=Path, help="file for the report")
    args = parser.parse_args()
    check_at_least_one(parser, args, "streams", "functions")
    simulate(H100, Counters())
    loop = LoopCalls()
    with temporary_checkpoint(host_config(), seed=0) as folder:
        chat = Chat()
        chat.load("custom", custom_path=str(folder), device="cpu", dtype="bfloat16", use_vllm=True)
        asyncio.run(listen(chat, args.streams))  # records what it launches
        while any(thread.name == "velocity" for thread in threading.enumerate()):
            time.sleep(0.01)
        threading.setprofile(loop.note)  # of the thread that begins with the next work
        try:
            samples = asyncio.run(listen(chat, args.streams))
        finally:
            threading.setprofile(None)
        chat.unload()
    frames = samples / _SAMPLES_PER_FRAME
    turns = loop.of("_take_turns", "utils/device_loop.py")
    plans = loop.of("update", "model/velocity/llm_engine.py")
    moved = loop.of("_take", "model/velocity/scheduler.py")
    each = loop.calls.total() / frames
    print(f"{args.streams} streams: {frames:.0f} frames in {turns} turns and {plans} plans;")
    print(f"a stream has {frames / moved:.1f} frames in a plan; {each:.1f} calls a frame\n")
    print("| function | file | a turn | a stream in a plan | a frame |")
    print("| --- | --- | --- | --- | --- |")
    for (file, name), count in loop.calls.most_common(args.functions):
        shares = f"{count / turns:.1f} | {count / moved:.2f} | {count / frames:.2f}"
        print(f"| {name} | {file} | {shares} |")
    report = {
        **origin(),
        "streams": args.streams,
        "frames": frames,
        "turns": turns,
        "plans": plans,
        "moved": moved,
        "calls": {f"{file} {name}": count for (file, name), count in loop.calls.most_common()},
    }
    write_json(report, args.json)


if __name__ == "__main__":
    main()
