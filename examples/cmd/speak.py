"""Speak a sentence into a sound file.

python examples/cmd/speak.py "Good morning, how are you today?" --out morning.wav
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import ChatTTS


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Speak a sentence into a sound file.")
    parser.add_argument("text", nargs="?", default="Good morning, how are you today?")
    parser.add_argument("--out", default="speak.wav", help="wav, flac, mp3, ogg or opus")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same sound")
    parser.add_argument("--source", default="bundled", help="bundled, local or huggingface")
    args = parser.parse_args(argv)

    chat = ChatTTS.Chat()
    chat.load_or_raise(args.source)
    waveforms = chat.infer(
        args.text,
        skip_refine_text=True,
        params_infer_code=ChatTTS.InferCodeParams(manual_seed=args.seed),
    )
    ChatTTS.save(args.out, waveforms[0])
    print(f"{args.out}: {len(waveforms[0]) / 24_000:.2f} s ({waveforms.finish_reasons[0]})")


if __name__ == "__main__":
    main()
