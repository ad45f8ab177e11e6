"""``POST /v1/audio/speech/batch``: many texts in one request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio
from fastapi import APIRouter, Request
from starlette.responses import Response

from ....config.request_fields import Priority
from ...encoding.base64_blocks import to_base64
from ...errors import RequestTooLargeError, as_serving_error
from ...http.disclosure import disclosure_headers
from ...http.responses import encode_file, speaking
from ...observe.request_logs import log_failure
from ...speech.service import SpeechService
from .answer_schemas import (
    ERRORS,
    NOT_FOUND,
    BatchAnswer,
    BatchError,
    BatchResult,
)
from .body_schemas import BatchBody, BatchItem, SpeechBody
from .long_bodies import long_body_route
from .request_parsing import Caller, output_options, speech_request
from .streaming import StreamedResponse, result_fields, timed_words

_NDJSON = "application/x-ndjson"
# A batch may be as long as this many of the longest texts: its audio is kept until it is sent.
_MAX_LONG_TEXTS = 4


def batch_routes(service: SpeechService) -> APIRouter:
    """Return the batch route."""
    router = APIRouter(tags=["speech"], route_class=long_body_route(service))

    @router.post(
        "/v1/audio/speech/batch",
        summary="Speak many texts",
        operation_id="createSpeechBatch",
        response_model=BatchAnswer,
        responses={
            200: {
                "description": "All items; with `stream` a line of JSON for each.",
                "content": {_NDJSON: {"schema": {"type": "string"}}},
            }
        }
        | ERRORS
        | NOT_FOUND,
    )
    async def create_batch(body: BatchBody, request: Request) -> Response:
        """Items are spoken in parallel, after interactive requests. An item that fails has an
        `error`; the other items are not affected."""
        _check(body, service)
        batch = _SpeechBatch(service, body, Caller.of(request), request.scope["state"])
        told = disclosure_headers(service.settings.mark)
        if body.stream:
            return StreamedResponse(_NDJSON, batch.lines(), told)
        async with aclosing(batch.results()) as results:
            done = [result async for result in results]
        done.sort(key=lambda result: result.index)
        answer = BatchAnswer(data=done)
        data = await service.in_thread(lambda: answer.model_dump_json().encode())
        return Response(data, headers=told, media_type="application/json")

    return router


def _check(body: BatchBody, service: SpeechService) -> None:
    """Raise ServingError if a batch is too long as a whole, or names an unknown language."""
    limits = service.settings.limits
    if len(body.items) > limits.batch_items:
        raise RequestTooLargeError(
            f"the batch has {len(body.items)} items; the limit is {limits.batch_items}",
            param="items",
        )
    for each in (body, *body.items):
        service.check_language(getattr(each, "language", None))
    characters = sum(len(item.input) for item in body.items)
    most = limits.characters * _MAX_LONG_TEXTS
    if characters > most:
        raise RequestTooLargeError(
            f"the texts of the batch have {characters} characters; the limit is {most}: send it "
            "in parts",
            param="items",
        )


class _SpeechBatch:
    """The items of one batch request, spoken in parallel."""

    def __init__(
        self, service: SpeechService, body: BatchBody, caller: Caller, state: dict[str, Any]
    ) -> None:
        self._service, self._body, self._caller, self._state = service, body, caller, state
        limits = service.settings.limits
        # A batch that was accepted before the server began to shut down is spoken to its end.
        self._continues = not service.admission.draining
        # At most as many items at a time as one client may have waiting: otherwise the batch would
        # use up its own limit.
        self._slots = asyncio.Semaphore(min(limits.running, limits.waiting_per_client))

    async def results(self) -> AsyncGenerator[BatchResult, None]:
        """Yield the result of each item when it is done; closing the generator ends the others."""
        send, receive = anyio.create_memory_object_stream[BatchResult](0)

        async def work(index: int, item: BatchItem) -> None:
            # The slot is held until the result is taken, so that results do not pile up.
            async with self._slots:
                await send.send(await self._result(index, item))

        with self._service.hold():
            async with send, receive, anyio.create_task_group() as group:
                for index, item in enumerate(self._body.items):
                    group.start_soon(work, index, item)
                try:
                    for _ in self._body.items:
                        yield await receive.receive()
                finally:
                    group.cancel_scope.cancel()

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield the results as lines of JSON."""
        async with aclosing(self.results()) as results:
            async for result in results:
                dumped = partial(result.model_dump_json, exclude_none=True)
                # In a thread, as it may have many megabytes.
                yield (await self._service.in_thread(dumped)).encode() + b"\n"

    async def _result(self, index: int, item: BatchItem) -> BatchResult:
        try:
            return await self._spoken(index, item)
        except Exception as error:  # the other items continue
            answer = as_serving_error(error)
            if answer.status == 500:
                what = f"item {index} of request {self._caller.request_id}"
                log_failure(what, answer, with_text=self._service.settings.log_texts)
            told = BatchError(**answer.as_json(), retry_after=answer.retry_after)
            return BatchResult(index=index, custom_id=item.custom_id, error=told)

    async def _spoken(self, index: int, item: BatchItem) -> BatchResult:
        service = self._service
        named = self._body.model_dump(exclude_unset=True, exclude={"items", "stream"})
        body = SpeechBody.model_validate(
            named | item.model_dump(exclude_unset=True, exclude={"custom_id"})
        )
        caller = Caller(self._caller.client, f"{self._caller.request_id}.{index}")
        changes = {
            "priority": Priority.BATCH,
            "continues": self._continues,
            "may_be_silent": False,  # an item has an error of its own
        }
        request = await speech_request(service, body, caller, is_whole=True, **changes)
        encoder = output_options(body).encoder(request.speed, service.settings.mark)
        async with speaking(service, request, self._state) as speech:
            whole = await encode_file(service, speech, encoder)
            words = timed_words(whole.words, request.speed) if request.word_times else None
            return BatchResult(
                index=index,
                custom_id=item.custom_id,
                audio=await service.in_thread(lambda: to_base64(whole.data)),
                format=body.response_format,
                sample_rate=encoder.sample_rate,
                seed=request.seed,
                voice=speech.voice_name or None,
                seconds=speech.record.seconds,
                finish_reason=speech.finish_reason,
                words=words,
                **result_fields(speech),
            )
