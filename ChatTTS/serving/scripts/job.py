"""A job: a script of a client, how far it is, and what became of it."""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ...utils.untrusted import parse_json
from .planning import VoiceParameters

_VERSION = 1
_ID = re.compile(r"script-[0-9a-f]{24}")
_MOST_WARNINGS = 100
QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"
STATES = (QUEUED, RUNNING, DONE, FAILED)
"""States of a job. Only ``done`` and ``failed`` are final."""


def new_job_id() -> str:
    """Return an id that cannot be guessed; it is also the name of the job's folder."""
    return f"script-{secrets.token_hex(12)}"


def is_job_id(name: str) -> bool:
    """Return whether :func:`new_job_id` could have returned ``name``."""
    return _ID.fullmatch(name) is not None


@dataclass
class ScriptJob:
    """A job. The fields of its record are kept in its folder.

    Attributes:
        id: see :func:`new_job_id`.
        client: the client that it belongs to.
        created: in seconds since 1970.
        name: of the script's file, for messages only.
        options: the client's fields, as ``ScriptOptions.of`` takes them.
        voices: the voices of the script, as they were when it was accepted.
        lines: how many there are.
        estimate: seconds that the work will last, rather too many.
        state: one of ``STATES``; a job that is kept while it runs is ``queued``.
        finished: when it became final, in seconds since 1970.
        finished_uptime: likewise, by :attr:`.store.JobStore.uptime`; ``None`` in a record of an
            earlier version.
        warnings: each once, and not too many.
        error: as clients get it.
        result: of a job that is done: ``seconds``, ``bytes``, ``chapters``.
        starts: how many times it was begun since a line was kept.
        kept: lines that were kept at the last start.
        lines_done, seconds_done: what was heard since the job was begun last.
        interrupt: ends its reading.
        is_deleted: whether the client does not want it any more.
    """

    id: str
    client: str
    created: float
    name: str
    options: Mapping[str, Any]
    voices: Mapping[str, VoiceParameters]
    lines: int
    estimate: float
    state: str = QUEUED
    finished: float | None = None
    finished_uptime: float | None = None
    warnings: list[str] = field(default_factory=list)
    error: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    starts: int = 0
    kept: int = 0
    lines_done: int = 0
    seconds_done: float = 0.0
    interrupt: threading.Event = field(
        default_factory=threading.Event, metadata={"is_kept": False}, repr=False
    )
    is_deleted: bool = field(default=False, metadata={"is_kept": False})

    @property
    def is_final(self) -> bool:
        """Return whether nothing more will become of it."""
        return self.state in (DONE, FAILED)

    @property
    def response_format(self) -> str:
        """The ending of its sound file."""
        return str(self.options.get("response_format") or "mp3")

    @property
    def subtitles(self) -> str | None:
        """The ending of its subtitles, if they were asked for."""
        return self.options.get("subtitles")

    def warn(self, message: str) -> None:
        """Add a warning; any thread may call it."""
        if message in self.warnings or len(self.warnings) > _MOST_WARNINGS:
            return
        if len(self.warnings) == _MOST_WARNINGS:
            message = "there are more warnings, which are left out"
        self.warnings.append(message)

    def finish(self, state: str, uptime: float) -> None:
        """Make it final."""
        self.state, self.finished, self.finished_uptime = state, time.time(), uptime

    def to_json(self) -> str:
        """Return its record, without what changes while it runs."""
        kept = {f.name: getattr(self, f.name) for f in _kept_fields()}
        if not self.is_final:
            kept["state"] = QUEUED
        return json.dumps({"version": _VERSION, **kept}) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ScriptJob:
        """Return the job of a record.

        Raises:
            ValueError: it is no record of this version.
        """
        values = parse_json(text)
        names = {f.name for f in _kept_fields()}
        if not isinstance(values, dict) or values.pop("version", None) != _VERSION:
            raise ValueError("it is not a job of this version")
        values.setdefault("finished_uptime", None)
        if set(values) != names or not is_job_id(values["id"]):
            raise ValueError("it is damaged")
        return cls(**values)


def _kept_fields() -> list[Any]:
    return [f for f in fields(ScriptJob) if f.metadata.get("is_kept", True)]
