"""One call of ``infer`` or ``stream``: utterances -> (refined) -> frames -> samples."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ..config import AlignmentHeads
from ..model.generation import Cancellation
from ..model.synthesis.synthesizer import Synthesizer
from ..params import InferCodeParams, LowLatency, RefineTextParams
from ..text.spoken_words import Reader
from ..utils.progress import progress
from .aligning import aligner
from .assembly import MakeDecoder, WaveformAssembler
from .attempts import MakeAlignment
from .call_arguments import RETRY
from .call_options import CallOptions
from .decode.schedules import FIRST_FRAMES, FixedSize, JustInTime, PlaybackClock, Schedule
from .decode.utterance_decoder import UtteranceDecoder
from .decode.worker import whole_schedule
from .fitting.fitted_pass import FittedPass
from .fitting.goals import TAKES
from .fitting.takes import TakeDrawer
from .fitting.times import Fitting
from .model import Model
from .refine_pass import may_refine, refine
from .requests import choose_seed
from .results import EmptySpeechError, Waveforms
from .routines import Routine, Tell, run, told_by
from .speech_pass import Refine, SpeechPass
from .stream_generation import GenerationRun, GenerationThread, StreamGeneration
from .utterance import Utterance, UtteranceUpdate
from .utterances import ReadTexts

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class InferCall:
    """The settings that stay fixed during one call.

    Attributes:
        model: the checkpoint that was loaded when the call began.
        asked: what the caller asked for.
        refining: how to refine the texts, if that is asked for.
        params: of the speech.
        read_texts: of each text, where a lexicon replaced its words, and what is left out.
        batch_size: utterances generated side by side.
        cancelled: ends this call alone.
        low_latency: how the first utterance of a text begins, if not exactly.
        read: the spoken form of a written word, where the times of words are wanted.
        heads: the attention heads that these times are found from.
        fitting: the times of texts, where they have any; it needs ``read``.
        calls_back: whether functions of the caller's read words while the call runs.
    """

    model: Model
    asked: CallOptions
    refining: RefineTextParams
    params: InferCodeParams
    read_texts: ReadTexts
    batch_size: int
    cancelled: Cancellation
    low_latency: LowLatency | None = None
    read: Reader | None = None
    heads: AlignmentHeads = ()
    fitting: Fitting | None = None
    calls_back: bool = False

    @property
    def synthesizer(self) -> Synthesizer:
        """The decoder of the frames of the call."""
        return self.model.synthesizer(self.asked.use_decoder)

    def refined(self) -> list[Utterance]:
        """Return the utterances with the texts that the refine pass gives them."""
        seed = choose_seed(self.refining)
        refining = self._refining(self.read_texts.utterances, seed)
        return run(refining, self.model.gpt, self.cancelled)

    def _refining(self, utterances: Sequence[Utterance], seed: int) -> Routine[list[Utterance]]:
        """Refine the texts of utterances; return these in order."""
        defaults = self.model.config.defaults
        if not defaults.refine_trained:
            logger.info("this checkpoint was not trained to refine texts: they stay as they are")
        if not may_refine(defaults, self.refining.prompt):
            return list(utterances)
        done: list[Utterance] = []
        with progress("refining", "utterance", self.refining.show_tqdm, len(utterances)) as bar:

            def keep(utterance: Utterance) -> None:
                done.append(utterance)
                bar.update()

            yield from refine(
                self.model,
                utterances,
                self.refining,
                seed,
                batch_size=self.batch_size,
                cancelled=self.cancelled,
                tell=keep,
            )
        return sorted(done, key=lambda u: (u.text_index, u.index))

    def waveforms(self, utterances: Sequence[Utterance]) -> Waveforms:
        """Return the whole waveform of every text.

        Raises:
            EmptySpeechError, DurationError: utterances stayed empty, or texts do not fit their
                time; it carries the waveforms of all texts.
        """
        synthesizer = self.synthesizer

        def decoder(utterance: Utterance, playback: PlaybackClock) -> UtteranceDecoder:
            return UtteranceDecoder(synthesizer, whole_schedule(synthesizer))

        assembler = self._assembler(utterances, decoder, waits_for_consumer=False)
        try:
            speak = self._speaker(utterances)
            run(speak(assembler.push), self.model.gpt, self.cancelled)
            assembler.wait(lambda: assembler.is_complete or None)
        finally:
            assembler.leave()
        waveforms = Waveforms(assembler.waveforms(), assembler.texts)
        if self.params.ensure_non_empty and assembler.empty_texts:
            raise EmptySpeechError(assembler.empty_texts, waveforms)
        if self.fitting is not None:
            self.fitting.check(waveforms)
        return waveforms

    def generation(self) -> StreamGeneration:
        """Return what generates all texts for a stream, not begun.

        It holds no thread where the engine pushes its answers, but where the call itself computes
        or calls back, which would hold up other calls.

        The seeds are chosen now, in the caller's thread.
        """
        utterances = self.read_texts.utterances
        synthesizer, params, low_latency = self.synthesizer, self.params, self.low_latency

        def decoder(utterance: Utterance, playback: PlaybackClock) -> UtteranceDecoder:
            schedule: Schedule = JustInTime(
                playback, synthesizer.samples_per_frame, feeds=not synthesizer.by_launches
            )
            if params.stream_batch != InferCodeParams.stream_batch:  # the caller's own size
                schedule = FixedSize(params.stream_batch, synthesizer.samples_per_frame)
            # What the guard holds back is final already when it is given out.
            early = low_latency if utterance.index == 0 and self.asked.guard != RETRY else None
            return UtteranceDecoder(synthesizer, schedule, early)

        refined = None
        if not self.asked.skip_refine_text:  # each batch before it is spoken
            refined = partial(self._refining, seed=choose_seed(self.refining))
        heard_from = -(-synthesizer.reach // 2) + FIRST_FRAMES
        if low_latency is not None:
            heard_from = low_latency.first + low_latency.lookahead
        speak = self._speaker(utterances, refined, heard_from=heard_from)
        assembler = self._assembler(utterances, decoder, waits_for_consumer=True)
        gpt = self.model.gpt
        if gpt.pushes is not None and self.fitting is None and not self.calls_back:
            return GenerationRun(speak, gpt.pushes, assembler, self.cancelled)
        return GenerationThread(told_by(speak, gpt, self.cancelled), assembler, self.cancelled)

    def _assembler(
        self, utterances: Sequence[Utterance], decoder: MakeDecoder, *, waits_for_consumer: bool
    ) -> WaveformAssembler:
        read = self.read_texts
        assembler = WaveformAssembler(
            self.model.decode_worker,
            utterances,
            len(read.left_out),
            decoder,
            waits_for_consumer=waits_for_consumer,
        )
        readings = zip(
            assembler.texts, read.lexicon_uses, read.left_out, read.speakers, strict=True
        )
        for text, uses, left_out, speaker in readings:
            text.lexicon_uses, text.left_out, text.speaker = uses, left_out, speaker
        return assembler

    def _aligner(self) -> MakeAlignment | None:
        """Return what makes the alignments, where the times of words or faults are wanted."""
        if self.read is None:
            return None
        finds_faults = self.asked.guard is not None or self.fitting is not None
        size = self.synthesizer.samples_per_frame
        return aligner(self.model, self.read, size, finds_faults=finds_faults)

    def _speaker(
        self,
        utterances: Sequence[Utterance],
        refine: Refine | None = None,
        *,
        heard_from: int | None = None,
    ) -> Callable[[Tell[UtteranceUpdate]], Routine[None]]:
        """Return what speaks all utterances; raise if one cannot be spoken.

        It tells of their frames or their sound.

        Args:
            refine: refines the utterances of a stream, part by part.
            heard_from: frames that come before the first sound of a stream; ``None`` for whole
                waveforms.
        """
        fitting, fitted = self.fitting, None
        seed = choose_seed(self.params)
        plain = [u for u in utterances if fitting is None or not fitting.has(u.text_index)]
        mends, is_stream = self.asked.guard == RETRY, heard_from is not None
        speech = SpeechPass(
            self.model,
            plain,
            self.params,
            seed,
            batch_size=self.batch_size,
            cancelled=self.cancelled,
            may_restart=mends or not is_stream,
            alignment_heads=self.heads,
            align=self._aligner(),
            mends=mends,
            heard_from=heard_from,
        )
        if fitting is not None:
            fitted = self._fitted_pass(fitting, utterances, seed, refine, is_stream=is_stream)

        def speak(tell: Tell[UtteranceUpdate]) -> Routine[None]:
            with progress("speaking", "frame", self.params.show_tqdm) as bar:

                def count(update: UtteranceUpdate) -> None:
                    bar.update(len(update.delta.ids))
                    tell(update)

                yield from speech.speak(count, refine)
                for update in () if fitted is None else fitted.updates():
                    count(update)
                    yield ()

        return speak

    def _fitted_pass(
        self,
        fitting: Fitting,
        utterances: Sequence[Utterance],
        seed: int,
        refine: Refine | None,
        *,
        is_stream: bool,
    ) -> FittedPass:
        """Return the pass of the texts that have a time."""
        align = self._aligner()
        assert align is not None, "texts with a time need the times of words"
        texts = fitting.timed(utterances)
        speech = SpeechPass(
            self.model,
            [u for text in texts for u in text.utterances],
            self.params,
            seed,
            batch_size=self.batch_size,
            cancelled=self.cancelled,
            alignment_heads=self.heads,
        )
        size = TAKES * self.batch_size
        return FittedPass(
            self.model,
            texts,
            speech,
            TakeDrawer(self.model, self.synthesizer, align, self.cancelled, size),
            fitting.lengths,
            self.cancelled,
            settings=self.params.prompt,
            refine=None if refine is None else self._in_this_thread(refine),
            raises=is_stream and not fitting.may_be_late,
        )

    def _in_this_thread(
        self, refine: Refine
    ) -> Callable[[Sequence[Utterance]], Sequence[Utterance]]:
        return lambda utterances: run(refine(utterances), self.model.gpt, self.cancelled)
