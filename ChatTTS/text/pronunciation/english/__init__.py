"""English words to phonemes: a dictionary, rules for derived words, and letters to sounds."""

from .sentence import pronounce_english

__all__ = ["pronounce_english"]
