"""The jobs of all clients: accepting, queueing, keeping and forgetting them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ...errors import ChatTTSError, ConfigError
from ...longform.line_speaker import InterruptedReadingError
from ...utils.folders import data_folder
from ..errors import (
    BadRequestError,
    OverloadedError,
    RequestTooLargeError,
    StorageError,
)
from ..observe.request_logs import log_failure
from ..speech.service import SpeechService
from .checked_job import checked_job
from .errors import UnfinishedScriptError, UnknownScriptError, script_error
from .job import DONE, FAILED, QUEUED, RUNNING, STATES, ScriptJob
from .planning import ScriptSource
from .service_voice import ServiceVoice
from .spoken_job import speak_job
from .store import JobStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SWEEP_SECONDS = 30.0
# Threads that read scripts, which takes seconds for long ones; and threads for the jobs' files.
_READERS, _KEEPERS = 2, 2
# Bytes of a second: spoken lines are float32 at 24 kHz.
_LINE_BYTES, _WAV_BYTES, _CODED_BYTES = 96_000, 48_000, 30_000


class ScriptJobs:
    """All jobs. Belongs to the asyncio loop of the service.

    The folder is opened by the first script, or at the start where the settings name it or a
    server before has left jobs in it.

    Args:
        service: speaks the lines; its settings have the folder and the limits.
    """

    def __init__(self, service: SpeechService) -> None:
        self._service, self._limits = service, service.settings.limits
        self._store: JobStore | None = None
        self._jobs: dict[str, ScriptJob] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._coming: Counter[str] = Counter()
        self._is_closed = False
        self._opening = asyncio.Lock()
        lines = min(self._limits.script_lines, max(1, self._limits.running // 2))
        self._side_by_side = lines
        self._slots = asyncio.Semaphore(lines)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="script_reading")
        self._keepers = ThreadPoolExecutor(_KEEPERS, thread_name_prefix="script_keeping")
        self._speakers = ThreadPoolExecutor(
            self._limits.scripts_running, thread_name_prefix="script_speaking"
        )
        self._sweeper: asyncio.Task[None] | None = None
        service.metrics.watch_scripts(self.counts)

    # -- the life of the server --------------------------------------------------------------

    async def start(self) -> None:
        """Go on with the jobs of the server before.

        Raises:
            ChatTTSError: the folder that the settings name cannot be used.
        """
        if self._service.settings.scripts is not None:
            await self._opened()
        else:
            try:
                if self._folder().is_dir():
                    await self._opened()
            except ChatTTSError as error:
                logger.warning("scripts are refused: %s", error)
        self._sweeper = asyncio.create_task(self._sweep(), name="scripts")

    async def close(self) -> None:
        """Stop all jobs, which the next server goes on with."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait({self._sweeper})
        for job in self._jobs.values():
            job.interrupt.set()
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()))
        for threads in (self._readers, self._keepers, self._speakers):
            await asyncio.to_thread(threads.shutdown)
        if self._store is not None:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._store.save_uptime)
            self._store.close()

    @property
    def is_closed(self) -> bool:
        """Return whether the server ends."""
        return self._is_closed

    # -- what clients ask --------------------------------------------------------------------

    async def accept(
        self, source: ScriptSource, fields: Mapping[str, Any], client: str
    ) -> ScriptJob:
        """Check a script, keep it and queue it.

        Args:
            source: as the client sent it.
            fields: see :meth:`~.options.ScriptOptions.of`; kept as they are.

        Raises:
            ServingError: a line or an option cannot be used, or a limit is reached; nothing is
                kept then.
        """
        if self._is_closed or self._service.ends:
            raise OverloadedError(
                "the server accepts no more scripts: use another one", draining=True
            )
        self._check_counts(client)
        self._coming[client] += 1
        try:
            store = await self._opened_for_client()
            checked = partial(checked_job, self._service, source, fields, client)
            job = await asyncio.get_running_loop().run_in_executor(self._readers, checked)
            self._check_room(store, job, len(source.data))
            # Shielded: a job that is kept must be known, also if its client has gone.
            await asyncio.shield(self._keep(store, job, source))
        finally:
            self._coming[client] -= 1
            if not self._coming[client]:
                del self._coming[client]
        return job

    def counts(self) -> dict[str, int]:
        """Return the number of jobs in each state; any thread may call it."""
        found = Counter(job.state for job in list(self._jobs.values()))
        return {state: found[state] for state in STATES}

    def of(self, client: str) -> list[ScriptJob]:
        """Return the jobs of a client, the oldest first."""
        return [job for job in self._jobs.values() if job.client == client]

    def get(self, name: str, client: str) -> ScriptJob:
        """Return a job.

        Raises:
            UnknownScriptError: there is none, or it belongs to another client.
        """
        job = self._jobs.get(name)
        if job is None or job.client != client:
            raise UnknownScriptError(name)
        return job

    async def delete(self, name: str, client: str) -> None:
        """Cancel a job that is not final, and forget it; raises as :meth:`get`."""
        job = self.get(name, client)
        await asyncio.shield(self._delete(job))

    def sound(self, job: ScriptJob) -> Path:
        """Return the sound file of a job.

        Raises:
            UnfinishedScriptError: there is none yet, or there will be none.
        """
        return self._result(job).sound(job)

    def subtitles(self, job: ScriptJob) -> Path:
        """Return the subtitles of a job.

        Raises:
            UnfinishedScriptError: as :meth:`sound`.
            BadRequestError: they were not asked for.
        """
        if job.subtitles is None:
            raise BadRequestError(
                "this script has no subtitles: send it again with `subtitles` set to a format",
                param="subtitles",
            )
        path = self._result(job).subtitles(job)
        assert path is not None
        return path

    # -- accepting ---------------------------------------------------------------------------

    def _check_counts(self, client: str) -> None:
        limits = self._limits
        own = len(self.of(client)) + self._coming[client]
        if own >= limits.scripts_per_client:
            raise OverloadedError(
                f"you already have {own} scripts, which is the limit: delete one that has finished",
                own_limit=True,
            )
        if len(self._jobs) + self._coming.total() >= limits.scripts:
            raise OverloadedError(
                f"the server already has {limits.scripts} scripts, which is the limit: try again "
                "later"
            )

    def _check_room(self, store: JobStore, job: ScriptJob, size: int) -> None:
        """Refuse a script whose speech would probably not fit beside what was accepted before."""
        needs = size + _bytes(job)
        if needs > self._limits.script_disk_bytes:
            raise RequestTooLargeError(
                f"the audio of this script needs about {needs >> 20} MB; the limit is "
                f"{self._limits.script_disk_bytes >> 20} MB: send it in parts",
                param="script",
            )
        promised = sum(
            max(0, _bytes(other) - store.used_by(other))
            for other in self._jobs.values()
            if not other.is_final
        )
        if needs + promised > store.free:
            raise OverloadedError(
                "the audio of scripts has used up this server's space for them: delete your "
                "finished ones, or try again later"
            )

    async def _keep(self, store: JobStore, job: ScriptJob, source: ScriptSource) -> None:
        try:
            await self._in_thread(partial(store.create, job, source))
        except OSError as error:
            logger.error("a script cannot be stored in %s: %s", store.folder, error)
            raise script_error(error) from error
        self._jobs[job.id] = job
        self._fill()

    def _folder(self) -> Path:
        """Return the folder of the settings, or the default one."""
        return self._service.settings.scripts or data_folder() / "scripts"

    async def _opened_for_client(self) -> JobStore:
        """Open the folder; an error does not name it."""
        try:
            return await self._opened()
        except ConfigError as error:
            logger.error("%s", error)
            raise StorageError(
                "scripts cannot be stored here: ask the server's operator"
            ) from error

    async def _opened(self) -> JobStore:
        """Open the folder, and go on with its jobs."""
        async with self._opening:
            if self._store is None:
                most = self._limits.script_disk_bytes
                store = await self._in_thread(lambda: JobStore(self._folder(), most))
                for job in await self._in_thread(store.load):
                    self._jobs[job.id] = job
                self._store = store
                self._fill()
            return self._store

    # -- speaking ----------------------------------------------------------------------------

    def _fill(self) -> None:
        """Begin waiting jobs while there are free slots; clients take turns."""
        while not (self._is_closed or self._service.ends):
            running = Counter(job.client for job in self._jobs.values() if job.state == RUNNING)
            waiting = [job for job in self._jobs.values() if job.state == QUEUED]
            if not waiting or running.total() >= self._limits.scripts_running:
                return
            job = min(waiting, key=lambda job: running[job.client])  # the oldest of equal ones
            job.state = RUNNING
            self._tasks[job.id] = asyncio.create_task(self._run(job), name=job.id)

    async def _run(self, job: ScriptJob) -> None:
        loop, store = asyncio.get_running_loop(), self._store
        assert store is not None
        voice = ServiceVoice(self._service, loop, self._slots, job.warn)
        failed = [
            other
            for other in self._jobs.values()
            if other.state == FAILED and other.client == job.client
        ]
        work = partial(
            speak_job, self._service, store, job, voice, failed, side_by_side=self._side_by_side
        )
        try:
            await loop.run_in_executor(self._speakers, work)
        except InterruptedReadingError:
            job.state = QUEUED  # the next server goes on with it, unless it is deleted
            if self._is_closed:  # it was not the script that ended this server
                job.starts -= 1
        except Exception as error:  # the client gets an answer to any error
            answer = script_error(error)
            if answer.status >= 500:
                with_text = self._service.settings.log_texts
                log_failure(f"script {job.id}", answer, with_text=with_text)
            job.error = answer.as_json()
            job.finish(FAILED, store.uptime)
        else:
            job.finish(DONE, store.uptime)
        try:
            if not job.is_deleted:
                await self._settle(store, job)
        finally:
            del self._tasks[job.id]
            if job.is_deleted:  # perhaps just now
                await self._in_thread(partial(store.remove, job))
        self._fill()

    async def _settle(self, store: JobStore, job: ScriptJob) -> None:
        """Keep what became of a job that runs no more."""
        logger.info("script=%s client=%s state=%s lines=%d seconds=%.1f",
                    job.id, job.client, job.state, job.lines_done, job.seconds_done)  # fmt: skip
        if job.is_final or self._is_closed:
            with contextlib.suppress(OSError):  # then the next server makes the same result
                await self._in_thread(partial(store.save, job))
                if job.state == DONE:
                    await self._in_thread(partial(store.remove_lines, job))

    # -- forgetting --------------------------------------------------------------------------

    async def _delete(self, job: ScriptJob) -> None:
        store = self._store
        assert store is not None
        job.is_deleted = True
        job.interrupt.set()
        self._jobs.pop(job.id, None)
        # A server that is killed now must not go on with it.
        await self._in_thread(partial(store.forget, job))
        if job.id not in self._tasks:
            await self._in_thread(partial(store.remove, job))

    async def _sweep(self) -> None:
        """Delete results that are too old, again and again.

        Their age is the time that servers ran since: the clock of a machine may have jumped.
        """
        age = self._limits.script_age_seconds
        while True:
            store = self._store
            if store is not None:
                with contextlib.suppress(OSError):  # the age counts on from the last one
                    await self._in_thread(store.save_uptime)
            uptime = 0.0 if store is None else store.uptime
            for job in list(self._jobs.values()):
                finished = job.finished_uptime
                if job.is_final and finished is not None and uptime - finished > age:
                    logger.info("script=%s is deleted, as it is older than %g s", job.id, age)
                    try:
                        await self._delete(job)
                    except OSError as error:  # the other jobs are looked at nevertheless
                        logger.error("the files of script=%s stay: %s", job.id, error)
            await asyncio.sleep(min(_SWEEP_SECONDS, age))

    def _result(self, job: ScriptJob) -> JobStore:
        """Return the store of a job that is done; raise UnfinishedScriptError for others."""
        if job.state == FAILED:
            assert job.error is not None
            raise UnfinishedScriptError(f"this script failed: {job.error['message']}")
        if job.state != DONE:
            raise UnfinishedScriptError(
                "this script is not finished yet: try again later", retry_after=1
            )
        assert self._store is not None
        return self._store

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._keepers, work)


def _bytes(job: ScriptJob) -> int:
    """Return about how many bytes a job takes while its file is written."""
    is_wide = job.response_format in ("wav", "flac")
    each = _LINE_BYTES + (_WAV_BYTES if is_wide else _CODED_BYTES)
    return int(job.estimate * each)
