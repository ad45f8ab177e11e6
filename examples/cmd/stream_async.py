"""Speak several texts at the same time in one asyncio loop, each into a WAV file that grows.

python examples/cmd/stream_async.py "It was very cold last night." "We went home." --out growing
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence

import ChatTTS
from ChatTTS.audio import WavWriter

TEXTS = (
    "It was very cold last night. There was snow on the road.",
    "My brother works in a big city. The children are playing.",
)


async def speak(chat: ChatTTS.Chat, text: str, path: str, seed: int) -> None:
    """Speak one text; the event loop serves the other texts while this one waits for a piece."""
    start = time.perf_counter()
    params = ChatTTS.InferCodeParams(manual_seed=seed, show_tqdm=False)
    stream = chat.stream(text, skip_refine_text=True, params_infer_code=params)
    with WavWriter(path) as writer:
        async with stream as pieces:
            async for piece in pieces:
                writer.write(piece.samples)
                print(
                    f"after {time.perf_counter() - start:5.2f} s: "
                    f"{writer.samples_written / 24_000:5.2f} s of speech in {path}"
                )
    print(f"{path}: {writer.samples_written / 24_000:.2f} s ({stream.finish_reason})")


async def speak_all(chat: ChatTTS.Chat, texts: Sequence[str], out: str, seed: int) -> None:
    """Speak all texts; the velocity engine generates them in one batch."""
    await asyncio.gather(
        *(
            speak(chat, text, f"{out}-{number}.wav", seed)
            for number, text in enumerate(texts, start=1)
        )
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Speak texts at the same time.")
    parser.add_argument("texts", nargs="*", default=TEXTS)
    parser.add_argument("--out", default="stream", help="files are named after it: stream-1.wav")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same sound")
    parser.add_argument("--source", default="bundled", help="bundled, local or huggingface")
    args = parser.parse_args(argv)

    chat = ChatTTS.Chat()
    chat.load_or_raise(args.source, use_vllm=True)
    asyncio.run(speak_all(chat, args.texts, args.out, args.seed))


if __name__ == "__main__":
    main()
