"""Our service for Pipecat, as in ``examples/agents``, against a server; prints facts as JSON.

One reply is heard to its end. Another is interrupted while it plays, at the speed of a listener.
Arguments: the URL of the server, the text, and how many seconds of the other are heard.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from loguru import logger
from pipecat.frames.frames import (
    BotStoppedSpeakingFrame,
    EndFrame,
    ErrorFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    OutputAudioRawFrame,
    TTSAudioRawFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.workers.runner import WorkerRunner

sys.path.append(str(Path(__file__).parents[4] / "examples" / "agents"))
from pipecat_tts import ChatTTSService

url, text, seconds = sys.argv[1:]
socket = f"{url.replace('http', 'ws', 1)}/v1/audio/speech/stream"
logger.remove()


class Loudspeaker(BaseOutputTransport):  # type: ignore[misc]
    """Plays in real time."""

    def __init__(self) -> None:
        super().__init__(TransportParams(audio_out_enabled=True, audio_out_sample_rate=24_000))
        self.played, self.mark = 0, asyncio.Event()
        self.due = 0

    async def start(self, frame: Any) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        await asyncio.sleep(frame.num_frames / frame.sample_rate)
        self.played += frame.num_frames
        if self.due and self.played >= self.due:
            self.mark.set()
        return True


class Listener(FrameProcessor):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.words: list[tuple[str, int]] = []
        self.errors: list[str] = []
        self.quiet = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self.bytes += len(frame.audio)
        elif isinstance(frame, TTSTextFrame):
            self.words.append((frame.text, frame.pts or 0))
        elif isinstance(frame, ErrorFrame):
            self.errors.append(frame.error)
        elif isinstance(frame, BotStoppedSpeakingFrame):
            self.quiet.set()
        await self.push_frame(frame, direction)


def said(context: LLMContext) -> list[str]:
    return [str(message["content"]) for message in context.get_messages()]


async def main() -> None:
    settings = ChatTTSService.Settings(voice="alloy", extra={"seed": 7})
    service, listener, loudspeaker = (
        ChatTTSService(url=socket, api_key="none", settings=settings),
        Listener(),
        Loudspeaker(),
    )
    interruptions: list[tuple[str | None, str]] = []

    @service.event_handler("on_speech_interrupted")  # type: ignore[untyped-decorator]
    async def heard(_: Any, word: str | None, spoken: str) -> None:
        interruptions.append((word, spoken))
        listener.quiet.set()

    context = LLMContext()
    pair = LLMContextAggregatorPair(context)
    stages = [service, loudspeaker, listener, pair.assistant()]
    parameters = PipelineParams(audio_out_sample_rate=24_000)
    worker = PipelineWorker(Pipeline(stages), params=parameters)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    frames = [LLMTextFrame(f"{word} ") for word in text.split(" ")]
    reply = [LLMFullResponseStartFrame(), *frames, LLMFullResponseEndFrame()]

    await worker.queue_frames(reply)
    await asyncio.wait_for(listener.quiet.wait(), 60)
    await asyncio.sleep(0.5)
    whole, words = listener.bytes, listener.words
    first = said(context)

    listener.quiet.clear()
    loudspeaker.due = loudspeaker.played + int(float(seconds) * 24_000)
    await worker.queue_frames(reply)
    await asyncio.wait_for(loudspeaker.mark.wait(), 60)
    await worker.queue_frames([InterruptionFrame()])
    await asyncio.wait_for(listener.quiet.wait(), 60)
    await asyncio.sleep(0.5)
    await worker.queue_frames([EndFrame()])
    await running
    facts = {
        "seconds": whole / 48_000,
        "words": words,
        "first": first,
        "second": said(context)[len(first) :],
        "interruptions": interruptions,
        "errors": listener.errors,
    }
    print(json.dumps(facts))


asyncio.run(main())
