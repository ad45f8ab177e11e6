"""An upper bound on the duration of a text, beyond which a generation has failed.

Models of this kind sometimes find no end and go on with noise. The bound is three times the
duration of a slow speaker, plus some seconds that very short texts need.
"""

from __future__ import annotations

import re

from .tags import LAUGH, TAG, without_tags

_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_DIGIT = re.compile(r"\d")
_SPEED = re.compile(r"\[speed_(\d)\]")

# Seconds of a slow speaker.
_PER_HAN, _PER_LETTER, _PER_DIGIT, _PER_LAUGH, _PER_TAG = 0.3, 0.08, 0.5, 1.0, 0.6
_PATIENCE = 3.0
_AT_LEAST = 3.0
_USUAL_SPEED = 5
_SLOWER = 1.25  # for each step of [speed_n] below the usual one


def longest_seconds(text: str, settings: str = "") -> float:
    """Return an upper bound on the seconds of speech of ``text``.

    Args:
        text: the spoken text with its control tags.
        settings: tags before the text; ``[speed_0]`` to ``[speed_4]`` give more time.
    """
    plain = without_tags(text)
    han = len(_HAN.findall(plain))
    tags = TAG.findall(text)
    laughs = tags.count(LAUGH)
    unhurried = (
        han * _PER_HAN
        + (len(_LETTER.findall(plain)) - han) * _PER_LETTER
        + len(_DIGIT.findall(plain)) * _PER_DIGIT
        + laughs * _PER_LAUGH
        + (len(tags) - laughs) * _PER_TAG
    )
    speeds = [int(speed) for speed in _SPEED.findall(settings + text)]
    steps = max((_USUAL_SPEED - speed for speed in speeds), default=0)
    return _AT_LEAST + _PATIENCE * unhurried * _SLOWER ** max(0, steps)
