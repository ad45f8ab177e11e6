"""Speak by the client of NVIDIA Riva: texts one by one, or all in one streaming call.

pip install nvidia-riva-client
python examples/api/riva_client.py "Good morning, how are you today?" --out morning.wav
python examples/api/riva_client.py --online "Good morning." "How are you today?" --rate 16000
"""

from __future__ import annotations

import argparse
import os
import time
import wave
from collections.abc import Sequence

import riva.client


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Speak by the client of NVIDIA Riva.")
    parser.add_argument("texts", nargs="*", default=["Good morning, how are you today?"])
    parser.add_argument("--url", default="127.0.0.1:50051", help="(default %(default)s)")
    parser.add_argument("--tls", metavar="FILE", help="certificate of a server with TLS, in PEM")
    parser.add_argument("--out", default="riva.wav", help="a .wav file")
    parser.add_argument(
        "--online", action="store_true", help="receive the sound while it is spoken"
    )
    parser.add_argument("--voice", help="a name that --voices shows")
    parser.add_argument("--voices", action="store_true", help="list the voices, and speak nothing")
    parser.add_argument("--rate", type=int, default=24_000, help="samples a second, 8000 to 48000")
    parser.add_argument("--seed", type=int, help="the same seed, the same sound")
    args = parser.parse_args(argv)

    key = os.environ.get("CHATTTS_API_KEY")
    auth = riva.client.Auth(
        uri=args.url,
        use_ssl=args.tls is not None,
        ssl_root_cert=args.tls,
        metadata_args=[["authorization", f"Bearer {key}"]] if key else [],
    )
    service = riva.client.SpeechSynthesisService(auth)
    if args.voices:
        request = riva.client.proto.riva_tts_pb2.RivaSynthesisConfigRequest()
        answer = service.stub.GetRivaSynthesisConfig(request, metadata=auth.get_auth_metadata())
        for model in answer.model_config:
            print(model.parameters["language_code"], model.parameters["subvoices"])
        return

    settings = {
        "voice_name": args.voice,
        "language_code": "",  # detected from the text
        "encoding": riva.client.AudioEncoding.LINEAR_PCM,
        "sample_rate_hz": args.rate,
        "custom_configuration": {} if args.seed is None else {"seed": str(args.seed)},
    }
    start = time.perf_counter()
    if args.online:
        answers = service.synthesize_online(args.texts, **settings)
    else:
        answers = (service.synthesize(text, **settings) for text in args.texts)
    with wave.open(args.out, "wb") as file:
        file.setparams((1, 2, args.rate, 0, "NONE", ""))
        for answer in answers:
            file.writeframes(answer.audio)
            after = time.perf_counter() - start
            print(f"after {after:5.2f} s: {file.getnframes() / args.rate:5.2f} s of speech")
    print(f"{args.out}: {file.getnframes() / args.rate:.2f} s")


if __name__ == "__main__":
    main()
