"""The data that the stages pass to each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 24_000
HOP = 256  # samples of a mel frame
FRAME_SAMPLES = 2 * HOP  # samples of a code frame
FRAMES_PER_SECOND = SAMPLE_RATE / FRAME_SAMPLES  # 46.875
VOICES = ("rms", "slt", "awb", "kal16")  # the first is the default voice
SPEEDS = 10  # [speed_0] to [speed_9]
DEFAULT_SPEED = 5
# The teacher's names of sounds; the first is silence.
SOUNDS = (
    "pau", "aa", "ae", "ah", "ao", "aw", "ax", "axr", "ay", "b", "ch", "d", "dh", "dx", "eh", "el",
    "em", "en", "er", "ey", "f", "g", "hh", "hv", "ih", "iy", "jh", "k", "l", "m", "n", "nx", "ng",
    "ow", "oy", "p", "r", "s", "sh", "t", "th", "uh", "uw", "v", "w", "y", "z", "zh",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Spoken:
    """One utterance of the teacher.

    Attributes:
        text: the text that the model reads: lower case, with control tags such as ``[uv_break]``,
            but without the speaker and the ``[speed_n]`` prompt.
        voice: one of ``VOICES``.
        speed: n of ``[speed_n]``, 0 (slow) to 9 (fast).
        samples: float32 [n], mono, 24 kHz, within -1 to 1.
        starts: int32 [len(text)], the code frame (46.875 a second) at which each character of
            ``text`` begins to be spoken. The frames never decrease, and lie within the speech. All
            characters of a control tag have the frame at which the tag's pause or laugh begins.
        sounds: int8 [frames], the index in ``SOUNDS`` of the sound in the middle of each frame.
    """

    text: str
    voice: str
    speed: int
    samples: NDArray[np.float32]
    starts: NDArray[np.int32]
    sounds: NDArray[np.int8]

    @property
    def seconds(self) -> float:
        """The length of the speech in seconds."""
        return len(self.samples) / SAMPLE_RATE

    @property
    def frames(self) -> int:
        """The number of whole code frames of the speech."""
        return len(self.samples) // FRAME_SAMPLES


@dataclass(frozen=True)
class Request:
    """The settings of an utterance of the corpus; equal requests give equal bytes."""

    text: str
    voice: str
    speed: int


@dataclass(frozen=True)
class RefinePair:
    """An example for the refine pass.

    Attributes:
        text: a plain sentence, without control tags.
        oral: n of ``[oral_n]``, 0 to 9: how many fillers.
        laugh: n of ``[laugh_n]``, 0 to 2: how much laughter.
        pause: n of ``[break_n]``, 0 to 7: how many ``[uv_break]``.
        refined: the text that the refine pass has to write.
    """

    text: str
    oral: int
    laugh: int
    pause: int
    refined: str

    @property
    def prompt(self) -> str:
        """The refine prompt for ``refined``."""
        return f"[oral_{self.oral}][laugh_{self.laugh}][break_{self.pause}]"
