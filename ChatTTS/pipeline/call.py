"""One call of ``infer`` or ``stream``: utterances -> (refined) -> frames -> samples."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..audio.samples import SAMPLE_RATE
from ..config import AlignmentHeads
from ..model.generation import Cancellation
from ..model.synthesis.synthesizer import Synthesizer
from ..model.tokenizer import Tokenizer, spoken_part
from ..params import InferCodeParams, LowLatency, RefineTextParams
from ..text.alignment import text_columns
from ..text.spoken_words import Reader
from ..text.tags import without_border_breaks
from ..utils.progress import progress
from .alignment.utterance_alignment import UtteranceAlignment
from .assembly import MakeDecoder, WaveformAssembler
from .attempts import MakeAlignment
from .call_arguments import RETRY
from .decode.schedules import (
    FIRST_FRAMES,
    FixedSize,
    JustInTime,
    PlaybackClock,
    Schedule,
    WholeUtterance,
)
from .decode.utterance_decoder import UtteranceDecoder
from .decode.worker import MAX_FRAMES
from .model import Model
from .refine_pass import may_refine, refine
from .requests import choose_seed
from .results import EmptySpeechError, Waveforms
from .speech_pass import SpeechPass
from .streams import GenerationThread
from .utterance import Utterance, UtteranceUpdate
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
        if not may_refine(defaults, params.prompt):
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
            pieces = FixedSize(MAX_FRAMES, synthesizer.samples_per_frame)
            schedule = pieces if synthesizer.is_exact else WholeUtterance()
            return UtteranceDecoder(synthesizer, schedule)

        assembler = self._assembler(utterances, decoder, waits_for_consumer=False)
        try:
            speech = self._speech_pass(utterances, params, synthesizer)
            for update in _with_progress(speech.updates(), params.show_tqdm):
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
        heard_from = -(-synthesizer.reach // 2) + FIRST_FRAMES
        if low_latency is not None:
            heard_from = low_latency.first + low_latency.lookahead
        speech = self._speech_pass(utterances, params, synthesizer, heard_from=heard_from)
        batches = speech.batches() if refined is None else map(refined, speech.batches())
        updates = _with_progress(speech.updates(batches), params.show_tqdm)
        assembler = self._assembler(utterances, decoder, waits_for_consumer=True)
        return GenerationThread(updates, assembler, self.cancelled)

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
        readings = zip(assembler.texts, read.lexicon_uses, read.left_out, strict=True)
        for text, uses, left_out in readings:
            text.lexicon_uses, text.left_out = uses, left_out
        return assembler

    def _aligner(self, samples_per_frame: int) -> MakeAlignment | None:
        """Return what makes the alignments, where the times of words or faults are wanted."""
        if self.read is None:
            return None
        delay = round(self.model.config.defaults.alignment_delay * SAMPLE_RATE)
        finds_faults = self.guard is not None
        return partial(
            _align, self.model.tokenizer, self.read, samples_per_frame, delay, finds_faults
        )

    def _speech_pass(
        self,
        utterances: Sequence[Utterance],
        params: InferCodeParams,
        synthesizer: Synthesizer,
        *,
        heard_from: int | None = None,
    ) -> SpeechPass:
        """Return the speech pass of the call; raise if an utterance cannot be spoken.

        Args:
            heard_from: frames that come before the first sound of a stream; ``None`` for whole
                waveforms.
        """
        mends, is_stream = self.guard == RETRY, heard_from is not None
        # Sound that was given out cannot be generated again.
        holds_back = is_stream and mends
        return SpeechPass(
            self.model,
            utterances,
            params,
            choose_seed(params),
            batch_size=self.batch_size,
            cancelled=self.cancelled,
            first_alone=is_stream,
            may_restart=holds_back or not is_stream,
            holds_back=holds_back,
            alignment_heads=self.heads,
            align=self._aligner(synthesizer.samples_per_frame),
            mends=mends,
            heard_from=None if holds_back else heard_from,
        )


def _with_progress(
    updates: Iterator[UtteranceUpdate], show_tqdm: bool
) -> Iterator[UtteranceUpdate]:
    """Pass the updates on, and count their frames in a progress bar."""
    with progress("speaking", "frame", show_tqdm) as bar:
        for update in updates:
            bar.update(len(update.delta.ids))
            yield update


def _align(
    tokenizer: Tokenizer,
    read: Reader,
    samples_per_frame: int,
    delay: int,
    finds_faults: bool,
    utterance: Utterance,
) -> UtteranceAlignment:
    """Return the alignment of an attempt at an utterance, without frames.

    Args:
        read: returns the spoken form of a written word.
        samples_per_frame: of the synthesizer.
        delay: samples by which the attention moves on behind the sound.
    """
    spoken = spoken_part(utterance.spoken)
    columns = text_columns(spoken, tokenizer.offsets(spoken), utterance.words, read)
    silence = round(without_border_breaks(utterance.text).before * SAMPLE_RATE) + utterance.before
    return UtteranceAlignment(columns, silence, samples_per_frame, delay, finds_faults=finds_faults)
