"""Speech for Pipecat, over the server's own WebSocket. Copy this file into your program.

pip install pipecat-ai

Text is spoken while the language model writes it. Words arrive with their times, so an interrupted
reply enters the conversation only as far as it was heard. At an interruption, the server tells the
last word that was played to its end:

    tts = ChatTTSService(settings=ChatTTSService.Settings(voice="alloy"))

    @tts.event_handler("on_speech_interrupted")
    async def heard(tts, last_word, spoken_text): ...

Tested with Pipecat 1.14.0.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    ErrorFrame,
    Frame,
    InterruptionFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessorSetup
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TextAggregationMode, WebsocketTTSService
from pipecat.transcriptions.language import Language
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

URL = "ws://127.0.0.1:8000/v1/audio/speech/stream"
LANGUAGES = ("en", "zh")


class ChatTTSService(WebsocketTTSService):
    """Speaks text in one context of the socket for each turn.

    Args:
        url: of the server's WebSocket.
        api_key: of the server, if it has keys; by default ``CHATTTS_API_KEY``.
        word_times: ``False`` for a checkpoint without word times: then the text of a turn is
            told when its sound has ended.
        settings: ``voice`` and ``language``; ``extra`` has further fields of ``session.config``,
            such as ``seed``, ``speed`` or ``low_latency``.
        options: of Pipecat's ``TTSService``, such as ``sample_rate``.
    """

    Settings = TTSSettings

    def __init__(
        self,
        *,
        url: str = URL,
        api_key: str | None = None,
        word_times: bool = True,
        settings: TTSSettings | None = None,
        **options: Any,
    ) -> None:
        chosen = TTSSettings(model=None, voice=None, language=None)
        if settings is not None:
            chosen.apply_update(settings)
        # The server finds the sentences itself, and its queue may be longer than three seconds.
        options.setdefault("text_aggregation_mode", TextAggregationMode.TOKEN)
        options.setdefault("stop_frame_timeout_s", 30.0)
        super().__init__(
            push_text_frames=not word_times,
            push_start_frame=True,
            append_trailing_space=True,
            settings=chosen,
            **options,
        )
        key = os.environ.get("CHATTTS_API_KEY") if api_key is None else api_key
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._url, self._word_times = url, word_times
        self._receive_task: Any = None
        self._websocket: Any
        self._texts: dict[str, MarkedText] = {}  # of the contexts that the server has
        self._received: dict[str, int] = {}  # samples of each context that may not be played yet
        self._played_before, self._speaks_since = 0, 0.0
        self._register_event_handler("on_speech_interrupted")

    def can_generate_metrics(self) -> bool:
        return True

    def language_to_service_language(self, language: Language) -> str | None:
        """Return the server's name of a language, or the language itself, which it ignores."""
        return str(language).partition("-")[0].lower()

    # -- the connection --------------------------------------------------------------------

    async def setup(self, setup: FrameProcessorSetup) -> None:
        await super().setup(setup)
        await self._connect()

    async def _connect(self) -> None:
        await super()._connect()
        await self._connect_websocket()
        if self._websocket and not self._receive_task:
            self._receive_task = self.create_task(self._receive_task_handler(self._report_error))

    async def _disconnect(self) -> None:
        await super()._disconnect()
        if self._receive_task:
            await self.cancel_task(self._receive_task)
            self._receive_task = None
        await self._disconnect_websocket()

    async def _connect_websocket(self) -> None:
        if self._websocket and self._websocket.state is State.OPEN:
            return
        self._texts, self._received = {}, {}
        try:
            self._websocket = await self._websocket_connect(
                self._url, additional_headers=self._headers
            )
            await self._configure()
            await self._call_event_handler("on_connected")
        except (OSError, ValueError, ConnectionClosed) as error:
            self._websocket = None
            await self.push_error(f"no connection to {self._url}: {error}", exception=error)
            await self._call_event_handler("on_connection_error", str(error))

    async def _disconnect_websocket(self) -> None:
        await self.stop_all_metrics()
        socket, self._websocket = self._websocket, None
        if socket:
            await socket.close()
            await self._call_event_handler("on_disconnected")

    async def _configure(self) -> None:
        """Send the settings, which apply from the next turn on."""
        language = self._settings.language
        fields = {
            "voice": self._settings.voice,
            "language": language if language in LANGUAGES else None,
            "sample_rate": self.sample_rate,
            **self._settings.extra,
        }
        await self._say("session.config", None, **fields)
        if self._word_times:
            await self._say("session.config", None, word_times=True)

    async def _update_settings(self, delta: TTSSettings) -> dict[str, Any]:
        changed: dict[str, Any] = await super()._update_settings(delta)
        if changed and self._websocket:
            await self._configure()
        return changed

    async def _say(self, kind: str, context: str | None, **fields: Any) -> None:
        name = {} if context is None else {"context_id": context}
        if self._websocket:
            await self._websocket.send(json.dumps({"type": kind, **name, **fields}))

    # -- text to sound ---------------------------------------------------------------------

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        """Send text; the sound comes by the receive task."""
        if not self._websocket or self._websocket.state is not State.OPEN:
            await self._connect()
        self._texts.setdefault(context_id, MarkedText()).append(text)
        try:
            await self._say("input.text", context_id, text=text)
            if context_id != self._turn_context_id:  # no turn, whose end would be told
                await self._say("input.done", context_id)
            await self.start_tts_usage_metrics(text)
            yield None
        except ConnectionClosed as error:
            yield ErrorFrame(f"the server closed the connection: {error}")
            yield TTSStoppedFrame(context_id=context_id)

    async def flush_audio(self, context_id: str | None = None) -> None:
        """Tell the server that a turn's text is complete."""
        if context_id in self._texts:
            await self._say("input.done", context_id)

    async def _receive_messages(self) -> None:
        context = None
        async for message in self._websocket:
            if isinstance(message, bytes):
                await self._hear(message, context)
                continue
            fields = json.loads(message)
            kind, context = fields["type"], fields.get("context_id")
            if kind == "text.words":
                await self._tell(fields["words"], context)
            elif kind == "session.done":
                self._texts.pop(context, None)
                if self.audio_context_available(context):
                    stopped = TTSStoppedFrame(context_id=context)
                    await self.append_to_audio_context(context, stopped)
                    await self.remove_audio_context(context)
            elif kind == "audio.cancelled" and "last_word" in fields:
                last = fields["last_word"]
                word = None if last is None else last["word"]
                said = fields["spoken_text"]
                await self._call_event_handler("on_speech_interrupted", word, said)
            elif kind == "error":
                await self.push_error(fields["error"]["message"])

    async def _hear(self, sound: bytes, context: str | None) -> None:
        if context is not None and self.audio_context_available(context):
            self._received[context] = self._received.get(context, 0) + len(sound) // 2
            frame = TTSAudioRawFrame(sound, self.sample_rate, 1, context_id=context)
            await self.append_to_audio_context(context, frame)

    async def _tell(self, words: Iterable[dict[str, Any]], context: str | None) -> None:
        text = self._texts.get(context or "")
        if text is None:
            return
        for word in words:
            marked, is_spaced = text.word(word["start_character"], word["end_character"])
            times = [(marked, word["start"])]
            await self.add_word_timestamps(
                times, context, includes_inter_frame_spaces=None if is_spaced else True
            )

    # -- interruptions ---------------------------------------------------------------------

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Follow what the listener has heard, and tell the server at an interruption."""
        if isinstance(frame, BotStartedSpeakingFrame):
            self._speaks_since = time.monotonic()
        elif isinstance(frame, BotStoppedSpeakingFrame):
            self._stopped()
        playing, played = self._playing() if isinstance(frame, InterruptionFrame) else ("", 0)
        asked = [name for name in {*self._texts, playing} if name]
        await super().process_frame(frame, direction)
        if isinstance(frame, InterruptionFrame):
            for name in asked:
                if not self.audio_context_available(name):  # others may not be interrupted
                    samples = played if name == playing else 0
                    await self._say("input.cancel", name, played_samples=samples)
                    if self._texts.pop(name, None):
                        await self._say("input.done", name)
            self._received, self._played_before, self._speaks_since = {}, 0, 0.0

    def _stopped(self) -> None:
        """Note that all sound so far was played."""
        if self._speaks_since:
            self._played_before, self._speaks_since = sum(self._received.values()), 0.0
        if not self._texts:
            self._received, self._played_before = {}, 0

    def _playing(self) -> tuple[str, int]:
        """Return the context that is playing, and how many of its samples were played."""
        since = time.monotonic() - self._speaks_since if self._speaks_since else 0.0
        played = self._played_before + int(since * self.sample_rate)
        for context, samples in self._received.items():
            if played < samples or context == list(self._received)[-1]:
                return context, min(played, samples)
            played -= samples
        return "", 0


class MarkedText:
    """The text of a turn, from which its words get their marks back."""

    def __init__(self) -> None:
        self._text, self._told = "", 0

    def append(self, text: str) -> None:
        self._text += text

    def word(self, start: int, end: int) -> tuple[str, bool]:
        """Return a word with the marks beside it, and whether a space follows it."""
        text = self._text
        while start > self._told and _is_mark(text[start - 1]):
            start -= 1
        while end < len(text) and _is_mark(text[end]):
            end += 1
        self._told = end
        return text[start:end], end == len(text) or text[end].isspace()


def _is_mark(character: str) -> bool:
    return not (character.isspace() or character.isalnum())
