"""The findings of ffmpeg's tools about a finished work: chapters, tags, loudness, true peak."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any


def probed(path: Path) -> dict[str, Any]:
    """Return the duration in seconds, the chapters' titles and starts, tags and streams."""
    shown = json.loads(
        _output(
            "ffprobe",
            *("-v", "error", "-of", "json", "-show_format", "-show_chapters", "-show_streams"),
            str(path),
        )
    )
    tags = {name.lower(): value for name, value in shown["format"].get("tags", {}).items()}
    return {
        "seconds": float(shown["format"]["duration"]),
        "chapters": [
            (each["tags"]["title"], float(each["start_time"])) for each in shown["chapters"]
        ],
        "title": tags.get("title", ""),
        "artist": tags.get("artist", ""),
        "streams": [each["codec_name"] for each in shown["streams"]],
    }


def loudness(path: Path) -> tuple[float, float]:
    """Return the integrated loudness in LUFS and the true peak in dBTP, by ``ebur128``."""
    printed = _output(
        "ffmpeg",
        *("-nostats", "-hide_banner", "-i", str(path), "-map", "0:a"),
        *("-af", "ebur128=peak=true:framelog=verbose", "-f", "null", "-"),
        stderr=True,
    )
    summary = printed[printed.rindex("Summary:") :]
    level = re.search(r"I:\s+(-?[\d.]+) LUFS", summary)
    peak = re.search(r"Peak:\s+(-?[\d.]+) dBFS", summary)
    assert level is not None
    assert peak is not None
    return float(level[1]), float(peak[1])


def decode(path: Path, target: Path) -> None:
    """Decode a work to a wav at 24 kHz."""
    _output("ffmpeg", "-v", "error", "-y", "-i", str(path), "-map", "0:a", "-ar", "24000", target)


def _output(*command: str | Path, stderr: bool = False) -> str:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise SystemExit(f"{command[0]} is missing: apt-get install ffmpeg") from error
    return done.stderr if stderr else done.stdout
