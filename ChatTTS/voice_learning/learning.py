"""From recordings to a speaker string: every step in its order, and what it found."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..checkpoints.assets import AssetFolder
from ..errors import ConfigError, VoiceError, shown
from ..model.speaker import Speaker
from ..params import InferCodeParams
from ..pipeline.model import Model
from ..text.normalizer import Normalizer
from ..utils.progress import progress
from .coded import CodedRecording, encode_recordings
from .fit_checks import other_speakers, wrong_transcripts
from .forecast import Forecast
from .language_model import LanguageModel, check_encoder, load_language_model
from .likelihood import unlikelihood, unlikelihoods
from .recordings import LeftOut, Limits, Recordings, read_recordings
from .sequences import CodeSequence, code_sequence
from .speaker_search import Look, SearchSettings, SpeakerSearch, divided
from .speaker_space import SpeakerSpace

logger = logging.getLogger(__name__)

MOST_SECONDS = 600.0
"""Most sound that a speaker vector is learned from, in seconds. A minute is enough."""

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class LearnedVoice:
    """A speaker that was learned from recordings.

    Attributes:
        speaker: its speaker string.
        before: the speaker string that the search began with.
        began_at: what that was: the name of a known voice, or ``a random speaker``.
        held_before, held: nats a code of the held-out sentences with the two; lower is likelier.
        recordings: those that were used, and those that were left out with the reasons.
        looks: the states of the search.
        seconds: how long the search took.
    """

    speaker: str
    before: str
    began_at: str
    held_before: float
    held: float
    recordings: Recordings
    looks: tuple[Look, ...]
    seconds: float

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Draw how likely the recordings became; return ``path``.

        Raises:
            AudioError: matplotlib is missing, or the picture cannot be written.
        """
        from .picture import plot_search

        title = (
            f"A speaker learned from {self.recordings.seconds:.0f} s: {self.held_before:.3f} "
            f"nats per code before, {self.held:.3f} after"
        )
        return plot_search(self.looks, path, title=title)


@dataclass(frozen=True)
class Learner:
    """A loaded checkpoint, with what learning needs of it.

    Attributes:
        model: the loaded parts.
        folder: the checkpoint's files, from which the language model is loaded once more, since
            engines compute without gradients.
        normalizer: of the transcripts.
        known: speaker strings by name, which a search may begin at.
        seed: of all draws.
        settings: of the search.
        say: called with each line of news.
        show_tqdm: show progress bars on a terminal.
        one_speaker: do not look for other people in the recordings.
    """

    model: Model
    folder: AssetFolder
    normalizer: Normalizer
    known: Mapping[str, str]
    seed: int
    settings: SearchSettings
    say: Say
    show_tqdm: bool
    one_speaker: bool = False

    def learn(self, recordings: Recordings, *, from_sample: bool) -> LearnedVoice:
        """Encode, check and search.

        Args:
            recordings: of one person.
            from_sample: begin at the nearest known voice, and not at random speakers.

        Raises:
            VoiceError: the recordings do not belong together or to their transcripts, or the
                checkpoint has no speakers to search.
            AssetError: the checkpoint has no encoder.
        """
        if from_sample and not self.known:
            raise VoiceError(
                "there is no known voice to start from: this checkpoint has no named speakers, "
                "and the library has none. Leave from_sample off"
            )
        # A caller may be in inference mode, which torch's other switches of gradients do not leave.
        with torch.inference_mode(False):
            return self._learned(recordings, from_sample)

    def _learned(self, recordings: Recordings, from_sample: bool) -> LearnedVoice:
        check_encoder(self.folder)
        placement = replace(self.model.placement, dtype=torch.float32, quantization=None)
        space = SpeakerSpace.of(self.model.speaker, placement.device)
        coded, left = encode_recordings(
            recordings,
            dvae=self.model.dvae,
            normalizer=self.normalizer,
            tokenizer=self.model.tokenizer,
            show_tqdm=self.show_tqdm,
        )
        coded, sequences, left = self._fitting(coded, left)
        language_model = load_language_model(self.folder, self.model.config, placement)
        names = [each.name for each in coded]
        points, labels = self._candidates(space, from_sample)
        search = SpeakerSearch(
            language_model, space, divided(sequences, self.seed, self.settings), *self._how
        )
        pace = search.pace(points[0])
        starts_wanted = 1 if from_sample else self.settings.starts
        steps = self.settings.steps(starts_wanted)
        # The checks compare all recordings twice, and each start once.
        forecast = Forecast(
            steps * pace.step + (len(points) + 2 + starts_wanted) * pace.whole,
            f"learning from {left.seconds:.0f} s of speech in {len(coded)} recordings",
            self.say,
        )
        profiles = self._profiles(
            language_model, space, sequences, points, lambda: forecast.advance(pace.whole)
        )
        chosen = int(profiles.mean(axis=0).argmin())
        faults = wrong_transcripts(language_model, sequences, names, space.vectors(points[chosen]))
        fitting = [i for i, name in enumerate(names) if name not in {f.name for f in faults}]
        if not self.one_speaker:
            faults += other_speakers(profiles[fitting], [names[i] for i in fitting])
        left = left.without(faults).checked()
        used = [i for i, name in enumerate(names) if name not in {f.name for f in faults}]
        means = profiles[used].mean(axis=0)
        starts = [i for i in np.argsort(means) if from_sample == (labels[i] in self.known)]
        starts = starts[:starts_wanted]
        return self._searched(
            language_model,
            space,
            [sequences[i] for i in used],
            {labels[i]: points[i] for i in starts},
            left,
            lambda count: forecast.advance(count * pace.step),
        )

    def _searched(
        self,
        language_model: LanguageModel,
        space: SpeakerSpace,
        sequences: list[CodeSequence],
        starts: Mapping[str, Tensor],
        recordings: Recordings,
        advance: Callable[[int], None],
    ) -> LearnedVoice:
        division = divided(sequences, self.seed, self.settings)
        search = SpeakerSearch(language_model, space, division, *self._how)
        points = list(starts.values())
        begin = time.perf_counter()
        most = self.settings.steps(len(points))
        with progress("learn", "step", self.show_tqdm, total=most) as bar:

            def see(look: Look) -> None:
                if look.step:
                    bar.update(self.settings.every)
                    advance(self.settings.every)
                bar.set_postfix_str(f"{look.held:.3f} nats")
                logger.info(
                    "start %d, step %d: %.4f nats per code learned, %.4f held out",
                    *(look.start, look.step, look.learned, look.held),
                )

            found = search.run(points, see)
        speaker = self.model.speaker
        string = speaker.encode(space.raw(found.point))
        # With the string, which has 16 bits, and not with the vector that was found.
        vector = torch.from_numpy(speaker.vector(string)).to(found.point)
        began_at = next(name for name, at in starts.items() if at is found.start_point)
        return LearnedVoice(
            speaker=string,
            before=self.known.get(began_at) or speaker.encode(space.raw(found.start_point)),
            began_at=began_at if began_at in self.known else "a random speaker",
            held_before=found.start_held,
            held=unlikelihood(language_model, division.held, [vector] * len(division.held)),
            recordings=recordings,
            looks=found.looks,
            seconds=time.perf_counter() - begin,
        )

    @property
    def _how(self) -> tuple[int, SearchSettings]:
        return self.seed, self.settings

    def _fitting(
        self, coded: list[CodedRecording], recordings: Recordings
    ) -> tuple[list[CodedRecording], list[CodeSequence], Recordings]:
        """Return the recordings that the model has positions for, with their sequences.

        A transcript of digits becomes many times as long when it is read out.

        Raises:
            VoiceError: it has them for none.
        """
        most = self.model.config.gpt.max_position_embeddings
        sequences = [self._sequence(each) for each in coded]
        faults = [
            LeftOut(
                one.name,
                f"its transcript, read out, and its sound take {len(sequence)} positions, and the "
                f"model has {most}: it is too long to be said in {one.seconds:.1f} s",
            )
            for one, sequence in zip(coded, sequences, strict=True)
            if len(sequence) > most
        ]
        left = recordings.without(faults).checked()
        names = {each.name for each in left.kept}
        pairs = [pair for pair in zip(coded, sequences, strict=True) if pair[0].name in names]
        return [one for one, _ in pairs], [sequence for _, sequence in pairs], left

    def _sequence(self, coded: CodedRecording) -> CodeSequence:
        prompt = InferCodeParams().with_defaults(self.model.config.defaults.code).prompt
        return code_sequence(self.model.tokenizer, coded.text, coded.codes, prompt=prompt)

    def _candidates(self, space: SpeakerSpace, from_sample: bool) -> tuple[list[Tensor], list[str]]:
        """Return the points and names of known voices and of random speakers."""
        vector = self.model.speaker.vector
        known = [space.point(vector(string)) for string in self.known.values()]
        # Profiles of few speakers tell voices apart less well.
        wanted = 0 if from_sample and len(known) > 1 else self.settings.candidates
        drawn = list(space.drawn(wanted, self.seed))
        return known + drawn, [*self.known, *(f"random speaker {i}" for i in range(len(drawn)))]

    def _profiles(
        self,
        language_model: LanguageModel,
        space: SpeakerSpace,
        sequences: list[CodeSequence],
        points: list[Tensor],
        advance: Callable[[], None],
    ) -> NDArray[np.float64]:
        """Return nats a code by recording and speaker, [recordings, speakers]."""
        found = []
        with progress("compare", "speaker", self.show_tqdm, total=len(points)) as bar:
            for point in points:
                speakers = [space.vectors(point)] * len(sequences)
                found.append(unlikelihoods(language_model, sequences, speakers)[0])
                bar.update()
                advance()
        return np.stack(found, axis=1)


def checked_seed(seed: object) -> int:
    """Return the seed of a search.

    Raises:
        ConfigError: it is no whole number of 0 to 2**63 - 1.
    """
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) < 2**63:
        raise ConfigError(f"seed must be a whole number of 0 to 2**63 - 1, not {shown(seed)}")
    return int(seed)


def usable_speakers(strings: Mapping[str, str], speaker: Speaker) -> dict[str, str]:
    """Return the speaker strings that a checkpoint can read, by name; others give a warning."""
    found = {}
    for name, string in strings.items():
        try:
            speaker.vector(string)
        except VoiceError as error:
            logger.warning("the voice %r is skipped: %s", name, error)
        else:
            found[name] = string
    return found


def recordings_of(
    source: Recordings | str | os.PathLike[str],
    text: str | None,
    seconds: float | None,
    *,
    show_tqdm: bool = False,
) -> Recordings:
    """Return recordings to learn a speaker from, read within its limits.

    Args:
        source: recordings, which are returned as they are, or where they lie.
        text: the transcript of one file.
        seconds: how much speech to take; ``None`` takes all.
        show_tqdm: show a progress bar on a terminal.

    Raises:
        VoiceError: see :func:`~.recordings.read_recordings`.
    """
    if isinstance(source, Recordings):
        return source
    if seconds is not None and not (
        isinstance(seconds, Real) and 0 < float(seconds) <= MOST_SECONDS
    ):
        raise VoiceError(
            f"seconds must be above 0 and at most {MOST_SECONDS:g}, not {shown(seconds)}"
        )
    limits = Limits(most_total=MOST_SECONDS, enough=seconds)
    return read_recordings(source, text, limits=limits, show_tqdm=show_tqdm)
