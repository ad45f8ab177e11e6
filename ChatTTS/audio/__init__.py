"""Audio: files, reference audio, comparison, plots, trimming, streams and playback."""

from ..config.mark import Mark
from .compare import Comparison, compare
from .devices import SoundDevice, find_sound_device
from .files import FORMATS, encode, read, save
from .mark_detection import FoundMark, find_mark
from .pcm import to_int16
from .playback import Player
from .plot import plot_waveform
from .reference import reference_audio
from .samples import SAMPLE_RATE
from .subtitles import SUBTITLE_FORMATS, Cue, make_cues, save_subtitles
from .trim import trim_silence
from .wavstream import PCMWriter, WavWriter
from .word_check import CheckedWord, WordCheck, check_words

__all__ = [
    "FORMATS",
    "SAMPLE_RATE",
    "SUBTITLE_FORMATS",
    "CheckedWord",
    "Comparison",
    "Cue",
    "FoundMark",
    "Mark",
    "PCMWriter",
    "Player",
    "SoundDevice",
    "WavWriter",
    "WordCheck",
    "check_words",
    "compare",
    "encode",
    "find_mark",
    "find_sound_device",
    "make_cues",
    "plot_waveform",
    "read",
    "reference_audio",
    "save",
    "save_subtitles",
    "to_int16",
    "trim_silence",
]
