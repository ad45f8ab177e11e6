"""A job spoken: its lines, its sound and its subtitles, in a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...audio.content_credentials import SIGNED_FORMATS, sign
from ...audio.samples import SAMPLE_RATE
from ...config.mark import day_made
from ...longform.line_speaker import LineSpeaker, LineVoice
from ...longform.planned import PlannedLine
from ...longform.recording import Recording, SpokenPiece
from ...longform.steady_voice import SteadyVoice
from ..errors import ServingError
from ..speech.service import SpeechService
from .checked_job import planner_of
from .job import ScriptJob
from .options import ScriptOptions
from .planning import VoiceFinder
from .service_voice import ServiceVoice
from .store import JobStore

logger = logging.getLogger(__name__)

# A job that was begun so often, and of which no line was kept since, ends the server each time.
_MOST_STARTS = 10


def speak_job(
    service: SpeechService,
    store: JobStore,
    job: ScriptJob,
    voice: ServiceVoice,
    failed: Sequence[ScriptJob],
    *,
    side_by_side: int,
) -> None:
    """Speak a job and write its files.

    Args:
        voice: speaks its lines.
        failed: earlier jobs of the same client, whose lines are taken over.
        side_by_side: lines at a time.

    Raises:
        InterruptedReadingError: the job's interrupt was set.
        ChatTTSError: it cannot be spoken.
    """
    limits = service.settings.limits
    kept = store.lines(job)
    count = len(kept)
    job.lines_done, job.seconds_done = 0, 0.0
    job.starts = 1 if count > job.kept else job.starts + 1
    job.kept = count
    if job.starts > _MOST_STARTS:
        raise ServingError(
            f"the server stopped {_MOST_STARTS} times while it was speaking this script, and "
            "no line was finished in between: it will not be tried again"
        )
    store.save(job)
    options = ScriptOptions.of(job.options)
    script = store.source(job, limits.script_bytes).read(options, limits)
    voices = VoiceFinder(service, options, job.voices)
    plan = planner_of(service, job, options, voices).plan(script)
    _take_over(store, job, plan, failed)
    lines: LineVoice = voice
    if options.steady is not None:
        lines = SteadyVoice(voice, options.steady == "retry", job.warn)
    speaker = LineSpeaker(lines, kept, side_by_side, job.interrupt)
    recording = Recording(script, plan, speaker, kept, options.reading(), warn=job.warn)

    def heard(piece: SpokenPiece) -> None:
        job.lines_done, job.seconds_done = piece.number + 1, piece.end / SAMPLE_RATE

    job.lines = len(plan)
    mark = service.settings.mark
    # A job that goes on tomorrow gives the file that it would have given today.
    mark = mark and mark.on(day_made(job.created))
    sound = recording.save(
        store.sound(job),
        options.loudness,
        subtitles=store.subtitles(job),
        heard=heard,
        mark=mark or False,
    )
    credentials = service.settings.credentials
    if credentials is not None and sound.suffix.removeprefix(".") in SIGNED_FORMATS:
        sign(sound, credentials, mark)
    chapters = [title for title in script.chapters if title]
    job.result = {
        "seconds": round(job.seconds_done, 3),
        "bytes": sound.stat().st_size,
        "chapters": len(chapters),
    }


def _take_over(
    store: JobStore, job: ScriptJob, plan: Sequence[PlannedLine], failed: Sequence[ScriptJob]
) -> None:
    """Take the lines that failed jobs have spoken before."""
    if failed:
        keys = [planned.key for planned in plan if planned.key is not None]
        count = store.take_over(job, failed, keys)
        logger.info("script=%s has %d lines of failed scripts", job.id, count)
