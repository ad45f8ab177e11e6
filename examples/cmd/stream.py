"""Write a WAV file that grows while the text is spoken; players can open it meanwhile.

python examples/cmd/stream.py "It was very cold last night. We went home." --out growing.wav
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import ChatTTS
from ChatTTS.audio import WavWriter

TEXT = "It was very cold last night. My brother works in a big city. The children are playing."


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write sound while it is spoken.")
    parser.add_argument("text", nargs="?", default=TEXT)
    parser.add_argument("--out", default="stream.wav", help="a .wav file")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same sound")
    parser.add_argument("--source", default="bundled", help="bundled, local or huggingface")
    args = parser.parse_args(argv)

    chat = ChatTTS.Chat()
    chat.load_or_raise(args.source)
    start = time.perf_counter()
    chunks = chat.infer(
        args.text,
        stream=True,
        skip_refine_text=True,
        params_infer_code=ChatTTS.InferCodeParams(manual_seed=args.seed),
    )
    with WavWriter(args.out) as writer:
        for chunk in chunks:  # (rows, n): one row, since there is one text
            writer.write(chunk[0])
            print(
                f"after {time.perf_counter() - start:5.2f} s: "
                f"{writer.samples_written / 24_000:5.2f} s of speech in {args.out}"
            )
    print(f"finished: {chunks.finish_reasons[0]}")


if __name__ == "__main__":
    main()
