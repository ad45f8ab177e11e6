"""Speak the lines of a plan with a ``Chat``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..audio.samples import SAMPLE_RATE, Samples
from ..errors import ChatTTSError
from ..model.generation import FinishReason
from ..pipeline.results import SpokenUtterance
from .attempts import CUT_OFF, Attempt, AttemptingVoice
from .line_store import SpokenLine, SpokenPart
from .planned import PlannedLine, Reference

if TYPE_CHECKING:
    from ..pipeline.loaded_chat import LoadedChat


class ChatVoice(AttemptingVoice):
    """A voice that calls ``Chat.infer``.

    Args:
        chat: with a loaded model.
        warn: called with each warning, which names its line.
    """

    def __init__(self, chat: LoadedChat, warn: Callable[[str], None]) -> None:
        super().__init__(warn)
        self._chat = chat

    def attempt(
        self, planned: PlannedLine, stop: threading.Event, which: Attempt
    ) -> SpokenLine | None:
        """Return an attempt at a line: see :class:`.attempts.AttemptingVoice`."""
        code = {**planned.arguments["params_infer_code"], **which.sample}
        code["manual_seed"] = which.seed(code["manual_seed"])
        arguments = {**planned.arguments, "params_infer_code": code}
        waveforms = self._infer(planned, planned.line.text, arguments, stop)
        if waveforms.finish_reasons[0] == "abort":
            return None
        row = waveforms.rows[0]
        return SpokenLine(waveforms[0], tuple(map(_part, row.utterances)), tuple(row.words))

    def sounds(
        self, planned: PlannedLine, reference: Reference, stop: threading.Event
    ) -> list[tuple[Samples, str]] | None:
        """Return the sounds of a reference: see :class:`.attempts.AttemptingVoice`."""
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
        if "abort" in waveforms.finish_reasons:
            return None
        return list(zip(waveforms, reference.texts, strict=True))

    def sample(self, sound: Samples, text: str) -> dict[str, str] | None:
        """Return parameters by which speech continues a sound: see ``AttemptingVoice``."""
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
        given = {**arguments, "reads_ssml": False, "may_be_late": True}
        try:
            return self._chat.infer(text, interrupt=stop, **given)
        except ChatTTSError as error:
            raise planned.line.place.error(str(error)) from error


def _part(utterance: SpokenUtterance) -> SpokenPart:
    faults = [f"{fault.kind} {fault.text}" for fault in utterance.faults]
    if utterance.finish is FinishReason.LENGTH:
        faults.append(CUT_OFF)
    return SpokenPart(utterance.text, utterance.samples, tuple(faults))
