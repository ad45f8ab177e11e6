"""Speak one text, whole or as a stream, and report how long it took."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..errors import ChatTTSError
from .console import Console, warn
from .output import OutputTarget

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..core import Chat
    from ..pipeline.results import Fault, SpokenText, Word

_LONGEST_NOTE = 400  # characters
_ENDINGS = {
    "length": "cut off at the longest that the model may speak (length); another seed or a "
    "shorter sentence may help",
    "abort": "interrupted (abort)",
}


class SpeechJob:
    """Speaks one text into an output and records the progress.

    Args:
        chat: with a loaded model.
        arguments: of ``Chat.infer``, except the text.
        keep: whether the samples are kept for :meth:`plot` and :meth:`check`.
    """

    def __init__(
        self, chat: Chat, text: str, arguments: dict[str, Any], output: OutputTarget, *, keep: bool
    ) -> None:
        self._chat, self._text, self._arguments = chat, text, arguments
        self._output, self._keep = output, keep
        self._target = output.name
        self._rows: list[SpokenText] = []
        self._kept: list[Any] = []
        self._samples = 0
        self._busy = 0.0
        self._first: float | None = None
        self._underruns = 0
        self._stopped_in: str | None = None

    @property
    def speaker(self) -> str | None:
        """The name of the model's speaker that spoke, where no voice was named."""
        return next((row.speaker for row in self._rows), None)

    def speak(self) -> ChatTTSError | None:
        """Speak the whole text, then save it.

        Returns:
            The error, if only a part of the text could be spoken.
        """
        from ..pipeline.results import EmptySpeechError

        failure, start = None, time.perf_counter()
        try:
            waveforms = self._chat.infer(self._text, **self._arguments)
        except EmptySpeechError as error:
            # Some sentences are missing; the others are still worth saving.
            if error.waveforms is None or not error.waveforms[0].size:
                raise
            failure, waveforms = error, error.waveforms
        self._busy = time.perf_counter() - start
        self._target = self._output.save(waveforms[0])
        self._rows, self._samples = waveforms.rows, waveforms[0].size
        if self._keep:
            self._kept.append(waveforms[0])
        return failure

    def stream(self, *, low_latency: bool) -> None:
        """Speak, and write or play the sound while it is generated.

        Args:
            low_latency: whether playback begins before the samples are final.
        """
        start = time.perf_counter()
        pieces = self._chat.stream(self._text, low_latency=low_latency, **self._arguments)
        self._rows, current = pieces.rows, ""
        # The output is left first: Ctrl-C stops the sound before it waits for the model.
        with pieces, self._output.open() as output:
            try:
                for piece in pieces:
                    current = piece.text
                    if self._first is None:
                        self._first = time.perf_counter() - start
                    if self._keep:
                        self._kept.append(piece.samples)
                    output.write(piece.samples)
            except ChatTTSError:
                output.close()  # play the sound before the error to its end
                raise
            except KeyboardInterrupt:
                self._stopped_in = current
                raise
            finally:
                self._busy = time.perf_counter() - start
                self._samples, self._underruns = output.samples_written, output.underruns

    def report(self, console: Console) -> None:
        """Print the length and the times so far, and warn of sentences that were cut off."""
        from ..audio import SAMPLE_RATE

        if not self._samples:
            return
        seconds = self._samples / SAMPLE_RATE
        said = f"{self._target}: {seconds:.2f} s of speech"
        if self._first is None or not self._output.is_real_time:
            said += f" in {self._busy:.2f} s (real-time factor {self._busy / seconds:.2f})"
        if self._first is not None:
            said += f", the first sound after {self._first:.2f} s"
        if self._underruns:
            plural = "" if self._underruns == 1 else "s"
            said += f", {self._underruns} underrun{plural} (the sound was not there in time)"
        console.note(said)
        if self._stopped_in is not None:
            console.note(f"stopped in {_shortened(self._stopped_in)}")
        uses = [use for row in self._rows for use in row.lexicon_uses]
        if uses:
            pairs = dict.fromkeys((use.text, use.saying) for use in uses)
            said = ", ".join(f"{text!r} as {saying!r}" for text, saying in pairs)
            console.note(f"pronounced by the lexicon: {_cut(said)}")
        for fit in (row.fit for row in self._rows if row.fit is not None):
            console.note(
                f"in {fit.duration:g} s: {', '.join(fit.speeds)}, tempo {fit.tempo:.3f}, pauses "
                f"{fit.pauses:+.2f} s"
            )
        for spoken in (spoken for row in self._rows for spoken in row.utterances):
            if spoken.finish is not None and spoken.finish.value in _ENDINGS:
                warn(f"{_shortened(spoken.text)} was {_ENDINGS[spoken.finish.value]}")
            if spoken.faults:
                found = ", ".join(map(_described, spoken.faults))
                warn(f"{_shortened(spoken.text)} may be faulty ({found})")
            elif spoken.attempts > 1 and all(row.fit is None for row in self._rows):
                console.note(f"{_shortened(spoken.text)} took {spoken.attempts} attempts")

    def plot(self, path: str) -> None:
        """Draw the waveform, with words if they have times; the samples must have been kept."""
        from ..audio import plot_waveform

        plot_waveform(self._waveform(), path, title=self._text, words=self._words())

    def save_subtitles(self, path: str) -> None:
        """Write subtitles; the arguments must ask for ``word_times``."""
        from ..audio import save_subtitles

        save_subtitles(path, self._words(), self._text)

    def check(self, console: Console) -> bool:
        """Look for every word of the text in the speech, and print what was heard.

        The samples must have been kept.

        Returns:
            Whether every word was heard once.
        """
        from ..audio import check_words

        spoken = " ".join(spoken.text for row in self._rows for spoken in row.utterances)
        checked = check_words(self._waveform(), spoken)
        if checked.good:
            console.note(f"checked: {checked}")
        else:
            warn(f"the recogniser did not hear the text as it is: {checked}")
        return checked.good

    def _words(self) -> list[Word]:
        return [word for row in self._rows for word in row.words]

    def _waveform(self) -> NDArray[np.float32]:
        import numpy as np

        return np.concatenate(self._kept)


def _described(fault: Fault) -> str:
    where = f"at {fault.start:.2f} s of the sentence"
    words = f" {_shortened(fault.text)}" if fault.text else ""
    return f"{fault.kind}{words} {where}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_NOTE else f"{text[: _LONGEST_NOTE - 1]}…"


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:59]}…")
