"""Speak a long text with one steady voice, and print when each utterance begins.

python examples/cmd/long_text.py story.txt --out story.flac
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import ChatTTS

# A line end always ends an utterance, so each paragraph is one line.
STORY = (
    "My brother works in a big city. He gets up at 6 every morning, and he walks to the station.\n"
    "Last week it was very cold. There was snow on the road, so the train was late. "
    "He had to wait for 20 minutes with a cup of coffee in his hand.\n"
    "Then the sun came out. It was a good day after all.\n"
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Speak a long text with one steady voice.")
    parser.add_argument("file", nargs="?", type=Path, help="UTF-8 text; a short story by default")
    parser.add_argument("--out", default="long-text.wav", help="wav, flac, mp3, ogg or opus")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same sound")
    parser.add_argument("--batch", type=int, default=4, help="utterances generated side by side")
    parser.add_argument("--source", default="bundled", help="bundled, local or huggingface")
    args = parser.parse_args(argv)
    text = STORY if args.file is None else args.file.read_text(encoding="utf-8")

    chat = ChatTTS.Chat()
    chat.load_or_raise(args.source)
    # An utterance without sound does not fail the call: it is listed below with 0 s.
    params = ChatTTS.InferCodeParams(manual_seed=args.seed, ensure_non_empty=False)
    waveforms = chat.infer(
        text, skip_refine_text=True, max_split_batch=args.batch, params_infer_code=params
    )
    ChatTTS.save(args.out, waveforms[0])

    start = 0
    for spoken in waveforms.rows[0].utterances:
        finish = "" if spoken.finish is None else spoken.finish.value
        print(f"{start / 24_000:7.2f} s  {spoken.samples / 24_000:5.2f} s  {finish}  {spoken.text}")
        start += spoken.samples
    print(f"{args.out}: {start / 24_000:.2f} s")


if __name__ == "__main__":
    main()
