"""The folder of the jobs: for each one its script, its record, its spoken lines and its result."""

from __future__ import annotations

import contextlib
import logging
import math
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...errors import ConfigError
from ...longform.line_store import LineStore, SpokenLine
from ...utils.cache_files import UNFINISHED, atomic_write
from ...utils.folder_lock import FolderLock
from ...utils.locks import new_lock
from ...utils.untrusted import read_bytes
from ..errors import StorageError, UnavailableError
from .job import ScriptJob, is_job_id
from .planning import ScriptSource

logger = logging.getLogger(__name__)

_UPTIME = "uptime"
_RECORD, _SOURCE, _LINES, _SOUND, _SUBTITLES = "job.json", "source", "lines", "sound", "subtitles"
_MOST_UPTIME = 100
_LINE_BYTES = 2048  # of a line's file, beside its samples and words
_MOST_RECORD = 64 << 20  # warnings and voices are bounded, the fields of a client by its body
# So much stays free on the disk, for the voices and logs of the server and for other programs.
_RESERVE = 256 << 20


class JobStore:
    """The folder of the jobs, and how much of the disk they take.

    A job exists from the moment at which its record appears under its name, until that is deleted.
    What a killed server leaves without a record is removed by the next one.

    Args:
        folder: created where it is missing.
        most: bytes that all jobs may take together.

    Raises:
        UnavailableError: another server uses the folder.
        ConfigError: it cannot be used.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self._most = folder, most
        self._used: dict[str, int] = {}
        self._counts, self._records = new_lock(), new_lock()
        self._uptime_before, self._opened = 0.0, time.monotonic()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = FolderLock(folder)
        except BlockingIOError as error:
            raise UnavailableError(
                "another server on this machine holds the scripts: use that one, or have the "
                "operator give this one its own folder (--scripts)"
            ) from error
        except OSError as error:
            raise ConfigError(
                f"scripts cannot be stored in {folder} ({error.strerror or error}): give this "
                "user write access to it, or choose another folder with --scripts"
            ) from error

    @property
    def uptime(self) -> float:
        """Seconds that servers had this folder open, all together; no clock makes it jump."""
        return self._uptime_before + time.monotonic() - self._opened

    def save_uptime(self) -> None:
        """Keep the uptime for the next server; raises OSError as :meth:`create`."""
        with atomic_write(self.folder / _UPTIME, durable=False) as file:
            file.write(repr(self.uptime).encode())

    def load(self) -> list[ScriptJob]:
        """Return all jobs, the oldest first; remove what is left of deleted ones."""
        with contextlib.suppress(OSError, ValueError):
            before = float(read_bytes(self.folder / _UPTIME, _MOST_UPTIME))
            self._uptime_before = before if 0 <= before < math.inf else 0.0
        jobs = []
        for path in self.folder.iterdir():
            if not is_job_id(path.name):
                continue
            if not (path / _RECORD).exists():
                shutil.rmtree(path, ignore_errors=True)
                continue
            try:
                job = ScriptJob.from_json(read_bytes(path / _RECORD, _MOST_RECORD).decode("utf-8"))
            except (OSError, ValueError) as error:
                logger.error("%s cannot be read, and is left alone: %s", path / _RECORD, error)
                continue
            for unfinished in path.rglob(f"{UNFINISHED}*"):  # of a server that was killed
                unfinished.unlink(missing_ok=True)
            jobs.append(job)
            self._used[job.id] = _size(path)
        # None is older than the folder, also where the uptime was lost.
        finished = (job.finished_uptime or 0.0 for job in jobs)
        self._uptime_before = max(self._uptime_before, *finished, 0.0)
        for job in jobs:
            if job.is_final and job.finished_uptime is None:
                job.finished_uptime = self.uptime
        return sorted(jobs, key=lambda job: (job.created, job.id))

    def create(self, job: ScriptJob, source: ScriptSource) -> None:
        """Keep a new job.

        Raises:
            OSError: the disk is full, or refuses otherwise; then nothing is kept.
        """
        folder = self._of(job)
        folder.mkdir(mode=0o700)
        try:
            with atomic_write(folder / _SOURCE) as file:
                file.write(source.data)
            self.save(job)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._add(job.id, _size(folder))

    def save(self, job: ScriptJob) -> None:
        """Keep the record of a job that is not deleted; raises OSError as :meth:`create`."""
        with self._records:
            if not job.is_deleted:
                with atomic_write(self._of(job) / _RECORD) as file:
                    file.write(job.to_json().encode("utf-8"))

    def source(self, job: ScriptJob, most: int) -> ScriptSource:
        """Return the script of a job; raises OSError if it cannot be read."""
        return ScriptSource(read_bytes(self._of(job) / _SOURCE, most), job.name)

    def forget(self, job: ScriptJob) -> None:
        """Delete the record, so that no server knows the job any more; files stay."""
        with self._records, contextlib.suppress(FileNotFoundError):
            (self._of(job) / _RECORD).unlink()

    def remove(self, job: ScriptJob) -> None:
        """Delete all files of a job that nothing uses any more."""
        self.forget(job)
        shutil.rmtree(self._of(job), ignore_errors=True)
        with self._counts:
            self._used.pop(job.id, None)

    def lines(self, job: ScriptJob) -> LineStore:
        """Return the spoken lines of a job."""
        return _CountedLines(self, job)

    def take_over(self, job: ScriptJob, failed: Sequence[ScriptJob], keys: Iterable[str]) -> int:
        """Move the lines to a job that failed jobs have spoken before, each under an equal key.

        A failed job never goes on, so nothing else needs its lines.

        Returns:
            How many there were.
        """
        lines, count = LineStore(self.folder_of_lines(job)), 0
        for key in dict.fromkeys(keys):
            for other in () if key in lines else failed:
                size = lines.take_over(self.folder_of_lines(other), key)
                if size:
                    self._add(job.id, size)
                    self._add(other.id, -size)
                    count += 1
                    break
        return count

    def remove_lines(self, job: ScriptJob) -> None:
        """Delete the spoken lines of a job that is done."""
        LineStore(self._of(job) / _LINES).remove()
        with self._counts:
            self._used[job.id] = _size(self._of(job))

    def sound(self, job: ScriptJob) -> Path:
        """Return the path of a job's sound file."""
        return self._of(job) / f"{_SOUND}.{job.response_format}"

    def subtitles(self, job: ScriptJob) -> Path | None:
        """Return the path of a job's subtitles; ``None`` if it has none."""
        return None if job.subtitles is None else self._of(job) / f"{_SUBTITLES}.{job.subtitles}"

    @property
    def used(self) -> int:
        """Bytes that all jobs take."""
        with self._counts:
            return sum(self._used.values())

    def used_by(self, job: ScriptJob) -> int:
        """Return the bytes that a job takes."""
        with self._counts:
            return self._used.get(job.id, 0)

    @property
    def free(self) -> int:
        """Bytes that jobs may still take, by the limit and by the disk."""
        on_disk = shutil.disk_usage(self.folder).free - _RESERVE
        return max(0, min(on_disk, self._most - self.used))

    def take(self, job: ScriptJob, size: int) -> None:
        """Count bytes that are about to be written.

        Raises:
            StorageError: there is no room for them.
        """
        if size > self.free:
            raise StorageError(
                "the server has no more room for scripts: delete those that you no longer need, "
                "and send this one again"
            )
        self._add(job.id, size)

    def close(self) -> None:
        """Let another server use the folder."""
        self._lock.release()

    def folder_of_lines(self, job: ScriptJob) -> Path:
        """Return the folder of a job's spoken lines."""
        return self._of(job) / _LINES

    def _of(self, job: ScriptJob) -> Path:
        return self.folder / job.id

    def _add(self, name: str, size: int) -> None:
        with self._counts:
            if size > 0 or name in self._used:  # not one that was just removed
                self._used[name] = self._used.get(name, 0) + size


class _CountedLines(LineStore):
    """Kept lines that count against the room of the store."""

    def __init__(self, store: JobStore, job: ScriptJob) -> None:
        super().__init__(store.folder_of_lines(job))
        self._store, self._job = store, job

    def save(self, key: str, spoken: SpokenLine) -> None:
        """Keep a line; raises StorageError where there is no room, else as its base does."""
        self._store.take(self._job, spoken.samples.nbytes + _LINE_BYTES)
        super().save(key, spoken)


def _size(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total
