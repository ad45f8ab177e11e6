"""Settings of a reading: voices, pauses, loudness and the parameters of speech."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any

from ..config.request_fields import MOST_SILENCE
from ..errors import ConfigError, shown
from ..pipeline.call_arguments import checked_guard
from ..text import Lexicon
from ..text.pauses import LONGEST_PAUSE
from .script import Join, ScriptError, Style

LEAST_PEAK = -20.0
"""The lowest ceiling of a true peak, in dBTP."""


@dataclass(frozen=True)
class Pauses:
    """Seconds of silence between two parts, beside the 20 ms that are left around speech.

    Attributes:
        phrase: between parts of one sentence that is too long for the model.
        sentence: between sentences.
        line: between lines of a dialogue.
        paragraph: between paragraphs.
        chapter: between chapters.
    """

    phrase: float = 0.15
    sentence: float = 0.35
    line: float = 0.5
    paragraph: float = 0.75
    chapter: float = 2.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (is_number and 0 <= value <= LONGEST_PAUSE):
                raise ConfigError(
                    f"the pause {each.name} must be from 0 to {LONGEST_PAUSE:g} s, not "
                    f"{shown(value)}"
                )

    def after(self, join: Join) -> float:
        """Return the seconds of a join."""
        return 0.0 if join is Join.NONE else float(getattr(self, join.value))


@dataclass(frozen=True)
class Loudness:
    """The loudness of a finished work, by EBU R128.

    Attributes:
        lufs: integrated loudness, from -40 to -5 LUFS.
        true_peak: the highest peak between samples, from -20 to 0 dBTP.
    """

    lufs: float = -16.0
    true_peak: float = -1.0

    def __post_init__(self) -> None:
        for name, low, high in (("lufs", -40.0, -5.0), ("true_peak", LEAST_PEAK, 0.0)):
            if not low <= getattr(self, name) <= high:
                value = shown(getattr(self, name))
                raise ConfigError(f"{name} must be from {low:g} to {high:g}, not {value}")


AUDIOBOOK = Loudness(lufs=-19.0)
"""The loudness that audiobook publishers ask for."""


@dataclass(frozen=True)
class Role:
    """A voice under the name that a script uses.

    Attributes:
        voice: as ``ChatTTS.voices.find_voice`` takes it; ``None`` is the default voice.
        style: of all its lines; a line's own settings go before.
    """

    voice: str | None = None
    style: Style = field(default_factory=Style)


STEADINESS = ("retry", "report")
"""Choices for utterances that leave what is usual for their voice."""


class Late(str, Enum):
    """The choices for speech that is longer than its duration although it is as short as can be.

    Members:
        SHIFT: it is spoken to its end, and a cue that it reaches begins later.
        OVERLAP: it is spoken to its end, while the next cue begins at its time.
        CUT: it ends with its duration.
        TEMPO: it is spoken faster, up to ``ReadSettings.fastest`` times; then as ``SHIFT``.
    """

    SHIFT = "shift"
    OVERLAP = "overlap"
    CUT = "cut"
    TEMPO = "tempo"


@dataclass(frozen=True)
class ReadSettings:
    """Settings of ``Chat.read``.

    Attributes:
        voices: roles by the names in the script; any other name is that of a voice.
        voice: of lines that name none.
        pauses: between the parts.
        seed: of the draws, for lines that name none.
        lang: ``en`` or ``zh``; detected in each line by default.
        normalize: spell out numbers and symbols.
        lexicon: applied to each line before anything else.
        word_times: find when each word is spoken.
        guard: as in ``Chat.infer``.
        steady: compare voice, loudness and pace of each utterance with those that are usual for
            its voice: ``retry`` speaks again what leaves them, ``report`` only tells it.
        parameters: further fields of ``InferCodeParams``.
        side_by_side: lines that are generated at once; ``None`` takes 8 on velocity, else 1.
        fastest: the most that a cue is sped up to end before the next one, from 1 to 2.
        silence_before, silence_after: seconds before the first and after the last audible sample,
            to 60; by default the work begins and ends with its speech. A cue keeps its time.
        fit: speak each cue exactly as long as it is shown.
        late: what becomes of a line that cannot be spoken in its duration.
    """

    voices: Mapping[str, Role] = field(default_factory=dict)
    voice: str | None = None
    pauses: Pauses = Pauses()
    seed: int = 0
    lang: str | None = None
    normalize: bool = True
    lexicon: Lexicon = field(default_factory=Lexicon)
    word_times: bool = False
    guard: str | None = None
    steady: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    side_by_side: int | None = None
    fastest: float = 1.5
    silence_before: float | None = None
    silence_after: float | None = None
    fit: bool = False
    late: Late = Late.SHIFT

    @property
    def aligns(self) -> bool:
        """Return whether the model's attention to the text is asked for."""
        return self.word_times or self.guard is not None

    def __post_init__(self) -> None:
        checked_guard(self.guard)
        if self.steady not in (None, *STEADINESS):
            raise ConfigError(f'steady must be "retry", "report" or None, not {shown(self.steady)}')
        object.__setattr__(self, "late", checked_late(self.late))
        if self.side_by_side is not None and not 1 <= self.side_by_side <= 256:
            raise ConfigError(f"side_by_side must be 1 to 256, not {shown(self.side_by_side)}")
        if not 1 <= self.fastest <= 2:
            raise ConfigError(f"fastest must be from 1 to 2, not {shown(self.fastest)}")
        for name in ("silence_before", "silence_after"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MOST_SILENCE:
                raise ConfigError(
                    f"{name} must be from 0 to {MOST_SILENCE:g} seconds, not {shown(value)}"
                )
        if type(self.seed) is not int or not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be a whole number below 2**63, not {shown(self.seed)}")


def checked_late(given: str) -> Late:
    """Return the choice of a name.

    Raises:
        ConfigError: there is no such choice.
    """
    try:
        return Late(given)
    except ValueError as error:
        known = ", ".join(each.value for each in Late)
        raise ConfigError(f"late must be one of {known}, not {shown(given)}") from error


def read_roles(path: str | Path) -> dict[str, Role]:
    """Return the roles of a TOML file: ``Anna = "voice"``, or tables with a voice and a style.

    Raises:
        ScriptError: the file cannot be read, or a value in it is not valid.
    """
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ScriptError(f"{path} cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ScriptError(f"{path}: it is not valid TOML ({error})") from error
    return parse_roles(values, str(path))


def parse_roles(values: Mapping[str, Any], where: str) -> dict[str, Role]:
    """Return roles by their names: each value is a voice, or has one and a style.

    Args:
        where: the source of the values, for messages.

    Raises:
        ScriptError: a value is not valid.
    """
    return {name: _role(name, value, where) for name, value in values.items()}


def _role(name: str, value: Any, path: str) -> Role:
    if isinstance(value, str):
        return Role(value)
    if not isinstance(value, dict):
        raise ScriptError(f"{path}: {name} must be a voice, or a table with one")
    voice = value.get("voice")
    if voice is not None and not isinstance(voice, str):
        raise ScriptError(f"{path}: the voice of {name} must be text")
    try:
        return Role(voice, Style.from_values({k: v for k, v in value.items() if k != "voice"}))
    except ConfigError as error:
        raise ScriptError(f"{path}: {name}: {error}") from error
