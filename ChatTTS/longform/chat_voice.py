"""Speak the lines of a plan with a ``Chat``."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..audio.samples import SAMPLE_RATE, Samples
from ..errors import ChatTTSError
from ..model.generation import FinishReason
from ..pipeline.results import DurationError, SpokenUtterance
from .kept_lines import SpokenLine, SpokenPart
from .planned import PlannedLine, Reference

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
        spoken = self.attempt(planned, stop)
        if spoken is not None:
            tell_faults(planned, spoken, self._warn)
        return spoken

    def attempt(
        self,
        planned: PlannedLine,
        stop: threading.Event,
        number: int = 0,
        sample: Mapping[str, str] | None = None,
    ) -> SpokenLine | None:
        """Return an attempt at a line, ``None`` if it was stopped; each number has other draws.

        Args:
            sample: a sample prompt, as :meth:`sample` returns it, that the line continues.

        Raises:
            ScriptError: the line cannot be spoken.
        """
        code = {**planned.arguments["params_infer_code"], **(sample or {})}
        if number:
            code["manual_seed"] = _another_seed(code["manual_seed"], number)
        arguments = {**planned.arguments, "params_infer_code": code}
        waveforms = self._infer(planned, planned.line.text, arguments, stop)
        if waveforms.finish_reasons[0] == "abort":
            return None
        row = waveforms.rows[0]
        return SpokenLine(waveforms[0], tuple(map(_part, row.utterances)), tuple(row.words))

    def sounds(
        self, planned: PlannedLine, reference: Reference, stop: threading.Event
    ) -> list[Samples] | None:
        """Return the sounds of a reference in the voice of a line; ``None`` if it was stopped.

        Raises:
            ScriptError: they cannot be spoken.
        """
        arguments = {
            **planned.arguments,
            "do_text_normalization": False,
            "split_text": False,
            "lexicon": None,
            "word_times": False,
            "guard": None,
            "duration": None,
        }
        for name in ("params_infer_code", "params_refine_text"):
            arguments[name] = {**arguments[name], "ensure_non_empty": False}
        waveforms = self._infer(planned, list(reference.texts), arguments, stop)
        return None if "abort" in waveforms.finish_reasons else list(waveforms)

    def sample(self, sound: Samples, text: str) -> dict[str, str] | None:
        """Return parameters by which speech continues a sound; ``None`` if the model cannot."""
        try:
            codes = self._chat.sample_audio_speaker(sound, sample_rate=SAMPLE_RATE, trim=True)
        except ChatTTSError:
            return None
        return {"spk_smp": codes, "txt_smp": text}

    def _infer(
        self,
        planned: PlannedLine,
        text: str | list[str],
        arguments: Mapping[str, Any],
        stop: threading.Event,
    ) -> Any:
        """Return the waveforms of texts; those that cannot fit are as short as can be."""
        try:
            return self._chat.infer(text, interrupt=stop, reads_ssml=False, **arguments)
        except DurationError as error:
            if error.waveforms is not None:
                return error.waveforms
            raise planned.line.place.error(str(error)) from error
        except ChatTTSError as error:
            raise planned.line.place.error(str(error)) from error


def tell_faults(planned: PlannedLine, spoken: SpokenLine, warn: Callable[[str], None]) -> None:
    """Warn of each fault of a line."""
    for part in spoken.parts:
        for fault in part.faults:
            warn(f"{planned.line.place}: {fault}")


def _part(utterance: SpokenUtterance) -> SpokenPart:
    faults = [f"{fault.kind} {fault.text}" for fault in utterance.faults]
    if utterance.finish is FinishReason.LENGTH:
        faults.append("the speech was cut off at its longest")
    return SpokenPart(utterance.text, utterance.samples, tuple(faults))


def _another_seed(seed: int, number: int) -> int:
    """Return a seed for other draws, below 2**63."""
    digest = hashlib.sha256(f"{seed} attempt {number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
