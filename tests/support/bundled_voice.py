"""Facts about the bundled voice that a new one may change."""

from __future__ import annotations

from ChatTTS.config import Config

from .places import ROOT

BUNDLED = Config.from_file(ROOT / "ChatTTS" / "bundled" / "asset" / "config.json")
WIDTH = BUNDLED.gpt.hidden_size
NAMES = tuple(BUNDLED.defaults.speakers)
# A word in a script that it has no sounds for.
UNKNOWN = "나라"
