"""Speech for LiveKit Agents, over the server's own WebSocket. Copy this file into your program.

pip install livekit-agents

Text is spoken while the language model writes it. Words arrive with their times: with
``use_tts_aligned_transcript``, an interrupted reply enters the conversation as far as it was heard.

    tts = TTS(voice="alloy")
    session = AgentSession(tts=tts, use_tts_aligned_transcript=True, ...)

    @session.output.audio.on("playback_finished")
    def heard(event):
        if event.interrupted:
            print(tts.last_word(event.playback_position))

Tested with livekit-agents 1.8.9.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from livekit.agents import (
    APIConnectionError,
    APIConnectOptions,
    APIStatusError,
    APITimeoutError,
    tts,
    utils,
)
from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS, TimedString

URL = "ws://127.0.0.1:8000/v1/audio/speech/stream"
OVERLOADED = 503
BAD_REQUEST = 400
CLOSED = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED)


class TTS(tts.TTS):
    """Speaks each stream as a run of a socket, which the next stream uses again.

    Args:
        url: of the server's WebSocket.
        api_key: of the server, if it has keys; by default ``CHATTTS_API_KEY``.
        voice: a name of ``GET /v1/audio/voices``; by default the server's.
        sample_rate: of the sound, in Hz.
        word_times: ``False`` for a checkpoint without word times.
        http_session: opens the sockets; by default the job's.
        settings: further fields of ``session.config``, such as ``seed`` or ``low_latency``.
    """

    def __init__(
        self,
        *,
        url: str = URL,
        api_key: str | None = None,
        voice: str | None = None,
        sample_rate: int = 24_000,
        word_times: bool = True,
        http_session: aiohttp.ClientSession | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            capabilities=tts.TTSCapabilities(streaming=True, aligned_transcript=word_times),
            sample_rate=sample_rate,
            num_channels=1,
        )
        key = os.environ.get("CHATTTS_API_KEY") if api_key is None else api_key
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._url, self._session = url, http_session
        self._settings = {"voice": voice, "word_times": word_times, **settings}
        self._pool = utils.ConnectionPool[aiohttp.ClientWebSocketResponse](
            connect_cb=self._connect, close_cb=self._close, max_session_duration=240
        )
        self._words: list[TimedString] = []

    @property
    def model(self) -> str:
        return "chattts"

    @property
    def provider(self) -> str:
        return "ChatTTS"

    def update_options(self, **settings: Any) -> None:
        """Change fields of ``session.config`` for the streams that begin from now on."""
        self._settings.update(settings)

    def last_word(self, position: float) -> str | None:
        """Return the last word that was played to its end, of the stream that began last.

        Args:
            position: how many seconds of the stream were played: ``playback_position`` of LiveKit's
                event ``playback_finished``.
        """
        heard = [word for word in self._words if word.end_time <= position]
        return heard[-1].strip() if heard else None

    def prewarm(self) -> None:
        self._pool.prewarm()

    def synthesize(
        self, text: str, *, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS
    ) -> tts.ChunkedStream:
        return SpeechChunks(tts=self, input_text=text, conn_options=conn_options)

    def stream(
        self, *, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS
    ) -> SpeechStream:
        return SpeechStream(tts=self, conn_options=conn_options)

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def _connect(self, timeout: float) -> aiohttp.ClientWebSocketResponse:
        session = self._session or utils.http_context.http_session()
        return await asyncio.wait_for(
            session.ws_connect(self._url, headers=self._headers, max_msg_size=0), timeout
        )

    async def _close(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        await socket.close()


class SpeechStream(tts.SynthesizeStream):
    """Speaks one text while it comes.

    Closing it early closes its socket, which ends the server's work within a step of the engine.
    """

    def __init__(self, *, tts: TTS, conn_options: APIConnectOptions) -> None:
        super().__init__(tts=tts, conn_options=conn_options)
        self._speaker = tts

    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        async def texts() -> AsyncIterator[str]:
            async for data in self._input_ch:
                if isinstance(data, str):
                    self._mark_started()
                    yield data

        speech = Speech(output_emitter, self._speaker, is_stream=True)
        await speech.speak(texts(), self._conn_options.timeout)


class SpeechChunks(tts.ChunkedStream):
    """Speaks a whole text."""

    def __init__(self, *, tts: TTS, input_text: str, conn_options: APIConnectOptions) -> None:
        super().__init__(tts=tts, input_text=input_text, conn_options=conn_options)
        self._speaker = tts

    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        async def texts() -> AsyncIterator[str]:
            yield self._input_text

        speech = Speech(output_emitter, self._speaker, is_stream=False)
        await speech.speak(texts(), self._conn_options.timeout)


class Speech:
    """The speech of one text.

    Args:
        emitter: takes the sound and the words.
        speaker: has the sockets and the settings.
        is_stream: whether the emitter has segments.
    """

    def __init__(self, emitter: tts.AudioEmitter, speaker: TTS, is_stream: bool) -> None:
        self._emitter, self._speaker, self._is_stream = emitter, speaker, is_stream
        self._text, self._is_whole = "", False
        self._told = 0  # characters
        self._words: list[TimedString] = []
        emitter.initialize(
            request_id=utils.shortuuid(),
            sample_rate=speaker.sample_rate,
            num_channels=1,
            mime_type="audio/pcm",
            stream=is_stream,
        )

    async def speak(self, texts: AsyncIterator[str], patience: float) -> None:
        """Send the text and take its sound until all is spoken.

        Args:
            texts: the text, in parts.
            patience: how many seconds the server may be silent once it has the whole text.

        Raises:
            APIError: as LiveKit expects it, also for errors of the server.
        """
        speaker = self._speaker
        settings = {**speaker._settings, "sample_rate": speaker.sample_rate}
        try:
            async with speaker._pool.connection(timeout=patience) as socket:
                await socket.send_json({"type": "session.config", **settings})
                sending = asyncio.create_task(self._send(socket, texts))
                hearing = asyncio.create_task(self._hear(socket, patience))
                try:
                    await asyncio.gather(sending, hearing)
                finally:
                    await utils.aio.gracefully_cancel(sending, hearing)
        except asyncio.TimeoutError:
            raise APITimeoutError() from None
        except aiohttp.WSServerHandshakeError as error:
            raise APIStatusError(error.message, status_code=error.status) from None
        except (aiohttp.ClientError, ConnectionError) as error:
            raise APIConnectionError(f"no connection to {speaker._url}: {error}") from error

    async def _send(
        self, socket: aiohttp.ClientWebSocketResponse, texts: AsyncIterator[str]
    ) -> None:
        async for text in texts:
            self._text += text
            await socket.send_json({"type": "input.text", "text": text})
        self._is_whole = True
        await socket.send_json({"type": "input.flush"})

    async def _hear(self, socket: aiohttp.ClientWebSocketResponse, patience: float) -> None:
        is_spoken = False
        while not is_spoken:
            try:
                message = await socket.receive(timeout=patience)
            except asyncio.TimeoutError:
                if not self._is_whole:  # the text may take its time
                    continue
                raise
            if message.type is aiohttp.WSMsgType.BINARY:
                self._emitter.push(message.data)
            elif message.type in CLOSED:
                raise APIStatusError(
                    f"the server closed the connection: {message.extra or socket.close_code}",
                    status_code=socket.close_code or -1,
                )
            elif message.type is aiohttp.WSMsgType.TEXT:
                is_spoken = self._take(json.loads(message.data))

    def _take(self, fields: dict[str, Any]) -> bool:
        """Return whether all is spoken."""
        kind = fields["type"]
        if kind == "audio.start":
            self._speaker._words = self._words
            if self._is_stream:
                self._emitter.start_segment(segment_id=fields["request_id"])
        elif kind == "text.words":
            self._emitter.push_timed_transcript([self._timed(word) for word in fields["words"]])
        elif kind == "error":
            error = fields["error"]
            status = OVERLOADED if "retry_after" in error else BAD_REQUEST
            raise APIStatusError(error["message"], status_code=status, body=error)
        elif kind == "audio.done" and self._is_whole:
            if self._is_stream:
                self._emitter.end_input()
            else:
                self._emitter.flush()
            return True
        return False

    def _timed(self, word: dict[str, Any]) -> TimedString:
        """Return a word, with the spaces and marks before it and the marks after it."""
        end = word["end_character"]
        while end < len(self._text) and not (
            self._text[end].isspace() or self._text[end].isalnum()
        ):
            end += 1
        timed = TimedString(self._text[self._told : end], word["start"], word["end"])
        self._told = end
        self._words.append(timed)
        return timed
