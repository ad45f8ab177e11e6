"""Riva's speech synthesis service."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from ....languages import LANGUAGES, locale_of
from ....pipeline.edges import NOTHING, Edges
from ....pipeline.results import Word
from ...errors import BadRequestError, DeadlineError, OverloadedError
from ...http.auth import Authenticator
from ...http.disclosure import disclosure_headers
from ...requests.request import SpeechRequest, new_seed
from ...settings import Settings
from ...speech.recordings import sample_prompt
from ...speech.service import SpeechService
from ...speech.speech import Speech
from . import request_parsing as parsing
from .generated import riva_tts_pb2 as tts
from .prompts import PARAM, raw_audio_format
from .rpc_call import INTERFACE, RpcCall
from .stream_encoder import StreamEncoder

NAME = "nvidia.riva.tts.RivaSpeechSynthesis"

T = TypeVar("T")
Send = Callable[[tts.SynthesizeSpeechResponse], Awaitable[None]]


class RivaServicer:
    """Implements the three methods.

    It receives and returns messages as bytes, so that it can refuse an unreadable message like any
    other bad request.

    Args:
        service: speaks.
        authenticator: authenticates the clients.
        settings: limits, and whether texts are logged.
    """

    def __init__(
        self, service: SpeechService, authenticator: Authenticator, settings: Settings
    ) -> None:
        self._service, self._authenticator, self._settings = service, authenticator, settings
        self._num_calls = 0

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handler for ``grpc.aio.Server``."""
        methods = {
            "Synthesize": grpc.unary_unary_rpc_method_handler(self.synthesize),
            "SynthesizeOnline": grpc.stream_stream_rpc_method_handler(self.synthesize_online),
            "GetRivaSynthesisConfig": grpc.unary_unary_rpc_method_handler(self.configuration),
        }
        return grpc.method_handlers_generic_handler(NAME, methods)

    async def synthesize(
        self, data: bytes, context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> bytes:
        """Return the whole speech of a text."""

        async def answered(call: RpcCall) -> bytes:
            responses: list[tts.SynthesizeSpeechResponse] = []

            async def collect(response: tts.SynthesizeSpeechResponse) -> None:
                responses.append(response)

            message = parsing.parse_speech_request(data, self._settings.limits)
            synthesizer = _CallSynthesizer(
                self._service, self._settings, call, collect, is_whole=True
            )
            await synthesizer.speak(message)
            await synthesizer.finish()
            whole = tts.SynthesizeSpeechResponse(id=message.id)
            whole.audio = synthesizer.as_file(b"".join(response.audio for response in responses))
            whole.meta.text = responses[0].meta.text
            texts = (response.meta.processed_text for response in responses)
            whole.meta.processed_text = " ".join(text for text in texts if text)
            for response in responses:
                whole.meta.words.extend(response.meta.words)
            return _serialized(whole)

        return await self._answer(context, answered)

    async def synthesize_online(
        self, _: Any, context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> None:
        """Send the speech of texts while it is generated."""

        # Long enough for a client that plays the minutes of sound in gRPC's window first.
        seconds = self._settings.limits.idle_seconds

        async def send(response: tts.SynthesizeSpeechResponse) -> None:
            # A client that reads nothing must not occupy its slot forever.
            try:
                await asyncio.wait_for(context.write(_serialized(response)), seconds)
            except asyncio.TimeoutError:
                raise DeadlineError(
                    f"the client read no audio for {seconds:g} s: read faster"
                ) from None
            except Exception as error:  # gRPC has no error of its own for a client that has gone
                raise asyncio.CancelledError from error

        async def answered(call: RpcCall) -> None:
            synthesizer = _CallSynthesizer(
                self._service, self._settings, call, send, is_whole=False
            )
            first: tts.SynthesizeSpeechRequest | None = None
            while (data := await self._next(context)) is not None:
                message = parsing.parse_speech_request(data, self._settings.limits)
                if first is None:
                    first = message
                else:
                    message = parsing.merge_settings(first, message)
                # Clients that write word by word also send white space alone.
                if message.text.strip():
                    await synthesizer.speak(message)
            await synthesizer.finish()

        await self._answer(context, answered)

    async def configuration(
        self, data: bytes, context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> bytes:
        """Return the languages and voices."""

        async def answered(call: RpcCall) -> bytes:
            request = parsing.parse_message(tts.RivaSynthesisConfigRequest, data)
            defaults = self._service.model.config.defaults
            model = defaults.name or "ChatTTS"
            response = tts.RivaSynthesisConfigResponse()
            if request.model_name not in ("", model):
                return _serialized(response)
            infos = await self._service.in_thread(self._service.voices.without_aliases)
            names = [info.id for info in infos]
            for code in [defaults.language] if defaults.language else self._service.model.languages:
                parameters = {
                    "language_code": locale_of(code),
                    "voice_name": LANGUAGES[code].family if code in LANGUAGES else code,
                    "subvoices": ",".join(f"{name}:{n}" for n, name in enumerate(names)),
                }
                response.model_config.add(model_name=model, parameters=parameters)
            return _serialized(response)

        return await self._answer(context, answered)

    async def _answer(
        self,
        context: grpc.aio.ServicerContext[bytes, bytes],
        work: Callable[[RpcCall], Awaitable[T]],
    ) -> T:
        """Authenticate the client and return the result of ``work``; an error ends the call."""
        call = RpcCall(context, disclosure_headers(self._service.settings.mark))
        try:
            call.authenticate(self._authenticator)
            with self._call_slot():
                return await work(call)
        except Exception as error:
            await call.refuse(error, self._service.metrics)
            raise  # not reached: refuse() raises

    @contextlib.contextmanager
    def _call_slot(self) -> Iterator[None]:
        """Occupy one of the slots for concurrent calls.

        gRPC could limit them, too, but it would also count health checks, which need no key.
        """
        limits = self._settings.limits
        # Running and waiting requests, and open streams that have nothing to speak.
        most = limits.running + limits.waiting + limits.sockets
        if self._num_calls >= most:
            raise OverloadedError(f"{most} calls are open, which is the limit: try again later")
        self._num_calls += 1
        try:
            yield
        finally:
            self._num_calls -= 1

    async def _next(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes | None:
        """Return the next message of a stream; ``None`` at its end."""
        seconds = self._settings.limits.idle_seconds
        try:
            data = await asyncio.wait_for(context.read(), seconds)
        except asyncio.TimeoutError:
            raise DeadlineError(
                f"no text arrived for {seconds:g} s: open a stream only when there is text to speak"
            ) from None
        return data if isinstance(data, bytes) else None


class _CallSynthesizer:
    """Speaks the texts of one call.

    Args:
        service: speaks.
        settings: whether texts are logged.
        call: the call.
        send: called with each response.
        is_whole: whether the client is sent nothing before all is spoken.
    """

    def __init__(
        self,
        service: SpeechService,
        settings: Settings,
        call: RpcCall,
        send: Send,
        *,
        is_whole: bool,
    ) -> None:
        self._service, self._settings, self._call, self._send = service, settings, call, send
        self._is_whole = is_whole
        self._encoder: StreamEncoder | None = None
        self._last_speech: Speech | None = None
        self._end = Edges(None, None)  # holds back the end of the sound
        self._num_texts = 0
        self._num_samples = 0  # of all texts, before the encoder
        self._response = tts.SynthesizeSpeechResponse()

    async def speak(self, message: tts.SynthesizeSpeechRequest) -> None:
        """Speak the next text of the call.

        Raises:
            ServingError: it cannot be spoken, or not now.
            ChatTTSError: a setting cannot be used.
        """
        encoder = self._encoder_for(message)
        request = await self._request(message)
        call = self._call
        call.speech = speech = self._service.speak(request)
        self._response.id.CopyFrom(message.id)
        begin = self._num_samples
        async with speech:
            # Not before: clients retry a refused call only if it has no initial metadata.
            await call.send_metadata(speech)
            self._response.meta.text = speech.request.text
            current = -1
            async for piece in speech:
                if piece.utterance != current:
                    current = piece.utterance
                    self._response.meta.processed_text = piece.text
                self._num_samples += len(piece.samples)
                self._add_words([word.shifted(begin) for word in piece.words], request.speed)
                ready = self._end.push(piece.samples, is_last=False)
                await self._send_audio(await encoder.push(ready))
        speech.check_complete()
        call.speech, self._last_speech = None, speech
        self._num_texts += 1
        await self._send_audio(await encoder.end_text())

    async def finish(self) -> None:
        """Send the remaining sound after the last text.

        Raises:
            BadRequestError: there was no text at all.
        """
        if self._encoder is None:
            raise BadRequestError("there is no text to speak", param="text")
        rest = self._end.push(NOTHING, is_last=True)
        if len(rest):
            await self._send_audio(await self._encoder.push(rest))
        await self._send_audio(await self._encoder.finish())
        if self._response.meta.words:  # whose sound was sent before they were known
            await self._send(self._response)

    def as_file(self, stream: bytes) -> bytes:
        """Return the joined bytes of all responses as a file with its length in the header."""
        return stream if self._encoder is None else self._encoder.as_file(stream)

    def _add_words(self, words: Iterable[Word], speed: float) -> None:
        """Put words into the next response."""
        for word in words:
            start, end = (round(1000 * seconds / speed) for seconds in (word.start, word.end))
            self._response.meta.words.add(word=word.text, start_time=start, end_time=end)

    async def _send_audio(self, audio: bytes) -> None:
        if not audio:
            return
        response, self._response = self._response, tts.SynthesizeSpeechResponse()
        self._response.id.CopyFrom(response.id)
        response.audio = audio
        await self._send(response)

    def _encoder_for(self, message: tts.SynthesizeSpeechRequest) -> StreamEncoder:
        settings = parsing.parse_audio_settings(message)
        if self._encoder is None:
            self._encoder = StreamEncoder(settings, self._service.in_thread)
        elif settings != self._encoder.settings:
            raise BadRequestError(
                "encoding, sample_rate_hz and speed cannot change within a stream: open a new "
                "stream for different audio",
                param="encoding",
            )
        return self._encoder

    async def _request(self, message: tts.SynthesizeSpeechRequest) -> SpeechRequest:
        call, last = self._call, self._last_speech
        settings = parsing.parse_configuration(message.custom_configuration)
        settings["is_seeded"] = "seed" in settings or (last is not None and last.request.is_seeded)
        asked = settings.get("guard")
        settings["guard"] = self._service.guard_of(asked, is_whole=self._is_whole)
        settings.setdefault("seed", new_seed() if last is None else last.request.seed)
        continues = last is not None and settings["seed"] == last.request.seed
        if message.zero_shot_data.audio_prompt:
            settings["sample"] = await self._sample(message.zero_shot_data)
            settings["transcript"] = message.zero_shot_data.transcript
        else:
            settings["voice"] = parsing.resolve_voice(message.voice_name, self._service.voices)
        request = SpeechRequest(
            message.text,
            language=parsing.parse_language(message.language_code, self._service.model.languages),
            word_times=message.enable_word_time_offsets,
            lexicon=parsing.parse_dictionary(message.custom_dictionary),
            max_wait=call.remaining,
            client=call.client,
            interface=INTERFACE,
            request_id=call.request_id + (f"-{self._num_texts}" if self._num_texts else ""),
            first_utterance=last.next_utterance if last is not None and continues else 0,
            voice_language=None if last is None else last.request.voice_language,
            **settings,
        )
        if last is None:
            self._end = Edges.at_end(request.silence_after, request.speed)
            return replace(request, silence_after=None)
        return replace(request, silence_before=None, silence_after=None)

    async def _sample(self, data: tts.ZeroShotData) -> str:
        """Return the sample prompt string of a recording.

        The service caches it, since clients send the recording with each text.
        """
        if not data.transcript.strip():
            raise BadRequestError(
                "zero_shot_data needs a transcript: the words of the recording, verbatim",
                param=PARAM,
            )
        prompt = data.audio_prompt
        raw_format = raw_audio_format(prompt, data.encoding, data.sample_rate_hz)
        return await sample_prompt(self._service, prompt, PARAM, raw_format)


def _serialized(message: Message) -> bytes:
    data: bytes = message.SerializeToString()
    return data
