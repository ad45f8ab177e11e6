"""One text being spoken: whole or in a stream, with the times that it took."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..errors import ChatTTSError
from .console import Console, warn
from .output import Output

if TYPE_CHECKING:
    from ..core import Chat
    from ..results import Row

_ENDINGS = {
    "length": "cut off at the longest that the model may speak (length); another seed or a "
    "shorter sentence may help",
    "abort": "interrupted (abort)",
}


class Speech:
    """Speaks one text into an output, and knows how far it has come.

    Args:
        chat: with a loaded model.
        arguments: of ``Chat.infer``, beside the text.
        keep: remember the samples for :meth:`plot`.
    """

    def __init__(
        self, chat: Chat, text: str, arguments: dict[str, Any], output: Output, *, keep: bool
    ) -> None:
        self._chat, self._text, self._arguments = chat, text, arguments
        self._output, self._keep = output, keep
        self._target = output.name
        self._rows: list[Row] = []
        self._kept: list[Any] = []
        self._samples = 0
        self._busy = 0.0
        self._first: float | None = None

    def speak(self) -> ChatTTSError | None:
        """Speak the whole text, then save it.

        Returns:
            What is wrong with the speech, where there is some all the same.
        """
        from ..results import EmptySpeechError

        failure, start = None, time.perf_counter()
        try:
            waveforms = self._chat.infer(self._text, **self._arguments)
        except EmptySpeechError as error:
            # Sentences are missing; minutes of others may be there.
            if error.waveforms is None or not error.waveforms[0].size:
                raise
            failure, waveforms = error, error.waveforms
        self._busy = time.perf_counter() - start
        self._target = self._output.save(waveforms[0])
        self._rows, self._samples = waveforms.rows, waveforms[0].size
        if self._keep:
            self._kept.append(waveforms[0])
        return failure

    def stream(self) -> None:
        """Speak, and write what comes; the file is made when there is something to write."""
        start, writer = time.perf_counter(), None
        chunks = self._chat.infer(self._text, stream=True, **self._arguments)
        self._rows, self._busy = chunks.rows, time.perf_counter() - start
        try:
            while True:
                start = time.perf_counter()
                chunk = next(chunks, None)
                # The reader's own time is not counted: a player takes as long as the sound is.
                self._busy += time.perf_counter() - start
                if chunk is None:
                    return
                if writer is None:
                    writer, self._first = self._output.open(), self._busy
                writer.write(chunk)
                self._samples = writer.samples_written
                if self._keep:
                    self._kept.append(chunk[0])
        finally:
            chunks.close()
            if writer is not None:
                writer.close()

    def report(self, console: Console) -> None:
        """Say what there is so far, and which sentences do not end where their text does."""
        from ..audio import SAMPLE_RATE

        if not self._samples:
            return
        seconds = self._samples / SAMPLE_RATE
        first = "" if self._first is None else f", the first sound after {self._first:.2f} s"
        console.note(
            f"{self._target}: {seconds:.2f} s of speech in {self._busy:.2f} s "
            f"(real-time factor {self._busy / seconds:.2f}){first}"
        )
        for spoken in (spoken for row in self._rows for spoken in row.utterances):
            if spoken.finish is not None and spoken.finish.value in _ENDINGS:
                warn(f"{spoken.text[:60]!r} was {_ENDINGS[spoken.finish.value]}")

    def plot(self, path: str) -> None:
        """Draw what was spoken, if :meth:`speak` or :meth:`stream` kept it."""
        import numpy as np

        from ..audio import plot_waveform

        plot_waveform(np.concatenate(self._kept), path, title=self._text)
