"""A speaker learned from recordings of one person."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from .library import VoiceLibrary

if TYPE_CHECKING:
    from ..pipeline.loaded_chat import LoadedChat
    from ..voice_learning.learning import LearnedVoice
    from ..voice_learning.recordings import Recordings

logger = logging.getLogger(__name__)


def learn(
    chat: LoadedChat,
    recordings: Recordings | str | os.PathLike[str],
    text: str | None = None,
    *,
    seconds: float | None = None,
    from_sample: bool = False,
    library: VoiceLibrary | None = None,
    one_speaker: bool = False,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
    show_tqdm: bool = True,
) -> LearnedVoice:
    """Learn a speaker from recordings of one person.

    The recordings are checked, normalised and encoded by the checkpoint's codec. Then the speaker
    vector alone is changed, until the codes are likeliest; see ``docs/voices.md``. Adapters have no
    part in it. Nothing is saved, and the loaded model stays as it is.

    Args:
        chat: with a loaded checkpoint, on either engine. Its device is used, in float32.
        recordings: a folder (LJSpeech's ``metadata.csv``, or ``NAME.txt`` beside each sound file),
            one sound file, or what ``read_recordings`` returned. Ten seconds are few, a minute is
            enough, and more than ten minutes are refused.
        text: the transcript of one file.
        seconds: take so much speech of the folder.
        from_sample: begin at the nearest known voice, of the checkpoint or of ``library``, and not
            at random speakers.
        library: the voices that ``from_sample`` may begin at.
        one_speaker: do not look for other people in the recordings, which takes a person whose
            voice changes for several.
        seed: equal seeds give equal results on one machine.
        say: called with news, such as how long it will take; they are logged by default.
        show_tqdm: show progress bars on a terminal.

    Raises:
        VoiceError: the recordings cannot be used; the message names them and the remedy.
        ConfigError: the seed is no whole number of 0 to 2**63 - 1.
        AssetError: the checkpoint has no encoder.
        NotLoadedError: no checkpoint is loaded.
    """
    from ..checkpoints.assets import AssetFolder
    from ..voice_learning.learning import Learner, checked_seed, recordings_of, usable_speakers
    from ..voice_learning.speaker_search import SearchSettings

    model = chat._loaded
    width = model.config.gpt.hidden_size
    saved = [] if library is None else library.readable()
    own = {v.name: v.speaker for v in saved if v.speaker and v.width == width}
    learner = Learner(
        model=model,
        folder=AssetFolder(chat._files, "custom"),
        normalizer=chat.normalizer,
        known={**model.config.defaults.speakers, **usable_speakers(own, model.speaker)},
        seed=checked_seed(seed),
        settings=SearchSettings(),
        say=say or logger.info,
        show_tqdm=show_tqdm,
        one_speaker=one_speaker,
    )
    found = recordings_of(recordings, text, seconds, show_tqdm=show_tqdm)
    return learner.learn(found, from_sample=from_sample)
