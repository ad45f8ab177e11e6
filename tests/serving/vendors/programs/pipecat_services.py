"""Pipecat's service of a vendor against a server; prints facts as JSON.

Arguments: the vendor, the URL of the server, the text.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from loguru import logger
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner

vendor, url, text = sys.argv[1:]
socket = url.replace("http", "ws", 1)
logger.remove()


def service() -> Any:
    if vendor == "elevenlabs":
        from pipecat.services.elevenlabs.tts import ElevenLabsTTSService

        settings = ElevenLabsTTSService.Settings(voice="alloy")
        return ElevenLabsTTSService(api_key="none", url=socket, settings=settings)
    if vendor == "deepgram":
        from pipecat.services.deepgram.tts import DeepgramTTSService

        settings = DeepgramTTSService.Settings(voice="alloy")
        return DeepgramTTSService(api_key="none", base_url=socket, settings=settings)
    from pipecat.services.cartesia.tts import CartesiaTTSService

    settings = CartesiaTTSService.Settings(voice="alloy")
    return CartesiaTTSService(api_key="none", url=f"{socket}/tts/websocket", settings=settings)


class Listener(FrameProcessor):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.words = 0, ""
        self.errors: list[str] = []
        self.stopped = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self.bytes += len(frame.audio)
        elif isinstance(frame, TTSTextFrame):
            self.words += f"{frame.text} "
        elif isinstance(frame, ErrorFrame):
            self.errors.append(frame.error)
        elif isinstance(frame, TTSStoppedFrame):
            self.stopped.set()
        await self.push_frame(frame, direction)


async def main() -> None:
    listener = Listener()
    parameters = PipelineParams(audio_out_sample_rate=24_000)
    worker = PipelineWorker(Pipeline([service(), listener]), params=parameters)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    frames = [LLMTextFrame(f"{word} ") for word in text.split(" ")]
    await worker.queue_frames([LLMFullResponseStartFrame(), *frames, LLMFullResponseEndFrame()])
    await asyncio.wait_for(listener.stopped.wait(), 60)
    await worker.queue_frames([EndFrame()])
    await running
    facts = {
        "seconds": listener.bytes / 48_000,
        "words": listener.words.strip(),
        "errors": listener.errors,
    }
    print(json.dumps(facts))


asyncio.run(main())
