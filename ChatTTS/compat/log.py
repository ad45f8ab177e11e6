"""The logger of these helpers, which a script may replace."""

from __future__ import annotations

import logging


class Logger:
    """Holds a logger."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self.logger = logger or logging.getLogger("ChatTTS.utils")

    def set_logger(self, logger: logging.Logger) -> None:
        """Replace the logger."""
        self.logger = logger

    def get_logger(self) -> logging.Logger:
        """Return the logger."""
        return self.logger


logger = Logger()
