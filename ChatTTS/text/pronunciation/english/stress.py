"""Stress marks of phonemes, and what follows from them."""

from __future__ import annotations

import re

VOWELS = frozenset("AIOWYiuæɑɔəɛɜɪʊʌᵻ")
SOUNDS = VOWELS | frozenset("bdfhjklmnpstvwzðŋɡɹʃʒʤʧθ")
_FULL_VOWEL = re.compile("[AIOWYiuæɑɔəɛɜɪʊʌᵻ]")
# After these a t before a vowel without stress is a flap, as in "water" and "party".
_BEFORE_FLAP = frozenset("AIOWYiuæɑəɛɪɹʊʌɔɜ")
_DIPHTHONGS = frozenset("AIOWYʤʧ")


def weakened(phonemes: str) -> str:
    """Return ``phonemes`` without secondary stress, and with secondary for primary stress."""
    return phonemes.replace("ˌ", "").replace("ˈ", "ˌ")


def unstressed(phonemes: str) -> str:
    """Return ``phonemes`` without stress."""
    return phonemes.replace("ˌ", "").replace("ˈ", "")


def lightly_stressed(phonemes: str) -> str:
    """Return ``phonemes`` with secondary stress on the first vowel, if they have no stress."""
    return phonemes if "ˈ" in phonemes or "ˌ" in phonemes else _on_first_vowel(phonemes, "ˌ")


def stressed(phonemes: str) -> str:
    """Return ``phonemes`` with a primary stress: the secondary ones, or the first vowel."""
    if "ˈ" in phonemes:
        return phonemes
    return phonemes.replace("ˌ", "ˈ") if "ˌ" in phonemes else _on_first_vowel(phonemes, "ˈ")


def weight(phonemes: str) -> int:
    """Return how long ``phonemes`` are; diphthongs count twice."""
    return len(phonemes) + sum(phoneme in _DIPHTHONGS for phoneme in phonemes)


def with_ending(stem: str, ending: str) -> str:
    """Join ``stem`` and an unstressed ``ending``; a t between vowels becomes a flap."""
    if stem.endswith("t") and ending[:1] in VOWELS and stem[-2:-1] in _BEFORE_FLAP:
        stem = stem[:-1] + "T"
    return stem + ending


def compounded(parts: list[str]) -> str:
    """Join the words of a hyphenated word; the lighter half of them loses its primary stress."""
    if sum("ˈ" in part for part in parts) > (len(parts) + 1) // 2:
        order = sorted(range(len(parts)), key=lambda i: ("ˈ" in parts[i], weight(parts[i]), i))
        light = set(order[: len(parts) // 2])
        parts = [weakened(part) if i in light else part for i, part in enumerate(parts)]
    return "".join(parts)


def _on_first_vowel(phonemes: str, mark: str) -> str:
    found = _FULL_VOWEL.search(phonemes)
    return phonemes[: found.start()] + mark + phonemes[found.start() :] if found else phonemes
