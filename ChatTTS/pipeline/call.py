"""One call of ``infer``: utterances -> (refined) -> frames -> samples."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..model.generation import Cancellation
from ..params import InferCodeParams, LowLatency, RefineTextParams
from ..utils.progress import progress
from .assembly import RowMixer
from .decode_worker import MOST_FRAMES
from .decoding import UtteranceDecoder
from .frame_generation import Gain, Utterance, choose_seed, refine, speak
from .model import Model
from .results import EmptySpeechError, Waveforms
from .schedules import AtTheEnd, Batches, Listener, Paced, Schedule
from .streams import Production

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """What holds for the whole call.

    Attributes:
        model: the checkpoint that was loaded when the call began.
        rows: number of its texts; one that cannot be spoken has no utterance.
        batch_size: utterances generated side by side.
        cancelled: ends this call alone.
    """

    model: Model
    rows: int
    batch_size: int
    cancelled: Cancellation

    def refined(
        self, utterances: Sequence[Utterance], params: RefineTextParams, seed: int
    ) -> list[Utterance]:
        """The utterances with the texts that the refine pass gives them."""
        if not self.model.config.defaults.refine_trained:
            logger.info("this checkpoint was not trained to refine texts: they stay as they are")
            return list(utterances)
        answers = refine(
            self.model,
            utterances,
            params,
            seed,
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
        synthesizer = self.model.synthesizer(use_decoder)

        def decoder(utterance: Utterance, listener: Listener) -> UtteranceDecoder:
            # In pieces where that changes no bit: nobody's stream waits for a whole utterance.
            pieces = Batches(MOST_FRAMES, synthesizer.samples_per_frame)
            return UtteranceDecoder(synthesizer, pieces if synthesizer.is_exact else AtTheEnd())

        mixer = RowMixer(self.model.vocoding, utterances, self.rows, decoder, is_bounded=False)
        try:
            gains = self._frames(
                utterances, params, choose_seed(params), first_alone=False, may_begin_anew=True
            )
            for gain in gains:
                mixer.push(gain)
            mixer.wait(lambda: mixer.is_complete or None)
        finally:
            mixer.leave()
        waveforms = Waveforms(mixer.whole(), mixer.rows)
        if params.ensure_non_empty and mixer.empty_texts:
            raise EmptySpeechError(mixer.empty_texts, waveforms)
        return waveforms

    def produce(
        self,
        utterances: Sequence[Utterance],
        params: InferCodeParams,
        use_decoder: bool,
        low_latency: LowLatency | None,
        refining: RefineTextParams | None,
    ) -> Production:
        """What generates every row bit by bit; the seeds are chosen now, in the caller's thread.

        Args:
            low_latency: how the first utterance of a row begins, if not exactly.
            refining: how to refine the texts first, each batch when it is its turn.
        """
        synthesizer = self.model.synthesizer(use_decoder)

        def decoder(utterance: Utterance, listener: Listener) -> UtteranceDecoder:
            schedule = _stream_schedule(params, listener, synthesizer.samples_per_frame)
            early = low_latency if utterance.index == 0 else None
            return UtteranceDecoder(synthesizer, schedule, early)

        refined = None
        if refining is not None:
            refined = partial(self.refined, params=refining, seed=choose_seed(refining))
        gains = self._frames(
            utterances,
            params,
            choose_seed(params),
            first_alone=True,
            may_begin_anew=False,
            refined=refined,
        )
        mixer = RowMixer(self.model.vocoding, utterances, self.rows, decoder, is_bounded=True)
        return Production(gains, mixer, self.cancelled)

    def _frames(
        self,
        utterances: Sequence[Utterance],
        params: InferCodeParams,
        seed: int,
        *,
        first_alone: bool,
        may_begin_anew: bool,
        refined: Callable[[Sequence[Utterance]], Sequence[Utterance]] | None = None,
    ) -> Iterator[Gain]:
        """What the speech pass gives; an error if these utterances cannot be spoken."""
        gains = speak(
            self.model,
            utterances,
            params,
            seed,
            batch_size=self.batch_size,
            first_alone=first_alone,
            may_begin_anew=may_begin_anew,
            cancelled=self.cancelled,
            refined=refined,
        )
        return _counted(gains, params.show_tqdm)


def _counted(gains: Iterator[Gain], show_tqdm: bool) -> Iterator[Gain]:
    """The same, with a progress bar over the frames."""
    with progress("speaking", "frame", show_tqdm) as bar:
        for gain in gains:
            bar.update(len(gain.delta.ids))
            yield gain


def _stream_schedule(params: InferCodeParams, listener: Listener, samples: int) -> Schedule:
    """Pieces in time for the listener, or of the size that the caller chose.

    Args:
        samples: of a frame.
    """
    if params.stream_batch != InferCodeParams().stream_batch:
        return Batches(params.stream_batch, samples)
    return Paced(listener, samples)
