"""Measure word times on speech whose times are known: the teacher's.

python -m recipes.voice.evaluation.word_truth --count 200

The teacher tells when each character of a held-out sentence begins. Its speech is encoded, and the
codes are forced through the voice, whose attention gives the times of the words.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ChatTTS.core import Chat
from ChatTTS.model.tokenizer import Prompt, code_prompt, spoken_part
from ChatTTS.pipeline.alignment.word_aligner import WordAligner
from ChatTTS.text.alignment import text_columns
from ChatTTS.text.spoken_words import CallerWord, spoken_spans
from ChatTTS.utils.progress import progress

from ..corpus import DEFAULT_SPEED
from ..styles import CAST
from ..units import FRAME_SAMPLES, SAMPLE_RATE
from . import heldout
from .subject import Subject
from .taught import FOLDER, Taught, character_seconds

FRAME_MS = 1000 * FRAME_SAMPLES / SAMPLE_RATE


@dataclass(frozen=True)
class Placed:
    """A word's start by the attention, and where the teacher began it.

    Attributes:
        index: its place among the words of the line.
        found, truth: its start in milliseconds; what is found begins with a frame.
        heard: whether a frame speaks it by the attention.
    """

    word: str
    line: str
    index: int
    found: float
    truth: float
    heard: bool

    @property
    def error(self) -> float:
        """The delay at which the word was found, in milliseconds."""
        return self.found - self.truth


def forced_attention(chat: Chat, prompt: Prompt, codes: Tensor) -> NDArray[np.float32]:
    """Return the attention by which the model would have drawn given frames.

    Args:
        chat: on the standard engine.
        codes: int64 [frames, num_codebooks].

    Returns:
        float32 [frames, alignment heads, text ids].
    """
    model: Any = chat.gpt.engine
    embed, llama = model.embed, model.model
    rows = embed.embed_text(torch.from_numpy(prompt.text))
    if prompt.speaker is not None:
        rows[torch.from_numpy(prompt.speaker_slots)] = torch.from_numpy(prompt.speaker)
    rows = torch.cat([rows, embed.embed_codes(codes[:-1])])  # the last frame draws nothing
    llama.set_attn_implementation("eager")
    out = llama(inputs_embeds=rows[None], output_attentions=True, use_cache=False)
    first, count = len(prompt.text) - 1, len(prompt.text)
    heads = chat.config.defaults.alignment_heads
    found = torch.stack([out.attentions[i][0, k, first:, :count] for i, k in heads], dim=1)
    attention: NDArray[np.float32] = found.float().numpy()
    return attention


@torch.inference_mode()
def place(
    chat: Chat, teacher: Taught, line: str, voice: str, speed: int = DEFAULT_SPEED
) -> list[Placed]:
    """Return the words of a line that the teacher speaks.

    Args:
        chat: on the standard engine.
        teacher: who speaks.
        line: normalised.
        voice: one of ``CAST``.
        speed: n of ``[speed_n]``.
    """
    loaded, said = chat._loaded, teacher.speak(line, voice, speed)
    seconds = character_seconds(line, said)
    codes = loaded.dvae.encode(torch.from_numpy(said.samples)[None])[0].T.long()
    vector = loaded.speaker.vector(chat.config.defaults.speakers[voice])
    prompt = loaded.tokenizer.prompt(
        code_prompt(line, f"[speed_{speed}]", speaker=True), speaker=vector
    )
    words = tuple(CallerWord(line[start:end], start, end) for start, end in spoken_spans(line))
    spoken = spoken_part(line)
    aligner = WordAligner(text_columns(spoken, loaded.tokenizer.offsets(spoken), words, str))
    found = [*aligner.push(forced_attention(chat, prompt, codes)), *aligner.flush()]
    return [
        Placed(
            words[each.word].text,
            line,
            each.word,
            each.start * FRAME_MS,
            float(seconds[words[each.word].start]) * 1000,
            each.end > each.start,
        )
        for each in found
    ]


def table(rows: Sequence[tuple[str, Sequence[Placed]]]) -> list[str]:
    """Return lines with the figures of all rows, each a name and its words."""
    lines = [f"{'':14}{'words':>6}{'median':>9}{'95 %':>9}{'bias':>9}   (milliseconds)"]
    for name, words in rows:
        errors = np.array([word.error for word in words])
        middle, most = np.percentile(np.abs(errors), (50, 95))
        lines.append(f"{name:14}{len(words):6}{middle:9.1f}{most:9.1f}{errors.mean():9.1f}")
    return lines


def measure(
    chat: Chat, teacher: Taught, lines: Iterable[str], count: int, speeds: Sequence[int]
) -> None:
    """Print the figures of each voice and speed, and the words that are farthest off."""
    chosen = list(islice(lines, count))
    rows: list[tuple[str, list[Placed]]] = []
    with progress("placing words", "sentence", total=len(CAST) * len(speeds) * count) as bar:
        for speed in speeds:
            for voice in CAST:
                words: list[Placed] = []
                for line in chosen:
                    words += place(chat, teacher, line, voice, speed)
                    bar.update()
                rows.append((f"{voice} {speed}", words))
    every = [word for _, words in rows for word in words]
    firsts = [word for word in every if word.index == 0]
    later = [word for word in every if word.index > 0]
    rows += [("all", every), ("first words", firsts), ("later words", later)]
    print("\n".join(table(rows)))
    print(f"{sum(not word.heard for word in every)} words have no frame")
    print("farthest off:")
    for word in sorted(every, key=lambda word: -abs(word.error))[:10]:
        print(f"  {word.error:7.0f} ms  {word.word!r} of {word.line!r}")


def _command() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.voice.evaluation.word_truth",
        description=(__doc__ or "").split("\n")[0],
    )
    parser.add_argument("--checkpoint", type=Path, help="folder that holds asset/")
    parser.add_argument("--count", type=int, default=200, help="sentences (default %(default)s)")
    parser.add_argument(
        "--teacher", type=Path, default=FOLDER, help="folder that holds teacher/ (%(default)s)"
    )
    parser.add_argument("--speeds", type=int, nargs="+", default=[DEFAULT_SPEED])
    given = parser.parse_args()
    chat = Subject(given.checkpoint).load(use_vllm=False)
    measure(chat, Taught(given.teacher), heldout.everyday(), given.count, given.speeds)


if __name__ == "__main__":
    _command()
