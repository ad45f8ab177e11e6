"""Speak a book undisturbed and killed, compare the files, and measure them."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ChatTTS.longform.files import read_script

from .book import AUTHOR, TITLE, chapters, write_epub
from .listening import in_step, stretches
from .reader import Watched, kept_lines, read_command, watch
from .sound_checks import decode, loudness, probed

TARGET, CEILING = -16.0, -1.0
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class BookSettings:
    """The book that is spoken, and how often its process is killed.

    Attributes:
        folder: for the book and its sound.
        minutes: of speech, about.
        chapters: of the book.
        kills: of the run that is disturbed.
        listened: stretches of words that the recogniser listens to.
        seed: of the text and of the moments.
    """

    folder: Path
    minutes: float = 125.0
    chapters: int = 20
    kills: int = 5
    listened: int = 60
    seed: int = 0


def run_book(settings: BookSettings) -> dict[str, Any]:
    """Run everything and return the figures."""
    folder = settings.folder
    folder.mkdir(parents=True, exist_ok=True)
    written = chapters(settings.minutes, settings.chapters, settings.seed)
    write_epub(folder / "book.epub", written)
    lines = len(read_script(folder / "book.epub").lines)
    whole = _speak(folder, "undisturbed", lines)
    kills = list(_killed(settings, lines, whole))
    again = _speak(folder, "killed", lines)
    same = all(
        (folder / f"undisturbed.{ending}").read_bytes()
        == (folder / f"killed.{ending}").read_bytes()
        for ending in ("m4b", "json")
    )
    return {
        "lines": lines,
        "words": sum(len(text.split()) for each in written for text in each.paragraphs),
        "kills": kills,
        "killed": sum(each["status"] == -signal.SIGKILL for each in kills),
        "lines_kept_before_the_last_run": kills[-1]["lines"] if kills else 0,
        "same_bytes": same,
        "last_run_s": round(again.seconds, 1),
        **_speed_and_memory(whole, folder),
        **_sound(folder, [each.title for each in written], settings),
    }


def _speak(folder: Path, name: str, lines: int) -> Watched:
    seen = watch(_command(name), folder, parts=folder / f"{name}.parts", lines=lines)
    if seen.status != 0:
        log = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
        raise SystemExit(f"chattts read ended with {seen.status}:\n{log[-2000:]}")
    shutil.rmtree(folder / f"{name}.parts")
    return seen


def _command(name: str) -> list[str]:
    return read_command(
        *("book.epub", "-o", f"{name}.m4b", "--subtitles", f"{name}.json"),
        *("--resume-folder", f"{name}.parts", "--keep"),
    )


def _killed(settings: BookSettings, lines: int, whole: Watched) -> Iterator[dict[str, Any]]:
    """Kill runs at random numbers of lines, and the last one while the work is written."""
    folder, drawn = settings.folder, random.Random(settings.seed)
    parts = folder / "killed.parts"
    at = sorted(drawn.randrange(lines) for _ in range(max(1, settings.kills - 1)))
    for number in range(settings.kills):
        wanted = at[number] if number < len(at) else lines
        delay = drawn.uniform(0.0, 0.5) * (whole.seconds - whole.spoken)

        def now(kept: int, after: float, wanted: int = wanted, delay: float = delay) -> bool:
            return kept >= wanted and (wanted < lines or after >= delay)

        seen = watch(_command("killed"), folder, parts=parts, lines=lines, kill_when=now)
        yield {
            "status": seen.status,
            "seconds": round(seen.seconds, 1),
            "lines": kept_lines(parts),
            "spoken": wanted >= lines,
        }
        # A run that ended before its moment counts as no kill, and its file proves nothing.
        (folder / "killed.m4b").unlink(missing_ok=True)


def _speed_and_memory(whole: Watched, folder: Path) -> dict[str, Any]:
    seconds = probed(folder / "undisturbed.m4b")["seconds"]
    module = [sys.executable, "-m", "benchmarks.longform.engine_memory"]
    root = Path(__file__).resolve().parents[2]
    told = subprocess.run(module, check=True, capture_output=True, text=True, cwd=root).stdout
    engine = int(told.split()[-1])
    half = whole.spoken / 2
    return {
        "hours": round(seconds / 3600, 3),
        "machine_hours": round(whole.seconds / 3600, 3),
        "cpu_hours": round(whole.cpu_seconds / 3600, 3),
        "hours_an_hour": round(seconds / whole.seconds, 2),
        "hours_a_cpu_hour": round(seconds / whole.cpu_seconds, 2),
        "writing_s": round(whole.seconds - whole.spoken, 1),
        "engine_mb": round(engine / _MEGABYTE),
        "peak_mb": round(whole.peak / _MEGABYTE),
        "above_engine_mb": round((whole.peak - engine) / _MEGABYTE),
        "median_mb": {
            "first half of the speaking": round(whole.median_bytes(20, half) / _MEGABYTE),
            "second half": round(whole.median_bytes(half, whole.spoken) / _MEGABYTE),
            "writing": round(whole.median_bytes(whole.spoken, whole.seconds) / _MEGABYTE),
        },
    }


def _sound(folder: Path, titles: list[str], settings: BookSettings) -> dict[str, Any]:
    work = folder / "undisturbed.m4b"
    shown = probed(work)
    level, peak = loudness(work)
    decode(work, folder / "undisturbed.wav")
    found = stretches(folder / "undisturbed.json")
    step = max(1, len(found) // settings.listened)
    chosen = found[::step]
    third = max(1, len(chosen) // 3)
    return {
        "chapters": len(shown["chapters"]),
        "chapters_right": [title for title, _ in shown["chapters"]] == titles,
        "tags_right": (shown["title"], shown["artist"]) == (TITLE, AUTHOR),
        "streams": shown["streams"],
        "lufs": level,
        "from_target_lu": round(abs(level - TARGET), 2),
        "true_peak_db": peak,
        "subtitles": {
            "first third": in_step(folder / "undisturbed.wav", chosen[:third]),
            "last third": in_step(folder / "undisturbed.wav", chosen[-third:]),
        },
    }
