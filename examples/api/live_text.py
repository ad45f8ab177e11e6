"""Speak text while it comes: what you type, or what another program writes, word by word.

pip install websockets
python examples/api/live_text.py --out live.wav
my-language-model | python examples/api/live_text.py --play

Ctrl-C is barge-in: it stops the voice, and the server reports the text and the last word that were
played. While the voice is silent, Ctrl-C ends the program; so does the end of the text (Ctrl-D).
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import json
import os
import signal
import sys
import threading
import wave
from typing import Any

from websockets.sync.client import ClientConnection, connect

URL = "ws://127.0.0.1:8000/v1/audio/speech/stream"
RATE = 24_000  # samples a second; 16 bits, mono


def say(socket: ClientConnection, kind: str, **fields: Any) -> None:
    socket.send(json.dumps({"type": kind, **fields}))


def read_text(socket: ClientConnection) -> None:
    """Send standard input as it comes, without waiting for whole lines."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while data := os.read(sys.stdin.fileno(), 4096):
        say(socket, "input.text", text=decoder.decode(data))
    say(socket, "session.close")  # the server still speaks all text that it has


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Speak standard input while it comes.")
    parser.add_argument("--url", default=URL, help="(default %(default)s)")
    parser.add_argument("--out", default="live.wav", help="a .wav file")
    parser.add_argument("--play", action="store_true", help="also play it (needs sounddevice)")
    parser.add_argument("--voice", help="a name of GET /v1/audio/voices")
    args = parser.parse_args(argv)
    player: Any = None
    if args.play:
        import sounddevice

        player = sounddevice.RawOutputStream(RATE, channels=1, dtype="int16")
        player.start()
    played, is_speaking = 0, False

    def interrupt(*_: object) -> None:
        nonlocal is_speaking
        if not is_speaking:
            raise KeyboardInterrupt
        is_speaking, heard = False, {}
        if player is not None:
            player.abort()  # silent at once
            player.start()
            heard = {"played_samples": max(0, played - int(player.latency * RATE))}
        # A signal handler must not use the socket: this thread may be using it right now.
        threading.Thread(target=say, args=(socket, "input.cancel"), kwargs=heard).start()

    key = os.environ.get("CHATTTS_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else None
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        socket: Any = stack.enter_context(connect(args.url, additional_headers=headers))
        file = stack.enter_context(wave.open(args.out, "wb"))
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        for settings in {"flush_after": 500, "voice": args.voice}, {"word_times": True}:
            say(socket, "session.config", **settings)  # some servers know no times of words
        threading.Thread(target=read_text, args=(socket,), daemon=True).start()
        signal.signal(signal.SIGINT, interrupt)
        for frame in socket:
            if isinstance(frame, bytes):
                file.writeframesraw(frame)
                if player is not None and is_speaking:
                    player.write(frame)
                    played += len(frame) // 2
            elif (message := json.loads(frame))["type"] == "audio.start":
                played, is_speaking = 0, True
            elif message["type"] == "text.spoken":
                print(message["text"].strip(), flush=True)
            elif message["type"] == "audio.done":
                is_speaking = False
            elif message["type"] == "audio.cancelled":
                last = (message.get("last_word") or {}).get("word", "unknown")
                print(f"[heard: {message['spoken_text'].strip()}; last: {last}]", flush=True)
            elif message["type"] == "error" and message["error"]["param"] != "word_times":
                print(f"[{message['error']['message']}]", file=sys.stderr)


if __name__ == "__main__":
    main()
