"""One call of ``infer``: utterances -> (refined) -> frames -> samples."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .loading import Model
from .mixing import RowMixer
from .model.generation import Cancellation
from .model.synthesis import Synthesizer
from .params import InferCodeParams, RefineTextParams
from .progress import progress
from .results import EmptySpeechError, Waveforms, WaveformStream
from .speech import Gain, Utterance, choose_seed, refine, speak

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """What holds for the whole call.

    Attributes:
        model: the checkpoint that was loaded when the call began.
        batch_size: utterances generated side by side.
        cancelled: ends this call alone.
    """

    model: Model
    batch_size: int
    cancelled: Cancellation

    def refined(self, utterances: Sequence[Utterance], params: RefineTextParams) -> list[Utterance]:
        """The utterances with the texts that the refine pass gives them."""
        if not self.model.config.defaults.refine_trained:
            logger.info("this checkpoint was not trained to refine texts: they stay as they are")
            return list(utterances)
        answers = refine(
            self.model,
            utterances,
            params,
            choose_seed(params),
            batch_size=self.batch_size,
            cancelled=self.cancelled,
        )
        done = []
        with progress("refining", "utterance", params.show_tqdm, len(utterances)) as bar:
            for utterance in answers:
                done.append(utterance)
                bar.update()
        return sorted(done, key=lambda u: (u.row, u.index))

    def waveforms(
        self, utterances: Sequence[Utterance], params: InferCodeParams, use_decoder: bool
    ) -> Waveforms:
        """Every row whole.

        Raises:
            EmptySpeechError: utterances stayed empty; it carries what came of all rows.
        """
        mixer = RowMixer(self._synthesizer(use_decoder), utterances)
        for gain in self._frames(utterances, params, choose_seed(params), first_alone=False):
            mixer.push(gain)
        waveforms = Waveforms(mixer.whole(), mixer.rows)
        if params.ensure_non_empty and mixer.empty_texts:
            raise EmptySpeechError(mixer.empty_texts, waveforms)
        return waveforms

    def stream(
        self, utterances: Sequence[Utterance], params: InferCodeParams, use_decoder: bool
    ) -> WaveformStream:
        """Every row in chunks; the seed is chosen now, in the caller's thread."""
        mixer = RowMixer(self._synthesizer(use_decoder), utterances, params.stream_batch)
        gains = self._frames(utterances, params, choose_seed(params), first_alone=True)
        return WaveformStream(_chunks(gains, mixer, params), mixer.rows)

    def _synthesizer(self, use_decoder: bool) -> Synthesizer:
        model = self.model
        mel_decoder = model.decoder if use_decoder else model.dvae
        return Synthesizer(mel_decoder, model.vocos, model.gpt.turns)

    def _frames(
        self,
        utterances: Sequence[Utterance],
        params: InferCodeParams,
        seed: int,
        *,
        first_alone: bool,
    ) -> Iterator[Gain]:
        """What the speech pass gives; an error if these utterances cannot be spoken."""
        gains = speak(
            self.model,
            utterances,
            params,
            seed,
            batch_size=self.batch_size,
            first_alone=first_alone,
            cancelled=self.cancelled,
        )
        return _counted(gains, params.show_tqdm)


def _counted(gains: Iterator[Gain], show_tqdm: bool) -> Iterator[Gain]:
    """The same, with a progress bar over the frames."""
    with progress("speaking", "frame", show_tqdm) as bar:
        for gain in gains:
            bar.update(len(gain.delta.ids))
            yield gain


def _chunks(
    gains: Iterator[Gain], mixer: RowMixer, params: InferCodeParams
) -> Iterator[NDArray[np.float32]]:
    """Chunks (rows, n), as soon as all unfinished rows have something to give.

    Where the caller changed ``stream_speed`` every chunk but the last has that many samples;
    where he changed ``pass_first_n_batches`` the first waits for so many batches of frames.
    """
    usual = InferCodeParams()
    size = None if params.stream_speed == usual.stream_speed else params.stream_speed
    least = size or 1
    if params.pass_first_n_batches != usual.pass_first_n_batches:
        frames = params.pass_first_n_batches * params.stream_batch
        least = max(least, frames * mixer.samples_per_frame)
    for gain in gains:
        mixer.push(gain)
        while (chunk := mixer.take(least, size)) is not None:
            least = size or 1
            yield chunk
    if params.ensure_non_empty and mixer.empty_texts:
        raise EmptySpeechError(mixer.empty_texts, None)
