"""Speak every line of a file into its own sound file, which is written as soon as it is done.

python examples/api/batch.py sentences.txt --out spoken
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

LINES = ("Good morning.", "How are you today?")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Speak every line of a file.")
    parser.add_argument("file", nargs="?", type=Path, help="UTF-8 text; two lines by default")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="(default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("batch"), help="a folder")
    parser.add_argument("--format", default="wav", help="wav, mp3, opus, aac, flac or pcm")
    parser.add_argument("--voice", help="a name of GET /v1/audio/voices")
    parser.add_argument("--seed", type=int, help="the same seed, the same sound")
    args = parser.parse_args(argv)

    lines = LINES if args.file is None else args.file.read_text(encoding="utf-8").splitlines()
    body = {
        "stream": True,  # a line of JSON for each item, as soon as it is done
        "response_format": args.format,
        "voice": args.voice,
        "seed": args.seed,
        "items": [
            {"custom_id": f"{number:04}", "input": line}
            for number, line in enumerate(lines, start=1)
            if line.strip()
        ],
    }
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("CHATTTS_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(
        f"{args.url}/v1/audio/speech/batch", json.dumps(body).encode(), headers
    )
    args.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    try:
        with urllib.request.urlopen(request) as answer:
            for line in answer:
                result = json.loads(line)
                name = f"{result['custom_id']}.{args.format}"
                if "error" in result:
                    failed += 1
                    print(f"{name}: {result['error']['message']}")
                    continue
                (args.out / name).write_bytes(base64.b64decode(result["audio"]))
                print(f"{args.out / name}: {result['seconds']:.2f} s ({result['finish_reason']})")
    except urllib.error.HTTPError as error:
        raise SystemExit(json.load(error)["error"]["message"]) from error
    if failed:
        raise SystemExit(f"{failed} of {len(body['items'])} were not spoken")


if __name__ == "__main__":
    main()
