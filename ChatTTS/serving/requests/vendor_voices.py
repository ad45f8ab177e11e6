"""The one table of other vendors' voices: names that programs send without being told of any.

Each is a further name of a speaker of the checkpoint: one of its language and sex where the
checkpoint has the bundled voice's speakers, otherwise any of them, in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...voices import folded

_WOMAN, _MAN = "woman", "man"


class _Row(NamedTuple):
    """Names of one vendor whose voices are alike.

    Attributes:
        vendor: its name.
        language: ``en`` or ``zh``.
        sex: of the voices; ``None`` where that is not known.
        names: with spaces between them.
    """

    vendor: str
    language: str
    sex: str | None
    names: str


# The speakers of the bundled voice, by language and sex.
_SPEAKERS = {
    ("en", _WOMAN): ("clara", "edith"),
    ("en", _MAN): ("miles", "hugh"),
    ("zh", _WOMAN): ("lan", "yue"),
    ("zh", _MAN): ("ming", "bo"),
}
_OPENAI = "OpenAI"
_TABLE = (
    _Row(_OPENAI, "en", _WOMAN, "alloy coral marin nova sage shimmer"),
    _Row(_OPENAI, "en", _MAN, "ash ballad cedar echo fable onyx verse"),
    _Row(
        "ElevenLabs",
        "en",
        _WOMAN,
        "21m00Tcm4TlvDq8ikWAM EXAVITQu4vr4xnSDxMaL AZnzlk1XvdvUeBnXmlld MF3mGyEYCl7XYWbV9V6O "
        "9BWtsMINqrJLrRacOk9x FGY2WhTYpPnrIDTdsKH5 XB0fDUnXU5powFXDhCwa Xb7hH8MSUJpSbSDYk0k2 "
        "XrExE9yKIg1WjnnlVkGX cgSgspJ2msm6clMCkdW9 pFZP5JQG7iQjIQuC4Bku hpp4J3VqNfWAUOO0d1Us "
        "LcfcDJNUP1GQjkzn1xUU ThT5KcBeYPX3keUQqHPh jBpfuIE2acCO8z3wKNLl jsCqWAovK2LkecY7zXl4 "
        "oWAxZDx7w5VEj9dCyTzz pMsXgVXv3BLzUgSXRplE piTKgcLEGmPE4e6mEKli z9fAnlkpzviPz146aGWa "
        "zrHiDhphv9ZnVXBqCLjz",
    ),
    _Row(
        "ElevenLabs",
        "en",
        _MAN,
        "JBFqnCBsd6RMkjVDRZzb pNInz6obpgDQGcFmaJgB ErXwobaYiN019PkySvjV TxGEqnHWrfWFTfGW9XjX "
        "VR6AewLTigWG4xSOukaG yoZ06aMxZJJ28mfd3POQ CwhRBWXzGAHq8TQ4Fs17 IKne3meq5aSn9XLyUdCD "
        "N2lVS1w4EtoT3dr4eOWO TX3LPaxmHKxFdv7VOQHJ bIHbv24MWmeRgasZH58o cjVigY5qzO86Huf0OWal "
        "iP95p4xoKVk53GoZ742B nPczCjzI2devNBz1zQrb onwK4e9ZLuTAKqWW03F9 pqHfZKP75CvOlQylNhV4 "
        "SOYHLrjzK2X1ezoPC6cr 29vD33N1CtxCmqQRPOHJ 2EiwWnXFnvU5JabPnv8n 5Q0t7uMcjvnagumLfvZi "
        "CYw3kZ02Hs0563khs1Fj D38z5RcWu1voky8WS1ja GBv7mTt0atIp3Br8iCZE ODq5zmih8GrVes37Dizd "
        "ZQe5CZNOzWyzPSCn5a3c Zlb1dXrM653N07WRdFW3 bVMeCyTHy58xNoL34h3p flq6f7yk4E4fJM5XTYuZ "
        "g5CIjZEefAph4nQFvHAz t0jbNlBVZ17f02VDIeMI zcAOhNBS3c14rBihAFp1",
    ),
    _Row("ElevenLabs", "en", None, "SAz9YHcvj6GT2YYXdXww"),
    _Row(
        "Deepgram",
        "en",
        _WOMAN,
        "aura-2-thalia-en aura-2-helena-en aura-2-andromeda-en aura-2-asteria-en "
        "aura-2-amalthea-en aura-2-athena-en aura-2-aurora-en aura-2-callista-en aura-2-cora-en "
        "aura-2-cordelia-en aura-2-delia-en aura-2-electra-en aura-2-harmonia-en aura-2-hera-en "
        "aura-2-iris-en aura-2-janus-en aura-2-juno-en aura-2-luna-en aura-2-minerva-en "
        "aura-2-ophelia-en aura-2-pandora-en aura-2-phoebe-en aura-2-selene-en aura-2-theia-en "
        "aura-2-vesta-en aura-asteria-en aura-luna-en aura-stella-en aura-athena-en aura-hera-en",
    ),
    _Row(
        "Deepgram",
        "en",
        _MAN,
        "aura-2-apollo-en aura-2-arcas-en aura-2-aries-en aura-2-atlas-en aura-2-draco-en "
        "aura-2-hermes-en aura-2-hyperion-en aura-2-jupiter-en aura-2-mars-en aura-2-neptune-en "
        "aura-2-odysseus-en aura-2-orion-en aura-2-orpheus-en aura-2-pluto-en aura-2-saturn-en "
        "aura-2-zeus-en aura-orion-en aura-arcas-en aura-perseus-en aura-angus-en aura-orpheus-en "
        "aura-helios-en aura-zeus-en",
    ),
    _Row(
        "Azure",
        "en",
        _WOMAN,
        "en-US-AvaNeural en-US-EmmaNeural en-US-JennyNeural en-US-AriaNeural en-US-AnaNeural "
        "en-US-MichelleNeural en-US-JaneNeural en-US-NancyNeural en-US-SaraNeural "
        "en-US-AvaMultilingualNeural en-US-EmmaMultilingualNeural en-US-JennyMultilingualNeural "
        "en-GB-SoniaNeural en-GB-LibbyNeural en-GB-MaisieNeural en-AU-NatashaNeural "
        "en-CA-ClaraNeural en-IE-EmilyNeural en-IN-NeerjaNeural",
    ),
    _Row(
        "Azure",
        "en",
        _MAN,
        "en-US-AndrewNeural en-US-BrianNeural en-US-GuyNeural en-US-ChristopherNeural "
        "en-US-EricNeural en-US-RogerNeural en-US-SteffanNeural en-US-DavisNeural "
        "en-US-JasonNeural en-US-TonyNeural en-US-AndrewMultilingualNeural "
        "en-US-BrianMultilingualNeural en-US-RyanMultilingualNeural en-GB-RyanNeural "
        "en-GB-ThomasNeural en-AU-WilliamNeural en-CA-LiamNeural en-IE-ConnorNeural "
        "en-IN-PrabhatNeural",
    ),
    _Row(
        "Azure",
        "zh",
        _WOMAN,
        "zh-CN-XiaoxiaoNeural zh-CN-XiaoyiNeural zh-CN-XiaochenNeural zh-CN-XiaohanNeural "
        "zh-CN-XiaomoNeural zh-CN-XiaoruiNeural zh-CN-XiaoxuanNeural "
        "zh-CN-XiaoxiaoMultilingualNeural zh-CN-liaoning-XiaobeiNeural "
        "zh-CN-shaanxi-XiaoniNeural zh-TW-HsiaoChenNeural zh-TW-HsiaoYuNeural",
    ),
    _Row(
        "Azure",
        "zh",
        _MAN,
        "zh-CN-YunxiNeural zh-CN-YunjianNeural zh-CN-YunyangNeural zh-CN-YunxiaNeural "
        "zh-CN-YunyeNeural zh-CN-YunzeNeural zh-TW-YunJheNeural",
    ),
    _Row(
        "Kokoro",
        "en",
        _WOMAN,
        "af_heart af_bella af af_alloy af_aoede af_jessica af_kore af_nicole af_nova af_river "
        "af_sarah af_sky bf_emma bf_isabella bf_alice bf_lily",
    ),
    _Row(
        "Kokoro",
        "en",
        _MAN,
        "am_michael am_adam am_echo am_eric am_fenrir am_liam am_onyx am_puck am_santa bm_george "
        "bm_fable bm_lewis bm_daniel",
    ),
    _Row("Kokoro", "zh", _WOMAN, "zf_xiaobei zf_xiaoni zf_xiaoxiao zf_xiaoyi"),
    _Row("Kokoro", "zh", _MAN, "zm_yunjian zm_yunxi zm_yunxia zm_yunyang"),
    _Row(
        "Cartesia",
        "en",
        _WOMAN,
        "694f9389-aac1-45b6-b726-9d9369183238 f786b574-daa5-4673-aa0c-cbe3e8534c02 "
        "6ccbfb76-1fc6-48f7-b71d-91ac6298247b 79a125e8-cd45-4c13-8a67-188112f4dd22 "
        "71a7ad14-091c-4e8e-a314-022ece01c121 bf0a246a-8642-498a-9950-80c35e9276b5 "
        "78ab82d5-25be-4f7d-82b3-7ad64e5b85b2 9626c31c-bec5-4cca-baa8-f8ba9e84c8bc "
        "e07c00bc-4134-4eae-9ea4-1a55fb45746b f9836c6e-a0bd-460e-9d3c-f7299fa60f94",
    ),
    _Row(
        "Cartesia",
        "en",
        _MAN,
        "a0e99841-438c-4a64-b679-ae501e7d6091 5ee9feff-1265-424a-9d7f-8e4d431a12c7 "
        "c961b81c-a935-4c17-bfb3-ba2239de8c2f 228fca29-3a0a-435c-8728-5cb483251068 "
        "86e30c1d-714b-4074-a1f2-1cb6b552fb49 a167e0f3-df7e-4d52-a9c3-f949145efdab",
    ),
    _Row("Riva", "en", _WOMAN, "English-US.Female-1"),
    _Row("Riva", "en", _MAN, "English-US.Male-1"),
    # Seeds of speakers, which pages for ChatTTS offer. They speak Chinese by default.
    _Row("ChatTTS", "zh", None, "2222 7869 6653 4099 5099"),
)


@dataclass(frozen=True)
class _Choice:
    """The speakers among which a name takes one: its place is taken modulo their number.

    Attributes:
        wanted: names of the bundled voice's speakers that fit.
        index: the name's place among the names of its row.
        vendor_index: among all names of its vendor, in alphabetical order.
    """

    wanted: tuple[str, ...]
    index: int
    vendor_index: int


def _choices() -> dict[str, _Choice]:
    names: dict[str, list[str]] = {}
    for row in _TABLE:
        names.setdefault(row.vendor, []).extend(row.names.split())
    found = {}
    for row in _TABLE:
        sexes = (_WOMAN, _MAN) if row.sex is None else (row.sex,)
        wanted = tuple(name for sex in sexes for name in _SPEAKERS[row.language, sex])
        of_vendor = sorted(names[row.vendor])
        for index, name in enumerate(row.names.split()):
            found[folded(name)] = _Choice(wanted, index, of_vendor.index(name))
    return found


_CHOICES = _choices()
OPENAI_NAMES = tuple(
    sorted(name for row in _TABLE if row.vendor == _OPENAI for name in row.names.split())
)
"""OpenAI's names, which lists of voices show."""


def is_vendor_voice(name: str) -> bool:
    """Return whether a name, in letters of any case, is that of a vendor's voice."""
    return folded(name) in _CHOICES


def speaker_for(name: str, speakers: Sequence[str]) -> str | None:
    """Return the speaker of a checkpoint that stands for a vendor's voice.

    Args:
        name: of the vendor's voice, in letters of any case.
        speakers: names of the checkpoint's speakers.

    Returns:
        One of ``speakers``; ``None`` if the name is no vendor's, or there are no speakers.
    """
    choice = _CHOICES.get(folded(name))
    if choice is None or not speakers:
        return None
    fitting = [speaker for speaker in choice.wanted if speaker in speakers]
    if fitting:
        return fitting[choice.index % len(fitting)]
    return speakers[choice.vendor_index % len(speakers)]
