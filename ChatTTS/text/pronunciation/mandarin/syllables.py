"""Syllables of pinyin, and their phonemes in the alphabet of the voices.

The alphabet is the one in which Kokoro's Mandarin voices were trained: the sounds of the
International Phonetic Alphabet, and an arrow for the tone behind the main vowel.
"""

from __future__ import annotations

from functools import lru_cache

NEUTRAL = 5
TONES = {1: "→", 2: "↗", 3: "↓", 4: "↘", NEUTRAL: ""}

_INITIALS = {
    "b": "p", "p": "pʰ", "m": "m", "f": "f", "d": "t", "t": "tʰ", "n": "n", "l": "l",
    "g": "k", "k": "kʰ", "h": "x", "j": "ʨ", "q": "ʨʰ", "x": "ɕ", "zh": "ꭧ", "ch": "ꭧʰ",
    "sh": "ʂ", "r": "ɻ", "z": "ʦ", "c": "ʦʰ", "s": "s", "": "",
}  # fmt: skip

# The tone stands where the digit is. "ü" is written "v", and "i" behind sibilants "-i".
_FINALS = {
    "a": "a0", "ai": "ai0", "an": "a0n", "ang": "a0ŋ", "ao": "au0", "e": "ɤ0", "ei": "ei0",
    "en": "ə0n", "eng": "ə0ŋ", "er": "ɚ0", "o": "wo0", "ong": "ʊ0ŋ", "ou": "ou0",
    "i": "i0", "-i": "ɨ0", "ia": "ja0", "ian": "jɛ0n", "iang": "ja0ŋ", "iao": "jau0",
    "iai": "jai0", "ie": "je0", "in": "i0n", "ing": "i0ŋ", "io": "jɔ0", "iong": "jʊ0ŋ",
    "iou": "jou0", "u": "u0", "ua": "wa0", "uai": "wai0", "uan": "wa0n", "uang": "wa0ŋ",
    "uei": "wei0", "uen": "wə0n", "ueng": "wə0ŋ", "uo": "wo0", "v": "y0", "van": "ɥɛ0n",
    "ve": "ɥe0", "vn": "y0n",
    # Interjections.
    "ê": "ɛ0", "o!": "ɔ0", "m": "m0", "n": "n0", "ng": "ŋ0",
}  # fmt: skip

# What a final becomes before the sound of 儿 that it merges with.
_BEFORE_ER = {
    "ai": "a0", "an": "a0", "ei": "ə0", "en": "ə0", "ian": "ja0", "in": "i0", "uai": "wa0",
    "uan": "wa0", "uei": "wə0", "uen": "wə0", "van": "ɥa0", "vn": "y0", "-i": "ə0",
}  # fmt: skip
ER = "ɚ"

# The finals that each initial has, as pinyin spells them.
_SPELLED = {
    "b": "a ai an ang ao ei en eng i ian iang iao ie in ing o u",
    "p": "a ai an ang ao ei en eng i ia ian iao ie in ing o ou u",
    "m": "a ai an ang ao e ei en eng i ian iao ie in ing iu o ou u",
    "f": "a an ang ei en eng iao o ou u",
    "d": "a ai an ang ao e ei en eng i ia ian iang iao ie in ing iu ong ou u uan ui un uo",
    "t": "a ai an ang ao e ei en eng i ian iao ie ing ong ou u uan ui un uo",
    "n": "a ai an ang ao e ei en eng i ia ian iang iao ie in ing iu ong ou u uan un uo v ve ue",
    "l": "a ai an ang ao e ei en eng i ia ian iang iao ie in ing iu o ong ou u uan un uo v ve ue "
    "van vn",
    "g": "a ai an ang ao e ei en eng ong ou u ua uai uan uang ui un uo",
    "k": "a ai an ang ao e ei en eng ong ou u ua uai uan uang ui un uo",
    "h": "a ai an ang ao e ei en eng ong ou u ua uai uan uang ui un uo",
    "j": "i ia ian iang iao ie in ing iong iu u uan ue un v van ve vn",
    "q": "i ia ian iang iao ie in ing iong iu u uan ue un v van ve vn",
    "x": "i ia ian iang iao ie in ing iong iu u uan ue un v van ve vn",
    "zh": "a ai an ang ao e ei en eng i ong ou u ua uai uan uang ui un uo",
    "ch": "a ai an ang ao e en eng i ong ou u ua uai uan uang ui un uo",
    "sh": "a ai an ang ao e ei en eng i ou u ua uai uan uang ui un uo",
    "r": "an ang ao e en eng i ong ou u ua uan ui un uo",
    "z": "a ai an ang ao e ei en eng i ong ou u uan ui un uo",
    "c": "a ai an ang ao e ei en eng i ong ou u uan ui un uo",
    "s": "a ai an ang ao e ei en eng i ong ou u uan ui un uo",
}
_WITHOUT_INITIAL = {
    "a": "a", "ai": "ai", "an": "an", "ang": "ang", "ao": "ao", "e": "e", "ei": "ei", "en": "en",
    "eng": "eng", "er": "er", "o": "o!", "ou": "ou", "yi": "i", "ya": "ia", "yai": "iai",
    "yan": "ian", "yang": "iang", "yao": "iao", "ye": "ie", "yin": "in", "ying": "ing",
    "yo": "io", "yong": "iong", "you": "iou", "yu": "v", "yuan": "van", "yue": "ve", "yun": "vn",
    "wu": "u", "wa": "ua", "wai": "uai", "wan": "uan", "wang": "uang", "wei": "uei", "wen": "uen",
    "weng": "ueng", "wo": "uo", "wong": "ong", "ê": "ê", "eh": "ê", "m": "m", "n": "n", "ng": "ng",
}  # fmt: skip
_FULL = {"iu": "iou", "ui": "uei", "un": "uen", "ue": "ve"}


def _parts() -> dict[str, tuple[str, str]]:
    """Return the initial and the final of each syllable of pinyin without its tone."""
    parts = {spelled: ("", final) for spelled, final in _WITHOUT_INITIAL.items()}
    for initial, finals in _SPELLED.items():
        for spelled in finals.split():
            final = _FULL.get(spelled, spelled)
            if initial in ("j", "q", "x") and spelled.startswith("u"):
                final = "v" + spelled[1:]
            elif spelled == "i" and initial in ("zh", "ch", "sh", "r", "z", "c", "s"):
                final = "-i"
            parts[initial + spelled] = (initial, final)
    return parts | {"hm": ("h", "m"), "hng": ("h", "ng")}


_PARTS = _parts()


def is_syllable(pinyin: str) -> bool:
    """Return whether ``pinyin``, without a tone and with "v" for "ü", is a syllable."""
    return pinyin in _PARTS


@lru_cache(maxsize=8192)
def syllable_phonemes(pinyin: str, tone: int, before_er: bool = False) -> str:
    """Return the phonemes of a syllable.

    Args:
        pinyin: the syllable without its tone, with "v" for "ü", such as "zhong" or "lv".
        tone: 1 to 4, or ``NEUTRAL``.
        before_er: whether it merges with the sound of 儿 behind it: "huar1" for 花儿.

    Raises:
        KeyError: it is no syllable of Mandarin.
    """
    initial, final = _PARTS[pinyin]
    sound = _BEFORE_ER.get(final, _FINALS[final]) if before_er else _FINALS[final]
    return _INITIALS[initial] + sound.replace("0", TONES[tone])
