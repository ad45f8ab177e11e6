"""Named voices: the user's library, blends of its voices, and speakers learned from recordings."""

from .finding import FoundVoice, find_voice, is_speaker_string
from .learning import learn
from .library import SavedVoice, VoiceLibrary, read_voice, voices_folder
from .names import check_name, folded

__all__ = [
    "FoundVoice",
    "SavedVoice",
    "VoiceLibrary",
    "check_name",
    "find_voice",
    "folded",
    "is_speaker_string",
    "learn",
    "read_voice",
    "voices_folder",
]
