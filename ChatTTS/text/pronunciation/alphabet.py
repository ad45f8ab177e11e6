"""The symbols that phonemes are written with, and their form in a prompt.

The alphabet is that of Kokoro-82M, the teacher of the voices.
"""

from __future__ import annotations

_MARKS = ';:,.!?—…"()“”'
_COMBINING_TILDE = "\u0303"
_SOUNDS = (
    f"{_COMBINING_TILDE}ʣʥʦʨᵝꭧAIOQSTWYᵊabcdefhijklmnopqrstuvwxyzɑɐɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœ"
    "ɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔ"
)
_STRESS_LENGTH_TONES = "ˈˌːʰʲ↓→↗↘ᵻ"

# Marks, the space between words, and sounds with what is written beside them.
ALPHABET = f"{_MARKS} {_SOUNDS}{_STRESS_LENGTH_TONES}"


def as_tokens(phonemes: str) -> str:
    """Return a line of phonemes as a prompt has it, each symbol as one token: ``<h><ə>< >``."""
    return "".join(f"<{symbol}>" for symbol in phonemes)
