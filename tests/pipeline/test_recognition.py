"""A recogniser that never met this project understands what the command line speaks."""

from pathlib import Path

import numpy as np
import pytest

import ChatTTS
from ChatTTS.cli import main

# Text as a user types it, and the words that should be heard.
SENTENCES = (
    ("good morning, how are you today?", "good morning how are you today"),
    ("the children are playing in the garden.", "the children are playing in the garden"),
    ("Can you help me find my keys?", "can you help me find my keys"),
    ("I would like a cup of coffee with milk.", "i would like a cup of coffee with milk"),
    ("The train leaves at 9 in the morning.", "the train leaves at nine in the morning"),
    ("we went to the market to buy some bread.", "we went to the market to buy some bread"),
    ("My brother works in a big city.", "my brother works in a big city"),
    ("it was very cold last night.", "it was very cold last night"),
    ("She wants to read the new book.", "she wants to read the new book"),
    ("please close the door and open the window.", "please close the door and open the window"),
)


def heard(path: Path) -> list[str]:
    """The words that pocketsphinx's own English model hears in a file."""
    from pocketsphinx import Decoder

    samples, _ = ChatTTS.read(path, sample_rate=16_000)
    decoder = Decoder(samprate=16_000, loglevel="FATAL")
    decoder.start_utt()
    decoder.process_raw((samples * 32767).astype(np.int16).tobytes(), full_utt=True)
    decoder.end_utt()
    hypothesis = decoder.hyp()
    return hypothesis.hypstr.split() if hypothesis else []


def errors(expected: list[str], found: list[str]) -> int:
    """The number of word errors: the edit distance."""
    row = list(range(len(found) + 1))
    for i, word in enumerate(expected, 1):
        row, above = [i], row
        for j, other in enumerate(found, 1):
            row.append(min(above[j - 1] + (word != other), above[j] + 1, row[-1] + 1))
    return row[-1]


@pytest.mark.slow
def test_a_recogniser_hears_four_words_of_five(tmp_path: Path) -> None:
    wrong, total, lines = 0, 0, []
    for number, (text, words) in enumerate(SENTENCES):
        path = tmp_path / f"{number}.wav"
        # float32, since what bfloat16 rounds differs from one processor to the next
        assert main(["say", text, "-o", str(path), "--seed", "1", "--dtype", "float32"]) == 0
        expected, found = words.split(), heard(path)
        wrong += errors(expected, found)
        total += len(expected)
        lines.append(f"{' '.join(expected)} | {' '.join(found)}")
    assert wrong <= 0.2 * total, f"{wrong} of {total} words\n" + "\n".join(lines)
