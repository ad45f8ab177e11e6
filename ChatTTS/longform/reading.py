"""``Chat.read``: from a script to a recording."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ..model.generation import Cancellation
from ..pipeline.fitting.learning import speech_lengths
from .chat_voice import ChatVoice
from .files import parse_script
from .line_speaker import LineSpeaker, LineVoice
from .line_store import LineStore
from .marks import expanded
from .plan import Planner, checkpoint_hash
from .recording import Recording
from .script import Script
from .settings import ReadSettings
from .steady_voice import SteadyVoice
from .subtitles import with_durations

if TYPE_CHECKING:
    from ..pipeline.loaded_chat import LoadedChat
    from ..pipeline.model import Model

logger = logging.getLogger(__name__)

SIDE_BY_SIDE = 8
"""Lines that are generated at once by an engine that runs many together."""


def read_aloud(
    chat: LoadedChat,
    model: Model,
    checkpoint: Path,
    script: Script | str,
    settings: ReadSettings | None = None,
    *,
    folder: str | Path | None = None,
    interrupt: threading.Event | None = None,
) -> Recording:
    """Return the recording of a script; nothing is spoken until it is iterated or saved.

    Args:
        chat: with a loaded model.
        model: that model.
        checkpoint: the folder of its files.
        script: a script, or a text as ``parse_script`` reads it.
        settings: of the reading; the defaults without it.
        folder: keeps the spoken lines, so that a later reading goes on from them; a temporary one
            by default.
        interrupt: an event that ends the reading; any thread may set it.

    Raises:
        ScriptError: a line cannot be spoken, such as one with an unknown voice.
        AudioError: the folder cannot be created.
        EngineUnavailableError: word times or a guard with kernels that do not give attention.
    """
    settings = settings or ReadSettings()
    given = parse_script(script) if isinstance(script, str) else script
    whole = expanded(with_durations(given) if settings.fit else given)
    is_timed = any(line.duration is not None for line in whole.lines)
    # Now, since both decide every line, and a later run must find these.
    if (settings.aligns or is_timed) and not chat.alignment_heads:
        chat.find_alignment_heads(show_tqdm=False, interrupt=interrupt)
    if is_timed:
        speech_lengths(model, chat.alignment_heads, Cancellation(interrupt), show=False)
    plan = Planner(chat, model, checkpoint_hash(checkpoint), settings).plan(whole)
    temporary = None
    if folder is None:
        temporary = TemporaryDirectory(prefix="chattts-read-")
        folder = temporary.name
    store = LineStore(Path(folder))
    usual = SIDE_BY_SIDE if model.gpt.batches_itself else 1
    own = ChatVoice(chat, logger.warning)
    voice: LineVoice = own
    if settings.steady is not None:
        voice = SteadyVoice(own, settings.steady == "retry", logger.warning)
    speaker = LineSpeaker(voice, store, settings.side_by_side or usual, interrupt)
    return Recording(whole, plan, speaker, store, settings, temporary)
