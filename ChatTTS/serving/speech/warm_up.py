"""Speech and a recording for a server to try before its first client comes."""

from __future__ import annotations

import numpy as np

from ...audio.samples import SAMPLE_RATE, Samples
from ..requests.request import SpeechRequest

REQUEST = SpeechRequest("Hello there.", seed=0)


def sound() -> Samples:
    """Return a recording of a second that every codec takes, float32 (n,) at ``SAMPLE_RATE``."""
    tone = 0.1 * np.sin(2 * np.pi * 220 / SAMPLE_RATE * np.arange(SAMPLE_RATE))
    samples: Samples = tone.astype(np.float32)
    return samples
