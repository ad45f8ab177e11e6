"""Speak piece by piece: write a WAV file that grows, and play the sound.

python examples/cmd/stream.py "It was very cold last night. We went home." --out growing.wav
python examples/cmd/stream.py --play --low-latency
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import ExitStack

import ChatTTS
from ChatTTS.audio import Player, WavWriter

TEXT = "It was very cold last night. My brother works in a big city. The children are playing."


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write and play sound while it is spoken.")
    parser.add_argument("text", nargs="?", default=TEXT)
    parser.add_argument("--out", default="stream.wav", help="a .wav file")
    parser.add_argument("--play", action="store_true", help="also play it (extra `play`)")
    parser.add_argument("--low-latency", action="store_true", help="begin before it is final")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same sound")
    parser.add_argument("--source", default="bundled", help="bundled, local or huggingface")
    args = parser.parse_args(argv)

    chat = ChatTTS.Chat()
    chat.load_or_raise(args.source, use_vllm=True)
    start = time.perf_counter()
    with ExitStack() as stack:
        pieces = stack.enter_context(
            chat.stream(
                args.text,
                low_latency=args.low_latency,
                skip_refine_text=True,
                params_infer_code=ChatTTS.InferCodeParams(manual_seed=args.seed, show_tqdm=False),
            )
        )
        # Entered after the stream, these are left before it, so Ctrl-C stops the sound at once.
        file = stack.enter_context(WavWriter(args.out))
        player = stack.enter_context(Player()) if args.play else None
        for piece in pieces:
            print(
                f"after {time.perf_counter() - start:5.2f} s: {len(piece.samples) / 24_000:5.2f} s "
                f"from {piece.position / 24_000:5.2f} s on, "
                f"utterance {piece.utterance}: {piece.text}"
            )
            file.write(piece.samples)
            if player is not None:
                player.write(piece.samples)  # waits while the device has enough sound
    print(f"{args.out}: {file.samples_written / 24_000:.2f} s ({pieces.finish_reason})")


if __name__ == "__main__":
    main()
