"""Speak by OpenAI's own client: into a file, while it is spoken, or as events.

pip install openai
python examples/api/openai_client.py "Good morning, how are you today?" --out morning.mp3
python examples/api/openai_client.py --mode stream --out - | ffplay -nodisp -autoexit -
python examples/api/openai_client.py --mode sse --out events.wav --seed 7
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from openai import OpenAI

TEXT = "Good morning, how are you today?"


def streamed(client: OpenAI, request: dict[str, Any]) -> Iterator[bytes]:
    """Yield the bytes of the file as they come."""
    with client.audio.speech.with_streaming_response.create(**request) as response:
        yield from response.iter_bytes()


def from_events(client: OpenAI, request: dict[str, Any]) -> Iterator[bytes]:
    """Yield the bytes of the file from server-sent events; these also report how it ended."""
    speech = client.audio.speech.with_streaming_response
    with speech.create(**request, stream_format="sse") as response:
        for line in response.iter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            if event["type"] == "speech.audio.delta":
                yield base64.b64decode(event["audio"])
            elif event["type"] == "speech.audio.done":
                usage = event["usage"]
                print(f"{usage['output_tokens']} frames, {event['finish_reason']}", file=sys.stderr)
            else:
                raise RuntimeError(event["error"]["message"])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Speak by OpenAI's own client.")
    parser.add_argument("text", nargs="?", default=TEXT)
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1", help="(default %(default)s)")
    parser.add_argument("--out", default="speech.mp3", help="a file; - is standard output")
    parser.add_argument("--mode", choices=("file", "stream", "sse"), default="file")
    parser.add_argument("--format", help="mp3, opus, aac, flac, wav or pcm; by the file's ending")
    parser.add_argument("--voice", default="alloy", help="a name of GET /v1/audio/voices")
    parser.add_argument("--seed", type=int, help="the same seed, the same sound")
    args = parser.parse_args(argv)

    key = os.environ.get("CHATTTS_API_KEY", "none")  # the client requires a key
    client = OpenAI(base_url=args.url, api_key=key)
    form = args.format or Path(args.out).suffix.lstrip(".") or "mp3"
    request: dict[str, Any] = {
        "model": "tts-1",
        "voice": args.voice,
        "input": args.text,
        "response_format": form,
        "extra_body": {} if args.seed is None else {"seed": args.seed},
    }
    if args.mode == "file":
        # A file that is not streamed has its length in the header (wav, flac).
        request["extra_body"]["stream"] = False
        parts = iter([client.audio.speech.create(**request).content])
    else:
        parts = (streamed if args.mode == "stream" else from_events)(client, request)
    written = 0
    with ExitStack() as stack:
        file: BinaryIO = sys.stdout.buffer
        if args.out != "-":
            file = stack.enter_context(Path(args.out).open("wb"))
        for part in parts:
            written += file.write(part)
            file.flush()  # so that a player on the pipe does not wait for a full buffer
    print(f"{args.out}: {written} bytes of {form}", file=sys.stderr)


if __name__ == "__main__":
    main()
