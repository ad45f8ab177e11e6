"""From a script to the requests that speak its lines, with all errors that can be known before."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...config.request_fields import Priority
from ...errors import ChatTTSError
from ...longform.files import format_of
from ...longform.marks import MOST_CHARACTERS
from ...longform.planned import PlannedLine
from ...longform.references import with_references
from ...longform.script import Line, Place, Script, ScriptError, Style
from ...longform.settings import Role
from ...longform.subprocess_reader import Reading, ScriptTooLongError, read_in_subprocess
from ...text.main_language import main_language
from ...text.pauses import blank_marks
from ...text.splitter import is_speakable, split_utterances
from ..errors import BadRequestError, RequestTooLargeError, ServingError
from ..requests.request import SpeechRequest
from ..settings import Limits
from ..speech.service import SpeechService
from .options import ScriptOptions

_FORMAT = 2
_BRACKET = re.compile(r"[\[\]]")  # of a mark, perhaps of a part of it
# Three of a character of Chinese, and the marks of a document.
_BYTES_PER_CHARACTER = 8
_COVER_BYTES = 4 << 20

VoiceParameters = Mapping[str, str]
"""Fields of ``InferCodeParams`` of a voice."""


@dataclass(frozen=True)
class ScriptSource:
    """A script as the client sent it.

    Attributes:
        data: the bytes of the file.
        name: of the file, for messages only.
    """

    data: bytes
    name: str

    def read(self, options: ScriptOptions, limits: Limits) -> Script:
        """Return its lines, within the server's limits.

        Raises:
            ScriptError: it cannot be read, or has warnings and ``strict`` is set.
            RequestTooLargeError: it is longer than the limits.
        """
        # A document takes many times its size in memory while it is read.
        most = limits.script_characters * _BYTES_PER_CHARACTER
        is_book = (options.format or format_of(self.name)) == "epub"
        if not is_book and len(self.data) > most:
            raise RequestTooLargeError(
                f"the script has {len(self.data)} bytes; the limit is {most}, and "
                f"{limits.script_characters} characters: send it in parts, such as chapters",
                param="script",
            )
        reading = Reading(
            name=self.name,
            format=options.format,
            most=most + _COVER_BYTES,
            strict=options.strict,
            first=options.first,
            last=options.last,
            line_characters=min(MOST_CHARACTERS, limits.characters),
            characters=limits.script_characters,
            seconds=limits.script_seconds,
            notes=options.notes,
            fit=options.fit,
        )
        try:
            script = read_in_subprocess(self.data, reading)
        except ScriptTooLongError as error:
            raise RequestTooLargeError(str(error), param="script") from error
        return replace(
            script,
            title=script.title if options.title is None else options.title,
            author=script.author if options.author is None else options.author,
        )


class VoiceFinder:
    """Finds the voices of a script, each one once.

    Args:
        service: has the voices.
        options: of the script.
        known: voices that were found before, by their names; ``""`` is the default voice. A job
            that goes on after a restart keeps the voices that it began with.
    """

    def __init__(
        self,
        service: SpeechService,
        options: ScriptOptions,
        known: Mapping[str, VoiceParameters] | None = None,
    ) -> None:
        self._service, self._options = service, options
        self.found: dict[str, VoiceParameters] = dict(known or {})
        self.substituted: dict[str, str] = {}
        self._language: str | None = None  # of most lines without a voice

    def read(self, script: Script) -> None:
        """Let the words of a script's lines without a voice choose the one of all of them."""
        if self._service.voices.follow_language(None):
            text = "\n".join(line.text for line in script.lines if self.role(line).voice is None)
            self._language = main_language(text, self._options.language)

    def role(self, line: Line) -> Role:
        """Return the role of a line."""
        name = self._options.voice if line.voice is None else line.voice
        return Role(name) if name is None else self._options.roles.get(name, Role(name))

    def parameters(self, name: str | None) -> VoiceParameters:
        """Return the parameters of a voice.

        Raises:
            ServingError, VoiceError: there is no such voice, or it belongs to another model.
        """
        key = name or ""
        if key not in self.found:
            voice = self._service.voices.find(name, language=self._language)
            if "spk_emb" in voice.parameters:
                self._service.model.check_speaker(voice.parameters["spk_emb"])
            self.found[key] = voice.parameters
            if voice.is_substitute:
                self.substituted[key] = voice.name
        return self.found[key]


class ScriptPlanner:
    """Makes the plan of a script.

    Args:
        service: speaks the lines.
        options: of the script.
        voices: finds voices.
        fingerprint: of the model; see :meth:`..speech.speech_model.SpeechModel.fingerprint`.
        client: the client's name, for fairness and logs.
        name: of the job, for logs.
        warn: called with each warning.
    """

    def __init__(
        self,
        service: SpeechService,
        options: ScriptOptions,
        voices: VoiceFinder,
        *,
        fingerprint: str,
        client: str,
        name: str,
        warn: Callable[[str], None],
    ) -> None:
        self._service, self._options, self._voices = service, options, voices
        self._fingerprint, self._client, self._name = fingerprint, client, name
        self._warn = warn
        self._manners: dict[tuple[str | None, Style], tuple[SpeechRequest, float, str]] = {}

    def plan(self, script: Script) -> tuple[PlannedLine, ...]:
        """Return the lines with their requests.

        Raises:
            ScriptError: a line cannot be spoken, such as one with an unknown voice.
        BadRequestError: so is a voice of the options.
        """
        self._voices.read(script)
        self._check_roles()
        plan = tuple(self._planned(n, line) for n, line in enumerate(script.lines, 1))
        steady = self._options.steady
        return plan if steady is None else with_references(plan, steady)

    def _check_roles(self) -> None:
        """Raise BadRequestError for a role whose voice cannot be used, also if no line names it."""
        for name, role in self._options.roles.items():
            try:
                self._voices.parameters(role.voice)
            except ChatTTSError as error:
                raise BadRequestError(f"voices: {name}: {error}", param="voices") from error

    def _planned(self, number: int, line: Line) -> PlannedLine:
        with _placed(line.place):
            template, tempo, decides = self._manner(line)
            if not is_speakable(line.text):
                if line.text:
                    self._warn(f"{line.place}: there is nothing to speak in it; it stays silent")
                return PlannedLine(line, None, {}, 1.0)
            self._check_length(line, template)
        request = replace(
            template,
            text=line.text,
            request_id=f"{self._name}.{number}",
            duration=line.duration,
            may_be_late=line.duration is not None,  # the options tell what becomes of it
        )
        deciding: list[Any] = [line.text, decides]
        if line.duration is not None:
            deciding.append(line.duration)
            self._service.check_word_times("duration")
        key = hashlib.sha256(json.dumps(deciding).encode()).hexdigest()
        texts: Sequence[str] = ()
        if self._options.steady is not None:
            longest = self._service.model.config.defaults.max_utterance_characters
            written = split_utterances(blank_marks(line.text), longest)
            texts = [text for text in written if not _BRACKET.search(text)]
        return PlannedLine(line, key, {"request": request}, tempo, tuple(texts))

    def _check_length(self, line: Line, template: SpeechRequest) -> None:
        if template.lexicon.entries:
            length, most = (
                len(template.lexicon.apply(line.text).text),
                self._service.settings.limits.characters,
            )
            if length > most:
                raise line.place.error(
                    f"with the sayings of the lexicon it has {length} characters; the limit is "
                    f"{most}"
                )

    def _manner(self, line: Line) -> tuple[SpeechRequest, float, str]:
        """Return the request of all lines with a voice and style, their tempo, and their hash."""
        key = (line.voice, line.style)
        if key not in self._manners:
            self._manners[key] = self._new_manner(line)
        return self._manners[key]

    def _new_manner(self, line: Line) -> tuple[SpeechRequest, float, str]:
        options = self._options
        role = self._voices.role(line)
        style = line.style.over(role.style)
        refines = bool(style.refine_tags) and self._service.model.config.defaults.refine_trained
        if style.refine_tags and not refines:
            self._warn(
                f"{line.place}: this model was not trained to refine texts; oral, laugh and breaks "
                "have no effect"
            )
        own = {"seed": style.seed, "temperature": style.temperature}
        parameters = self._voices.parameters(role.voice)
        substitute = self._voices.substituted.get(role.voice or "")
        if substitute is not None:
            self._warn(f"{line.place}: there is no voice {role.voice!r}; {substitute} speaks")
        request = SpeechRequest.of(
            "line",  # each line has its own text
            options,
            reads_ssml=False,
            is_seeded=False,  # a book would drive all other results out of their cache
            refine=refines,
            refine_tags=style.refine_tags if refines else "",
            tags="" if style.speed is None else f"[speed_{style.speed}]",
            word_times=options.subtitles is not None,
            priority=Priority.BATCH,
            client=self._client,
            **_voice_fields(parameters),
            **{name: value for name, value in own.items() if value is not None},
            silence_before=None,  # of the whole work
            silence_after=None,
            interface="script",
        )
        request = self._service.with_lexicon(request)
        voice = self._service.check(request)
        return request, style.tempo, self._decides(request, voice.parameters)

    def _decides(self, request: SpeechRequest, voice: VoiceParameters) -> str:
        """Return the hash of everything that decides the speech of a line, beside its text."""
        # Without fields that are not given: a field that is new leaves the lines that are kept.
        given = {name: value for name, value in request.deciding.items() if value is not None}
        del given["may_be_late"]  # the line decides it
        deciding = given | {
            "text": "",
            "lexicon": [asdict(entry) for entry in request.lexicon.entries],
        }
        values = [_FORMAT, self._fingerprint, sorted(voice.items()), sorted(deciding.items())]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def _voice_fields(parameters: VoiceParameters) -> dict[str, Any]:
    """Return the fields of a request that speaks with a voice's parameters.

    A speaker string is a name of itself.
    """
    sample = parameters.get("spk_smp")
    return {
        "voice": parameters.get("spk_emb") if sample is None else None,
        "sample": sample,
        "transcript": parameters.get("txt_smp"),
        "adapter": parameters.get("adapter"),
    }


@contextmanager
def _placed(place: Place) -> Iterator[None]:
    """Put a place before the messages of errors about a line."""
    try:
        yield
    except ScriptError:
        raise
    except ChatTTSError as error:
        if isinstance(error, ServingError) and error.status >= 500:
            raise
        raise place.error(str(error)) from error
