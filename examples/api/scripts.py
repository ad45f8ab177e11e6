"""Have a server speak a book, a dialogue or subtitles as one work; show how far it is.

python examples/api/scripts.py book.epub --out book.m4b
python examples/api/scripts.py play.txt --voice Anna=alloy --voice Bob=echo --out play.mp3

The server goes on with the script if this program is stopped, or the server itself.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

PLAY = """Anna: Did you lock the door?
Bob: I was sure that you had done it. [pause:600ms] So we have to go back.
"""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Speak a script on a server.")
    parser.add_argument("file", nargs="?", type=Path, help="a script; a short play by default")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="(default %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("script.mp3"), help=".mp3, .m4b, .opus, .flac or .wav"
    )
    parser.add_argument(
        "--voice",
        action="append",
        default=[],
        metavar="NAME=VOICE",
        help="the voice of a name in the script; may be repeated",
    )
    args = parser.parse_args(argv)

    data = PLAY.encode() if args.file is None else args.file.read_bytes()
    voices = dict(pair.split("=", 1) for pair in args.voice)
    if args.file is None and not voices:
        voices = {"Anna": "alloy", "Bob": "echo"}
    fields = {"voices": json.dumps(voices), "response_format": args.out.suffix[1:]}
    name = "play.txt" if args.file is None else args.file.name
    scripts = f"{args.url}/v1/audio/scripts"
    try:
        script = posted(scripts, name, data, fields)
        address = f"{scripts}/{script['id']}"
        while script["state"] not in ("done", "failed"):
            time.sleep(0.5)
            script = json.load(urllib.request.urlopen(request(address)))
            progress = script["progress"]
            print(f"{script['state']}: {progress['lines']} of {progress['lines_total']} lines")
        for warning in script["warnings"]:
            print(f"warning: {warning}")
        if script["state"] == "failed":
            raise SystemExit(script["error"]["message"])
        with urllib.request.urlopen(request(f"{address}/audio")) as answer:
            args.out.write_bytes(answer.read())
        urllib.request.urlopen(request(address, method="DELETE")).close()
    except urllib.error.HTTPError as error:
        raise SystemExit(json.load(error)["error"]["message"]) from error
    print(f"{args.out}: {script['result']['seconds']:.1f} s")


def posted(address: str, name: str, data: bytes, fields: dict[str, str]) -> Any:
    """Send a form with a file; return the answer."""
    border = uuid4().hex
    parts = [
        f'--{border}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode()
        for field, value in fields.items()
    ]
    head = f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = b"".join([*parts, head.encode(), data, f"\r\n--{border}--\r\n".encode()])
    kind = f"multipart/form-data; boundary={border}"
    return json.load(urllib.request.urlopen(request(address, body, kind)))


def request(
    address: str, body: bytes | None = None, kind: str | None = None, method: str | None = None
) -> urllib.request.Request:
    """Return a request with the key of the environment, if there is one."""
    made = urllib.request.Request(address, body, method=method)
    if kind is not None:
        made.add_header("Content-Type", kind)
    if key := os.environ.get("CHATTTS_API_KEY"):
        made.add_header("Authorization", f"Bearer {key}")
    return made


if __name__ == "__main__":
    main()
