"""Keep a random voice and use it again; take a voice from a recording.

python examples/cmd/voices.py --out voices
python examples/cmd/voices.py --recording me.wav --transcript "Exactly what I say in it."
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

import ChatTTS

TEXT = "We went to the market to buy some bread."


def random_voice(chat: ChatTTS.Chat, file: Path, seed: int) -> str:
    """Return the speaker string in ``file``; draw one and write it if there is no file."""
    if not file.exists():
        torch.manual_seed(seed)  # the same seed gives the same voice
        file.write_text(chat.sample_random_speaker(), encoding="utf-8")
    return file.read_text(encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Keep voices and use them again.")
    parser.add_argument("--out", type=Path, default=Path("voices"), help="a folder")
    parser.add_argument("--speaker-seed", type=int, default=42)
    parser.add_argument("--recording", type=Path, help="1 to 30 s of one person, clearly spoken")
    parser.add_argument("--transcript", help="exactly what is said in the recording")
    parser.add_argument("--source", default="bundled", help="bundled, local or huggingface")
    args = parser.parse_args(argv)
    if (args.recording is None) != (args.transcript is None):
        parser.error("--recording and --transcript go together")
    args.out.mkdir(parents=True, exist_ok=True)

    chat = ChatTTS.Chat()
    chat.load_or_raise(args.source)

    def speak(name: str, **params: object) -> Path:
        waveforms = chat.infer(
            TEXT, skip_refine_text=True, params_infer_code={"manual_seed": 1, **params}
        )
        path = ChatTTS.save(args.out / f"{name}.wav", waveforms[0])
        print(path)
        return path

    speaker = random_voice(chat, args.out / "speaker.txt", args.speaker_seed)
    recording, transcript = speak("random", spk_emb=speaker), TEXT
    speak("random-again", spk_emb=speaker)  # the same voice, text and seed: the same samples

    if args.recording is not None:  # otherwise the sound spoken above serves as the recording
        recording, transcript = args.recording, args.transcript
    sample = chat.sample_audio_speaker(recording)
    (args.out / "sample.txt").write_text(sample, encoding="utf-8")
    speak("like-recording", spk_smp=sample, txt_smp=transcript)


if __name__ == "__main__":
    main()
