"""Checks of a script before it becomes a job: all that can be known without speaking it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from ...errors import ChatTTSError
from ...longform.subprocess_reader import estimated_seconds
from ..errors import BadRequestError, RequestTooLargeError
from ..speech.service import SpeechService
from .errors import script_error
from .job import ScriptJob, new_job_id
from .options import ScriptOptions
from .planning import ScriptPlanner, ScriptSource, VoiceFinder


def checked_job(
    service: SpeechService, source: ScriptSource, fields: Mapping[str, Any], client: str
) -> ScriptJob:
    """Return a new job after all checks, which take seconds for a long script.

    Args:
        fields: see :meth:`ScriptOptions.of`; kept as they are.

    Raises:
        ServingError: a line or an option cannot be used, or is too long.
    """
    limits = service.settings.limits
    try:
        size = len(json.dumps(fields, ensure_ascii=False).encode("utf-8"))
    except UnicodeEncodeError as error:
        raise BadRequestError("an option contains an unpaired surrogate") from error
    if size > limits.message_bytes:
        raise RequestTooLargeError(
            f"the options have {size} bytes; the limit is {limits.message_bytes}"
        )
    options = ScriptOptions.of(fields)
    service.check_language(options.language)
    try:
        script = source.read(options, limits)
        voices = VoiceFinder(service, options)
        job = ScriptJob(
            new_job_id(),
            client,
            time.time(),
            source.name,
            dict(fields),
            voices.found,
            len(script.lines),
            estimated_seconds(script),
        )
        for warning in script.warnings:
            job.warn(warning)
        planner_of(service, job, options, voices).plan(script)
    except ChatTTSError as error:
        raise script_error(error) from error
    return job


def planner_of(
    service: SpeechService, job: ScriptJob, options: ScriptOptions, voices: VoiceFinder
) -> ScriptPlanner:
    """Return what plans the lines of a job, when it is checked and when it is spoken."""
    return ScriptPlanner(
        service,
        options,
        voices,
        fingerprint=service.model.fingerprint(),
        client=job.client,
        name=job.id,
        warn=job.warn,
    )
