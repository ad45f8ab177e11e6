"""One call of ``infer`` or ``stream``: utterances -> (refined) -> frames -> samples."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..config import AlignmentHeads
from ..model.generation import Cancellation
from ..params import InferCodeParams, LowLatency, RefineTextParams
from ..text.spoken_words import Reader
from ..utils.progress import progress
from .assembly import WaveformAssembler
from .decode_worker import MOST_FRAMES
from .decoding import UtteranceDecoder
from .frame_generation import choose_seed, refine, speak
from .guard import RETRY, make_guard
from .model import Model
from .refined_words import asks_for_nothing
from .results import EmptySpeechError, SpokenText, Waveforms
from .schedules import FixedSize, JustInTime, PlaybackClock, Schedule, WholeUtterance
from .streams import GenerationThread
from .utterance import Utterance, UtteranceUpdate
from .utterance_words import MakeWords, word_maker
from .utterances import ReadTexts

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class InferCall:
    """The settings that stay fixed during one call.

    Attributes:
        model: the checkpoint that was loaded when the call began.
        read_texts: of each text, where a lexicon replaced its words, and what is left out.
        batch_size: utterances generated side by side.
        cancelled: ends this call alone.
        read: the spoken form of a written word, where the times of words are wanted.
        heads: the attention heads that these times are found from.
        guard: ``retry`` or ``report`` where faults are wanted; it needs ``read``.
    """

    model: Model
    read_texts: ReadTexts
    batch_size: int
    cancelled: Cancellation
    read: Reader | None = None
    heads: AlignmentHeads = ()
    guard: str | None = None

    def refined(
        self, utterances: Sequence[Utterance], params: RefineTextParams, seed: int
    ) -> list[Utterance]:
        """Return the utterances with the texts that the refine pass gives them."""
        defaults = self.model.config.defaults
        if not defaults.refine_trained:
            logger.info("this checkpoint was not trained to refine texts: they stay as they are")
            return list(utterances)
        if defaults.refine_keeps_words and asks_for_nothing(params.prompt):
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
        return sorted(done, key=lambda u: (u.text_index, u.index))

    def waveforms(
        self, utterances: Sequence[Utterance], params: InferCodeParams, use_decoder: bool
    ) -> Waveforms:
        """Return the whole waveform of every text.

        Raises:
            EmptySpeechError: utterances stayed empty; it carries the waveforms of all texts.
        """
        synthesizer = self.model.synthesizer(use_decoder)

        def decoder(utterance: Utterance, playback: PlaybackClock) -> UtteranceDecoder:
            # In pieces where they are equal bit for bit: streams wait less for other calls then.
            pieces = FixedSize(MOST_FRAMES, synthesizer.samples_per_frame)
            schedule = pieces if synthesizer.is_exact else WholeUtterance()
            return UtteranceDecoder(synthesizer, schedule)

        assembler = WaveformAssembler(
            self.model.decode_worker,
            utterances,
            len(self.read_texts.left_out),
            decoder,
            waits_for_consumer=False,
            make_words=self._word_maker(synthesizer.samples_per_frame),
        )
        self._note_readings(assembler.texts)
        try:
            for update in self._frames(
                utterances, params, synthesizer.samples_per_frame, is_stream=False
            ):
                assembler.push(update)
            assembler.wait(lambda: assembler.is_complete or None)
        finally:
            assembler.leave()
        waveforms = Waveforms(assembler.waveforms(), assembler.texts)
        if params.ensure_non_empty and assembler.empty_texts:
            raise EmptySpeechError(assembler.empty_texts, waveforms)
        return waveforms

    def generation_thread(
        self,
        utterances: Sequence[Utterance],
        params: InferCodeParams,
        use_decoder: bool,
        low_latency: LowLatency | None,
        refining: RefineTextParams | None,
    ) -> GenerationThread:
        """Return the thread, not begun, that generates all texts for a stream.

        The seeds are chosen now, in the caller's thread.

        Args:
            low_latency: how the first utterance of a text begins, if not exactly.
            refining: how to refine the texts first, each batch before it is spoken.
        """
        synthesizer = self.model.synthesizer(use_decoder)

        def decoder(utterance: Utterance, playback: PlaybackClock) -> UtteranceDecoder:
            schedule: Schedule = JustInTime(playback, synthesizer.samples_per_frame)
            if params.stream_batch != InferCodeParams.stream_batch:  # the caller's own size
                schedule = FixedSize(params.stream_batch, synthesizer.samples_per_frame)
            # What the guard holds back is final already when it is given out.
            early = low_latency if utterance.index == 0 and self.guard != RETRY else None
            return UtteranceDecoder(synthesizer, schedule, early)

        refined = None
        if refining is not None:
            refined = partial(self.refined, params=refining, seed=choose_seed(refining))
        updates = self._frames(
            utterances, params, synthesizer.samples_per_frame, is_stream=True, refined=refined
        )
        assembler = WaveformAssembler(
            self.model.decode_worker,
            utterances,
            len(self.read_texts.left_out),
            decoder,
            waits_for_consumer=True,
            make_words=self._word_maker(synthesizer.samples_per_frame),
        )
        self._note_readings(assembler.texts)
        return GenerationThread(updates, assembler, self.cancelled)

    def _note_readings(self, texts: Sequence[SpokenText]) -> None:
        read = self.read_texts
        for text, uses, left_out in zip(texts, read.lexicon_uses, read.left_out, strict=True):
            text.lexicon_uses, text.left_out = uses, left_out

    def _word_maker(self, samples_per_frame: int) -> MakeWords | None:
        if self.read is None:
            return None
        delay = self.model.config.defaults.alignment_delay
        return word_maker(self.model.tokenizer, self.read, samples_per_frame, delay)

    def _frames(
        self,
        utterances: Sequence[Utterance],
        params: InferCodeParams,
        samples_per_frame: int,
        *,
        is_stream: bool,
        refined: Callable[[Sequence[Utterance]], Sequence[Utterance]] | None = None,
    ) -> Iterator[UtteranceUpdate]:
        """Run the speech pass with a progress bar; raise now if an utterance cannot be spoken."""
        guard = None
        if self.guard is not None and self.read is not None:
            guard = make_guard(self.guard, self.model.tokenizer, self.read, samples_per_frame)
        # Sound that was given out cannot be generated again.
        holds_back = is_stream and guard is not None and guard.retries
        updates = speak(
            self.model,
            utterances,
            params,
            choose_seed(params),
            batch_size=self.batch_size,
            first_alone=is_stream,
            may_restart=holds_back or not is_stream,
            holds_back=holds_back,
            cancelled=self.cancelled,
            refined=refined,
            alignment_heads=self.heads,
            guard=guard,
        )
        return _with_progress(updates, params.show_tqdm)


def _with_progress(
    updates: Iterator[UtteranceUpdate], show_tqdm: bool
) -> Iterator[UtteranceUpdate]:
    """Pass the updates on, and count their frames in a progress bar."""
    with progress("speaking", "frame", show_tqdm) as bar:
        for update in updates:
            bar.update(len(update.delta.ids))
            yield update
