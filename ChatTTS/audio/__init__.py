"""Sound in and out: files, reference audio, comparison, pictures, trimming, growing streams."""

from .compare import Comparison, compare
from .files import FORMATS, encode, read, save
from .pcm import to_int16
from .plot import plot_waveform
from .reference import reference_audio
from .samples import SAMPLE_RATE
from .trim import trim_silence
from .wavstream import PCMWriter, WavWriter

__all__ = [
    "FORMATS",
    "SAMPLE_RATE",
    "Comparison",
    "PCMWriter",
    "WavWriter",
    "compare",
    "encode",
    "plot_waveform",
    "read",
    "reference_audio",
    "save",
    "to_int16",
    "trim_silence",
]
