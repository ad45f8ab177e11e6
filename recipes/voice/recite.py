"""The stage ``recite``: held-out sentences in the voice, as files that judges read.

    python -m recipes.voice.recite --checkpoint build/voice --out build/voice/said/everyday
    python -m recipes.voice.recite --set mandarin --speaker lan --checkpoint ... --out ...
    python -m recipes.voice.recite --file sentences.txt --random 50 --checkpoint ... --out ...

Each sentence becomes NAME.wav and NAME.txt in the folder.
"""

from __future__ import annotations

import argparse
import logging
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ChatTTS.core import Chat

from .run import Run
from .texts import HELD_OUT, held_out
from .units import SAMPLE_RATE

logger = logging.getLogger(__name__)

_TOGETHER = 16  # sentences of a call
_COUNT = 20  # sentences of each set in the stage
_SPEAKERS = {"en": None, "zh": "lan"}


@dataclass(frozen=True)
class Reciting:
    """The settings with which sentences are spoken.

    Attributes:
        speaker: name of a voice of the checkpoint; None for its default.
        randoms: so many random speakers take turns instead.
        use_decoder: speak from hidden states, not from codes.
        code: further settings of ``InferCodeParams``.
    """

    speaker: str | None = None
    randoms: int = 0
    use_decoder: bool = True
    code: tuple[tuple[str, Any], ...] = ()


def recite(chat: Chat, lines: Sequence[str], folder: Path, how: Reciting = Reciting()) -> float:
    """Speak sentences into ``folder``.

    Args:
        chat: a loaded voice.
        lines: as people write them.
        folder: gets ``000.wav`` and ``000.txt``, and so on; earlier files of these names are lost.
        how: in which voice.

    Returns:
        The seconds of speech.
    """
    folder.mkdir(parents=True, exist_ok=True)
    speakers = _speakers(chat, how)
    seconds = 0.0
    for place, speaker in enumerate(speakers):
        own = [(number, line) for number, line in enumerate(lines)][place :: len(speakers)]
        for begin in range(0, len(own), _TOGETHER):
            part = own[begin : begin + _TOGETHER]
            settings = {"manual_seed": 1, "show_tqdm": False, "ensure_non_empty": False}
            waves = chat.infer(
                [line for _, line in part],
                skip_refine_text=True,
                use_decoder=how.use_decoder,
                params_infer_code={**settings, "spk_emb": speaker, **dict(how.code)},
            )
            for (number, line), samples in zip(part, waves, strict=True):
                _write(folder / f"{number:03d}.wav", samples)
                (folder / f"{number:03d}.txt").write_text(line, encoding="utf-8")
                seconds += samples.size / SAMPLE_RATE
    return seconds


def _speakers(chat: Chat, how: Reciting) -> list[str | None]:
    if how.randoms:
        return [chat.sample_random_speaker() for _ in range(how.randoms)]
    return [how.speaker]


def _write(path: Path, samples: NDArray[np.float32]) -> None:
    scaled = np.rint(samples.ravel().clip(-1, 1) * 32767).astype(np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(scaled.tobytes())


def main(run: Run) -> None:
    """Speak the first sentences of each held-out set with the checkpoint of a run."""
    chat = Chat()
    chat.load_or_raise("custom", custom_path=run.out, device="cpu", use_vllm=True)
    for name, language in HELD_OUT.items():
        how = Reciting(_SPEAKERS[language])
        folder = run.out / "said" / name
        seconds = recite(chat, held_out(name)[:_COUNT], folder, how)
        logger.info("%s: %.0f s of speech in %s", name, seconds, folder)


def _command() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.voice.recite", description="Speak held-out sentences into files."
    )
    parser.add_argument("--checkpoint", type=Path, help="folder with asset/; the bundled voice")
    parser.add_argument("--out", type=Path, required=True, help="folder of the files")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--set", choices=HELD_OUT, default="english_everyday", help="of sentences")
    what.add_argument("--file", type=Path, help="with a sentence in each line")
    parser.add_argument("--count", type=int, help="only the first so many sentences")
    parser.add_argument("--speaker", help="name of a voice of the checkpoint")
    parser.add_argument("--random", type=int, default=0, help="so many random speakers instead")
    parser.add_argument("--codes", action="store_true", help="speak from codes")
    parser.add_argument("--temperature", type=float, help="of the draws of codes")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    import torch

    torch.set_num_threads(given.threads)
    lines: Sequence[str] = held_out(given.set)
    if given.file is not None:
        lines = given.file.read_text(encoding="utf-8").splitlines()
    chat = Chat()
    source = "bundled" if given.checkpoint is None else "custom"
    chat.load_or_raise(source, custom_path=given.checkpoint, device="cpu", use_vllm=True)
    code = () if given.temperature is None else (("temperature", given.temperature),)
    how = Reciting(given.speaker, given.random, not given.codes, code)
    print(f"{recite(chat, lines[: given.count], given.out, how):.1f} s of speech")


if __name__ == "__main__":
    _command()
