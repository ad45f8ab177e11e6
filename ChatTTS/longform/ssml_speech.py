"""Speak a document of SSML in Python, as a server does for a request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError, NothingToSpeakError
from ..model.generation import FinishReason
from ..params import InferCodeParams, as_params
from ..pipeline.call_options import CallOptions, StreamOptions
from ..pipeline.results import Piece, SpokenText, SpokenUtterance, Waveforms
from ..pipeline.utterances import Silences
from ..pipeline.voice import text_speaker
from ..text.lexicon import Lexicon
from ..text.pauses import paused_parts
from ..voices import VoiceLibrary, find_voice
from .segments import MarkedText, SegmentSound, cuts_of, segments_of, with_silence

if TYPE_CHECKING:
    from ..pipeline.streams import SpeechStream

logger = logging.getLogger(__name__)

_SILENCES = ("silence_before", "silence_after", "paragraph_pause")
# What a voice of the document replaces.
_OF_VOICES = ("spk_emb", "spk_smp", "txt_smp", "adapter")


def document_stream(chat: Any, asked: CallOptions) -> DocumentStream:
    """Return the pieces of a document's speech.

    Raises:
        ConfigError: an option has no meaning for documents.
    """
    if asked.refine_text_only:
        raise ConfigError("SSML is not refined: call infer with a text, or without refining")
    if asked.duration is not None:
        raise ConfigError('in SSML a duration is written as <prosody duration="3.2s">')
    assert isinstance(asked.text, str), "a document is a string"
    names = {each.name for each in fields(StreamOptions) if each.init} - {"text"}
    arguments = {name: getattr(asked, name) for name in names}
    return DocumentStream(chat, segments_of(asked.text), arguments)


class DocumentStream:
    """The pieces of a document's speech, as ``Chat.stream`` gives those of a text.

    Args:
        chat: speaks.
        document: its segments.
        arguments: of ``Chat.stream`` beside the text, for all of them.

    Attributes:
        rows: what was spoken, with a single text.
    """

    def __init__(self, chat: Any, document: MarkedText, arguments: Mapping[str, Any]) -> None:
        self.rows = [SpokenText()]
        self._chat, self._document, self._arguments = chat, document, dict(arguments)
        self._current: SpeechStream | None = None
        lexicon = Lexicon.of(self._arguments.get("lexicon"))
        parts = paused_parts(document.text, lexicon)
        self.rows[0].lexicon_uses = tuple(use for part in parts for use in part.uses)
        Silences.of(*(self._arguments.get(name) for name in _SILENCES))  # raises now
        self._voices = self._found_voices()
        self.rows[0].speaker = self._speaker()
        for warning in document.warnings:
            logger.warning("%s", warning)
        self._pieces = self._spoken()

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        return next(self._pieces)

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        piece = await asyncio.to_thread(next, self._pieces, None)
        if piece is None:
            raise StopAsyncIteration
        return piece

    @property
    def utterances(self) -> list[SpokenUtterance]:
        """The utterances of the document, as far as they were spoken."""
        return self.rows[0].utterances

    @property
    def finish_reason(self) -> str | None:
        """The ending of the document: ``stop``, ``length`` or ``abort``."""
        return self.rows[0].finish_reason

    @property
    def finish_reasons(self) -> list[str | None]:
        """The ending, in a list."""
        return [self.finish_reason]

    @property
    def left_out(self) -> tuple[str, ...]:
        """The parts that the voices cannot speak, as far as they are known."""
        return self.rows[0].left_out

    def whole(self) -> Waveforms:
        """Return the sound of the document, as ``Chat.infer`` returns that of a text."""
        with self:
            pieces = [piece.samples for piece in self]
        samples = np.concatenate([np.zeros(0, dtype=np.float32), *pieces])
        return Waveforms([samples], self.rows)

    def chunks(self) -> Iterator[np.ndarray]:
        """Yield the sound as ``Chat.infer(stream=True)`` does: float32 (1, n)."""
        with self:
            for piece in self:
                yield piece.samples[None]

    def close(self) -> None:
        """End the work; pieces that were not taken are dropped."""
        self._pieces.close()
        if self._current is not None:
            self._current.close()

    async def aclose(self) -> None:
        """End the work as :meth:`close` does, without blocking the asyncio loop."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> DocumentStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> DocumentStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _found_voices(self) -> dict[str, Mapping[str, Any]]:
        """Return the parameters of all voices that the document names; raises VoiceError."""
        model, library = self._chat._loaded, VoiceLibrary()
        names = {each.voice for each in self._document.segments if each.voice is not None}
        return {
            name: find_voice(name, model.config, library, model.gpt.adapters).parameters
            for name in names
        }

    def _speaker(self) -> str | None:
        """Return the speaker of all segments without a voice, which their words choose."""
        given = as_params(InferCodeParams, self._arguments.get("params_infer_code"))
        segments = self._document.segments
        text = "\n".join(each.text for each in segments if each.voice is None)
        return text_speaker(self._chat._loaded, given, text, self._arguments.get("lang"))

    def _spoken(self) -> Generator[Piece, None, None]:
        given = [self._arguments.pop(name, None) for name in _SILENCES]
        segments = with_silence(self._document.segments, *given)
        first = self._arguments.pop("first_utterance", 0)
        count = position = 0
        silence = 0.0
        last: Piece | None = None
        for segment, cuts in zip(segments, cuts_of(segments), strict=True):
            stream = None
            if segment.text:
                try:
                    stream = self._begin(segment.text, segment.voice, cuts, first + count)
                except NothingToSpeakError as error:
                    self._note(error.left_out)
            if stream is None:
                silence += segment.pause
                continue
            self._note(stream.left_out)
            sound, silence = SegmentSound(segment, count, silence), 0.0
            for piece in self._pieces_of(sound, stream, position, last):
                position, last = position + len(piece.samples), piece
                self._keep(piece)
                yield piece
            self._end(stream, count)
            count += len(stream.utterances)
            if stream.finish_reason == FinishReason.ABORT.value:
                return
        if last is None:
            raise NothingToSpeakError(
                self._document.text, self.left_out, self._chat.normalizer.languages
            )
        if silence:
            end = SegmentSound(segments[-1], count, silence).before(position, last)
            assert end is not None
            self._keep(end)
            yield end

    def _begin(
        self,
        text: str,
        voice: str | None,
        cuts: Mapping[str, float | None],
        number: int,
    ) -> SpeechStream:
        arguments = dict(self._arguments)
        speaker = self.rows[0].speaker
        if voice is not None or speaker is not None:
            given = arguments.get("params_infer_code") or {}
            own = dict(given if isinstance(given, Mapping) else vars(given))
            if voice is None:
                own["spk_emb"] = speaker
            else:
                own = {name: value for name, value in own.items() if name not in _OF_VOICES}
                own |= self._voices[voice]
            arguments["params_infer_code"] = own
        stream: SpeechStream = self._chat.stream(
            text,
            **arguments | dict(cuts) | {"first_utterance": number, "reads_ssml": False},
        )
        return stream

    def _pieces_of(
        self, sound: SegmentSound, stream: SpeechStream, position: int, last: Piece | None
    ) -> Iterator[Piece]:
        """Yield the pieces of a segment at their places in the whole."""
        self._current = stream
        with stream:
            while (piece := sound.before(position, last)) is not None:
                position, last = position + len(piece.samples), piece
                yield piece
            for spoken in stream:
                piece = sound.placed(spoken, position)
                if piece is not None:
                    position, last = position + len(piece.samples), piece
                    yield piece
            while (piece := sound.after(position, last)) is not None:
                position, last = position + len(piece.samples), piece
                yield piece

    def _keep(self, piece: Piece) -> None:
        """Note a piece in the row of the document."""
        utterances = self.utterances
        while len(utterances) <= piece.utterance:
            utterances.append(SpokenUtterance(piece.text))
        spoken = utterances[piece.utterance]
        spoken.text = piece.text
        start = self.rows[0].start_of(spoken)
        spoken.samples += len(piece.samples)
        spoken.words += [word.shifted(-start) for word in piece.words]
        spoken.faults += [fault.shifted(-start) for fault in piece.faults]
        spoken.attempts = piece.attempts

    def _end(self, stream: SpeechStream, first: int) -> None:
        """Note how the utterances of a segment ended."""
        utterances = self.utterances
        for number, ended in enumerate(stream.utterances, first):
            if len(utterances) <= number:
                utterances.append(SpokenUtterance(ended.text))
            utterances[number].finish = ended.finish

    def _note(self, left_out: tuple[str, ...]) -> None:
        row = self.rows[0]
        row.left_out = tuple(dict.fromkeys((*row.left_out, *left_out)))
