"""Checks of a request before it has its turn, and the voice that speaks it."""

from __future__ import annotations

from dataclasses import replace

from ...errors import ChatTTSError, ConfigError
from ...languages import language_choice
from ...model.lora.names import BASE, chosen_adapter
from ..errors import BadRequestError, RequestTooLargeError, ServingError, as_serving_error
from ..requests.request import SpeechRequest, check_pauses
from ..settings import Settings
from .speech_model import SpeechModel
from .voices import FoundVoice, Voices


class RequestChecks:
    """The checks of requests by a model, its voices and the settings of a server.

    Args:
        model: speaks.
        voices: finds voices by their names.
        settings: limits, and the server's own lexicon and guard.

    Raises:
        ConfigError: a word of the server's lexicon has phonemes alone, and the voice reads letters.
    """

    def __init__(self, model: SpeechModel, voices: Voices, settings: Settings) -> None:
        self.model, self.voices, self.settings = model, voices, settings
        self._gives_attention = model.gives_attention
        self._reads_phonemes = model.config.defaults.pronunciation is not None
        if not self._reads_phonemes:
            settings.lexicon.in_letters()  # raises now, and not with the first request

    def check(self, request: SpeechRequest) -> FoundVoice:
        """Return the request's voice.

        Raises:
            ServingError: the request cannot be spoken: its text is too long, its voice is
                unknown, or the times of words are not known here; or a word of its lexicon has
                phonemes alone, and the voice reads letters.
        """
        self.check_text(request)
        self.check_language(request.language)
        if not self._reads_phonemes:
            try:
                request.lexicon.in_letters()
            except ConfigError as error:
                raise BadRequestError(str(error), param="lexicon") from error
        for param in request.needs_word_times:
            self.check_word_times(param)
        for name in {segment.voice for segment in request.segments} - {None}:
            self.voice_of(name)
        if request.sample is not None:
            fields = {"spk_smp": request.sample}
            if request.transcript:
                fields["txt_smp"] = request.transcript
            voice = self._with_adapter(FoundVoice("(recording)", fields), request.adapter)
        else:
            voice = self.voice_of(request.voice, request.adapter, request.voice_language)
        return replace(voice, parameters={**voice.parameters, **request.continued})

    def check_text(self, request: SpeechRequest) -> None:
        """Raise RequestTooLargeError if a text, or the pauses in it, are too long."""
        check_pauses(request)
        length, limit = len(request.text), self.settings.limits.characters
        if length > limit:
            raise RequestTooLargeError(
                f"the text has {length} characters; the limit is {limit}: send it in parts",
                param="input",
            )

    def check_language(self, code: str | None) -> None:
        """Raise BadRequestError if a request may not name this language."""
        if code is not None and code not in self.model.languages:
            raise BadRequestError(
                f"language must be {language_choice(self.model.languages)}", param="language"
            )

    def with_lexicon(self, request: SpeechRequest) -> SpeechRequest:
        """Return a request with the server's lexicon added to its own."""
        default = self.settings.lexicon
        if not default.entries:
            return request
        if not request.lexicon.entries:
            return replace(request, lexicon=default)
        return replace(request, lexicon=default.extended(request.lexicon))

    @property
    def gives_word_times(self) -> bool:
        """Return whether the checkpoint and the engine can tell when words are spoken.

        Searching for heads takes too long for a request. Heads that are found while the server runs
        count from then on.
        """
        return self._gives_attention and self.model.has_alignment_heads

    def check_word_times(self, param: str = "timestamp_granularities") -> None:
        """Raise BadRequestError if the times of words are not known here.

        Args:
            param: the field of the request that asks for them.
        """
        if not self.gives_word_times:
            raise BadRequestError(
                "this server cannot give word times: `chattts align` found no attention heads "
                "for its checkpoint, or its engine does not return attention",
                param=param,
            )

    def guard_of(self, asked: str | None, *, is_whole: bool) -> str | None:
        """Return the guard of a request.

        Args:
            asked: the client's choice, one of ``GUARDS``; ``None`` for the server's own.
            is_whole: whether nothing is sent before all is spoken. The server's own choice delays
                no other sound.
        """
        if asked is not None:
            return None if asked == "none" else asked
        default = self.settings.guard
        return "report" if default == "retry" and not is_whole else default

    def voice_of(
        self, name: str | None, adapter: str | None = None, language: str | None = None
    ) -> FoundVoice:
        """Return a voice; an adapter without a voice is a voice by itself."""
        try:
            if name is None and adapter in self.model.adapters:
                name = adapter
            return self._with_adapter(self.voices.find(name, language=language), adapter)
        except ServingError:
            raise
        except ChatTTSError as error:
            raise as_serving_error(error) from error

    def _with_adapter(self, voice: FoundVoice, adapter: str | None) -> FoundVoice:
        """Return the voice with the adapter that speaks, if any is loaded or asked for."""
        known, fields = self.model.adapters, voice.parameters
        if adapter is None and not known:
            return voice
        try:
            chosen = chosen_adapter(adapter or fields.get("adapter"), known)
        except ConfigError as error:
            raise BadRequestError(str(error), param="adapter") from error
        return replace(voice, parameters=fields | {"adapter": chosen or BASE})
