"""``/v1/audio/scripts``: books, dialogues and subtitles as jobs."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import FormData, UploadFile
from starlette.responses import JSONResponse, Response

from ....longform.subprocess_reader import most_lines
from ...errors import BadRequestError, OverloadedError, RequestTooLargeError
from ...http.bodies import from_json, json_object
from ...http.disclosure import disclosure_headers
from ...http.middleware import FORM
from ...requests.words import DIGITS
from ...scripts import ScriptJobs
from ...scripts.errors import UnknownScriptError
from ...scripts.job import ScriptJob
from ...scripts.planning import ScriptSource
from ...settings import Limits
from ...speech.service import SpeechService
from .answer_schemas import ERRORS, NOT_FOUND, ErrorBody
from .errors import validated
from .file_answer import FileAnswer
from .request_parsing import Caller
from .script_schemas import (
    DeletedScript,
    ScriptBody,
    ScriptForm,
    ScriptInfo,
    ScriptList,
    ScriptOptionsBody,
)
from .streaming import StreamedResponse, as_event

SCRIPTS = "/v1/audio/scripts"
"""The address of the scripts."""
_NAME = "script"
_MOST_NAME = 80
_UNPRINTABLE = re.compile(r"[^\w .()\[\]-]")
# Fields of a form whose values are objects, in JSON.
_OBJECTS = ("pauses", "voices", "lexicon")
_MOST_FIELDS = 64
_EVENT_SECONDS = 0.5
_SILENCE_SECONDS = 15.0  # after which a comment shows that the stream lives
_SOUND_TYPES = {
    "m4b": "audio/mp4",
    "m4a": "audio/mp4",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "opus": "audio/ogg",
    "wav": "audio/wav",
}
_SUBTITLE_TYPES = {
    "srt": "application/x-subrip",
    "vtt": "text/vtt",
    "ass": "text/x-ssa",
    "lrc": "text/plain",
    "json": "application/json",
}
_FILE = {"schema": {"type": "string", "format": "binary"}}
_UNFINISHED: dict[int | str, dict[str, Any]] = {
    409: {"model": ErrorBody, "description": "It is not done, or failed."}
}


def script_routes(service: SpeechService, jobs: ScriptJobs) -> APIRouter:
    """Return the routes of scripts."""
    router = APIRouter(tags=["scripts"])
    watchers: Counter[str] = Counter()
    limits = service.settings.limits

    def info_of(job: ScriptJob) -> ScriptInfo:
        return script_info(job, limits.script_age_seconds)

    def file_of(
        job: ScriptJob,
        path: Path,
        media_types: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
    ) -> FileAnswer:
        ending = path.suffix.removeprefix(".")
        name = f"{job.id}.{ending}"
        missing = partial(UnknownScriptError, job.id)
        return FileAnswer(path, media_types[ending], name, missing, headers)

    @router.post(
        SCRIPTS,
        summary="Speak a script",
        operation_id="createScript",
        status_code=202,
        response_model=ScriptInfo,
        responses=ERRORS | {507: {"model": ErrorBody, "description": "There is no room for it."}},
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {"schema": _schema(ScriptBody)},
                    FORM: {"schema": _schema(ScriptForm)},
                },
            }
        },
    )
    async def create_script(request: Request) -> JSONResponse:
        """The script is read and its voices are looked up before the answer, which is an error
        with file and line if it cannot be spoken. It is spoken behind all other requests, also by
        the next server if this one is stopped."""
        source, options = await _posted(service, request)
        fields = options.model_dump(exclude_none=True, exclude={"script", "name", "file"})
        job = await jobs.accept(source, fields, Caller.of(request).client)
        headers = {"Location": f"{SCRIPTS}/{job.id}"}
        return JSONResponse(info_of(job).model_dump(), 202, headers)

    @router.get(
        SCRIPTS,
        summary="List your scripts",
        operation_id="listScripts",
        response_model=ScriptList,
        responses=ERRORS,
    )
    async def list_scripts(request: Request) -> ScriptList:
        return ScriptList(data=[info_of(job) for job in jobs.of(Caller.of(request).client)])

    @router.get(
        SCRIPTS + "/{id}",
        summary="How far a script is",
        operation_id="retrieveScript",
        response_model=ScriptInfo,
        responses=ERRORS | NOT_FOUND,
    )
    async def one_script(id: str, request: Request) -> ScriptInfo:
        return info_of(jobs.get(id, Caller.of(request).client))

    @router.delete(
        SCRIPTS + "/{id}",
        summary="Cancel or forget a script",
        operation_id="deleteScript",
        response_model=DeletedScript,
        responses=ERRORS | NOT_FOUND,
    )
    async def delete_script(id: str, request: Request) -> DeletedScript:
        await jobs.delete(id, Caller.of(request).client)
        return DeletedScript(id=id)

    @router.get(
        SCRIPTS + "/{id}/audio",
        summary="The sound file of a script",
        operation_id="retrieveScriptAudio",
        response_class=Response,
        responses=_files("The whole file, or the range of bytes that was asked for.", _SOUND_TYPES),
    )
    async def script_audio(id: str, request: Request) -> Response:
        job = jobs.get(id, Caller.of(request).client)
        told = disclosure_headers(service.settings.mark)
        return file_of(job, jobs.sound(job), _SOUND_TYPES, told)

    @router.get(
        SCRIPTS + "/{id}/subtitles",
        summary="The subtitles of a script",
        operation_id="retrieveScriptSubtitles",
        response_class=Response,
        responses=_files("In the format that was asked for with the script.", _SUBTITLE_TYPES),
    )
    async def script_subtitles(id: str, request: Request) -> Response:
        job = jobs.get(id, Caller.of(request).client)
        return file_of(job, jobs.subtitles(job), _SUBTITLE_TYPES)

    @router.get(
        SCRIPTS + "/{id}/events",
        summary="The progress of a script, as it comes",
        operation_id="watchScript",
        response_class=Response,
        responses={
            200: {
                "description": "Server-sent events until the script is done, failed or deleted, or "
                "suspended as the server ends. The data of each are JSON with `type` and `script`.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            }
        }
        | ERRORS
        | NOT_FOUND,
    )
    async def script_events(id: str, request: Request) -> Response:
        client = Caller.of(request).client
        job = jobs.get(id, client)
        if watchers[client] >= limits.script_watchers:
            raise OverloadedError(
                f"you already have {limits.script_watchers} progress streams open, which is the "
                "limit: close one of them",
                own_limit=True,
            )
        return StreamedResponse(
            "text/event-stream", _changes(jobs, job, watchers, limits.script_age_seconds)
        )

    return router


def _files(about: str, media_types: Mapping[str, str]) -> dict[int | str, dict[str, Any]]:
    """Return how OpenAPI describes the answers of a route that gives a file."""
    content = dict.fromkeys(sorted(set(media_types.values())), _FILE)
    return {200: {"description": about, "content": content}} | ERRORS | NOT_FOUND | _UNFINISHED


def script_info(job: ScriptJob, age: float) -> ScriptInfo:
    """Return a job as the schema shows it; ``age`` is the limit of results in seconds."""
    finished = None if job.finished is None else int(job.finished)
    return ScriptInfo.model_validate(
        {
            "id": job.id,
            "state": job.state,
            "created_at": int(job.created),
            "finished_at": finished,
            "expires_at": None if finished is None else int(finished + age),
            "name": job.name,
            "response_format": job.response_format,
            "subtitles": job.subtitles,
            "progress": {
                "lines": job.lines_done,
                "lines_total": job.lines,
                "seconds": round(job.seconds_done, DIGITS),
            },
            "warnings": list(job.warnings),
            "error": job.error,
            "result": job.result,
        }
    )


async def _changes(
    jobs: ScriptJobs, job: ScriptJob, watchers: Counter[str], age: float
) -> AsyncGenerator[bytes, None]:
    """Yield a server-sent event for each change of a job."""
    watchers[job.client] += 1
    last, silent = "", 0.0
    try:
        while True:
            # All three are looked at before the information is taken, so that the last one is sent.
            is_last = job.is_final or job.is_deleted
            ends = jobs.is_closed
            told = script_info(job, age).model_dump()
            kind = "suspended" if ends else "progress"
            kind = "deleted" if job.is_deleted else job.state if job.is_final else kind
            event = json.dumps({"type": f"script.{kind}", "script": told})
            if event != last:
                yield as_event(event)
                last, silent = event, 0.0
            if is_last or ends:
                return
            await asyncio.sleep(_EVENT_SECONDS)
            silent += _EVENT_SECONDS
            if silent >= _SILENCE_SECONDS:
                silent = 0.0
                yield b": \n\n"
    finally:
        watchers[job.client] -= 1
        if not watchers[job.client]:
            del watchers[job.client]


# -- bodies ------------------------------------------------------------------------------------


async def _posted(
    service: SpeechService, request: Request
) -> tuple[ScriptSource, ScriptOptionsBody]:
    """Return the script and the options of a request.

    Raises:
        BadRequestError: the body cannot be read, or a field is invalid.
        RequestTooLargeError: the script is too long.
    """
    if request.headers.get("content-type", "").lower().startswith(FORM):
        async with request.form(max_files=1, max_fields=_MOST_FIELDS) as form:
            source, fields = await _from_form(form)
        options = validated(fields, ScriptOptionsBody)
    else:
        body = await request.body()
        given = await service.in_parsing_thread(lambda: json_object(body))
        _check_count(given.get("script"), service.settings.limits)
        posted = await service.in_thread(lambda: validated(given, ScriptBody))
        source = await service.in_thread(lambda: _source(posted))
        options = posted
    most = service.settings.limits.script_bytes
    if len(source.data) > most:
        raise RequestTooLargeError(
            f"the script has {len(source.data)} bytes; the limit is {most}", param="script"
        )
    return source, options


def _check_count(script: object, limits: Limits) -> None:
    """Raise RequestTooLargeError for more lines than a reader takes; to check each takes long."""
    most = most_lines(limits.script_characters)
    if isinstance(script, list) and len(script) > most:
        raise RequestTooLargeError(
            f"the script has {len(script)} lines; the limit is {most}", param="script"
        )


def _source(posted: ScriptBody) -> ScriptSource:
    name = _clean(posted.name)
    if isinstance(posted.script, str):
        text = posted.script
    else:
        if posted.format not in (None, "lines"):
            raise BadRequestError(
                "a script sent as objects needs the format `lines`", param="format"
            )
        posted.format = "lines"
        text = "\n".join(json.dumps(line) for line in posted.script)
    try:
        return ScriptSource(text.encode("utf-8"), name)
    except UnicodeEncodeError as error:
        raise BadRequestError(
            "the script contains an unpaired surrogate", param="script"
        ) from error


async def _from_form(form: FormData) -> tuple[ScriptSource, dict[str, Any]]:
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise BadRequestError("send the script as the file `file`", param="file")
    source = ScriptSource(await file.read(), _clean(file.filename))
    fields: dict[str, Any] = {}
    for name, value in form.multi_items():
        if not isinstance(value, str):
            continue
        if name in _OBJECTS or (name == "loudness" and value[:1] in "-0123456789"):
            fields[name] = from_json(value, name, param=name)
        else:
            fields[name] = value
    return source, fields


def _clean(name: str | None) -> str:
    """Return a file's name as messages show it; it is never used as a path."""
    last = re.split(r"[/\\]", name or "")[-1]
    return _UNPRINTABLE.sub("_", last)[-_MOST_NAME:].strip() or _NAME


def _schema(kind: type[ScriptOptionsBody]) -> dict[str, Any]:
    """Return the schema of a body, with all that it refers to inside of it."""
    schema = kind.model_json_schema()
    definitions = schema.pop("$defs", {})

    def inlined(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return inlined(definitions[value["$ref"].rpartition("/")[2]])
            return {key: inlined(each) for key, each in value.items()}
        return [inlined(each) for each in value] if isinstance(value, list) else value

    result = inlined(schema)
    assert isinstance(result, dict)
    return result
