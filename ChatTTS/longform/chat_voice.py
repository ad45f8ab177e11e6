"""Speak the lines of a plan with a ``Chat``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import ChatTTSError
from ..pipeline.results import DurationError
from .kept_lines import SpokenLine, SpokenPart
from .planned import PlannedLine

if TYPE_CHECKING:
    from ..loaded_chat import LoadedChat


class ChatVoice:
    """A :class:`.line_speaker.LineVoice` that calls ``Chat.infer``.

    Args:
        chat: with a loaded model.
        warn: called with each warning, which names its line.
    """

    def __init__(self, chat: LoadedChat, warn: Callable[[str], None]) -> None:
        self._chat, self._warn = chat, warn

    def speak(self, planned: PlannedLine, stop: threading.Event) -> SpokenLine | None:
        """Return the speech of a line: see :class:`.line_speaker.LineVoice`."""
        place = planned.line.place
        try:
            waveforms = self._infer(planned, stop)
        except ChatTTSError as error:
            raise place.error(str(error)) from error
        reason = waveforms.finish_reasons[0]
        if reason == "abort":
            return None
        if reason == "length":
            self._warn(f"{place}: the speech was cut off at its longest")
        row = waveforms.rows[0]
        for fault in row.faults:
            self._warn(f"{place}: {fault.kind} {fault.text}")
        parts = tuple(SpokenPart(spoken.text, spoken.samples) for spoken in row.utterances)
        return SpokenLine(waveforms[0], parts, tuple(row.words))

    def _infer(self, planned: PlannedLine, stop: threading.Event) -> Any:
        """Return the waveforms of a line; one that cannot fit is as short as can be."""
        try:
            return self._chat.infer(
                planned.line.text, interrupt=stop, reads_ssml=False, **planned.arguments
            )
        except DurationError as error:
            if error.waveforms is None:
                raise
            return error.waveforms
