"""The stage ``prepare``: recordings as codes, and speech of the base itself, kept in ``data/``."""

from __future__ import annotations

import logging
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ChatTTS.core import Chat
from ChatTTS.errors import AssetError, VoiceError
from ChatTTS.model.generation import Cancellation
from ChatTTS.params import InferCodeParams
from ChatTTS.pipeline.sample_sentences import sample_sentences
from ChatTTS.pipeline.speech_pass import SpeechPass
from ChatTTS.pipeline.utterance import Utterance
from ChatTTS.text import prepare
from ChatTTS.voice_learning.coded import encode_recordings
from ChatTTS.voice_learning.language_model import LanguageModel, check_encoder
from ChatTTS.voice_learning.likelihood import unlikelihood
from ChatTTS.voice_learning.recordings import read_recordings
from ChatTTS.voice_learning.sequences import CodeSequence, code_sequence

from .run import Run

logger = logging.getLogger(__name__)

_HELD_OUT, _MOST_HELD_OUT = 0.1, 12  # share of the recordings, and their largest number
_RANDOM_SPEAKERS = 24  # candidates for the speaker, beside those that the base knows
_COMPARED = 8  # recordings by which candidates are compared
_TOGETHER = 24  # utterances that the base speaks at once


@dataclass(frozen=True, eq=False)
class Line:
    """An utterance to learn from.

    Attributes:
        text: what is said, as the model reads it.
        codes: int64 [frames, num_codebooks].
        speaker: the vector in its prompt, float32 [hidden].
        name: of the recording; empty where there is none.
    """

    text: str
    codes: NDArray[np.int64]
    speaker: NDArray[np.float32]
    name: str = ""


@dataclass(frozen=True, eq=False)
class Corpus:
    """What is learned, and what must not be forgotten; some of both is held out.

    Attributes:
        speaker: the speaker string of the voice.
        own, own_held: recordings.
        base, base_held: speech of the base, with other speakers.
    """

    speaker: str
    own: tuple[Line, ...]
    own_held: tuple[Line, ...]
    base: tuple[Line, ...]
    base_held: tuple[Line, ...]

    def save(self, path: Path) -> None:
        """Write it; an earlier file is replaced once the new one is complete."""
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, NDArray[np.generic]] = {"speaker": np.array(self.speaker)}
        for name in _SETS:
            lines: tuple[Line, ...] = getattr(self, name)
            width = lines[0].codes.shape[1] if lines else 1
            arrays |= {
                f"{name}.texts": np.array([line.text for line in lines], dtype=np.str_),
                f"{name}.names": np.array([line.name for line in lines], dtype=np.str_),
                f"{name}.frames": np.array([len(line.codes) for line in lines], dtype=np.int64),
                f"{name}.codes": np.concatenate(
                    [np.zeros((0, width), np.int64), *(line.codes for line in lines)]
                ),
                f"{name}.speakers": np.array([line.speaker for line in lines], dtype=np.float32),
            }
        partial = path.with_suffix(".partial.npz")
        np.savez_compressed(partial, **arrays)  # type: ignore[arg-type, unused-ignore]
        os.replace(partial, path)

    @classmethod
    def read(cls, path: Path) -> Corpus:
        """Read what :meth:`save` wrote.

        Raises:
            AssetError: it is missing or damaged.
        """
        try:
            # NumPy leaves a damaged archive open that it has opened itself.
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
            sets = {name: _lines(found, name) for name in _SETS}
            return cls(str(found["speaker"]), **sets)
        except FileNotFoundError:
            raise AssetError(f"{path} is missing: run the stage `prepare` first") from None
        except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
            raise AssetError(
                f"{path} is damaged ({error}): delete it, and run the stage `prepare` again"
            ) from error


_SETS = ("own", "own_held", "base", "base_held")


def _lines(found: dict[str, NDArray[np.generic]], name: str) -> tuple[Line, ...]:
    frames = found[f"{name}.frames"].astype(np.int64)
    codes = np.split(found[f"{name}.codes"].astype(np.int64), np.cumsum(frames)[:-1])
    texts, speakers = found[f"{name}.texts"], found[f"{name}.speakers"].astype(np.float32)
    names = found[f"{name}.names"]
    return tuple(
        Line(str(text), own, speaker, str(recording))
        for text, own, speaker, recording in zip(texts, codes, speakers, names, strict=False)
        if len(frames)
    )


def path_of(run: Run) -> Path:
    """Return the file of a run's corpus."""
    return run.out / "data" / "corpus.npz"


def main(run: Run) -> None:
    """Read, check and encode the recordings, choose the speaker, and have the base speak.

    Raises:
        VoiceError: the recordings cannot be used.
        AssetError: the base has no encoder.
    """
    run.keep_settings()
    if path_of(run).exists():
        logger.info("prepare: %s is there", path_of(run))
        return
    check_encoder(run.folder)
    settings, chat = run.settings, run.load()
    recordings = read_recordings(settings.recordings, settings.transcript)
    model = chat._loaded
    coded, left = encode_recordings(
        recordings, dvae=model.dvae, normalizer=chat.normalizer, tokenizer=model.tokenizer
    )
    for each in left.left_out:
        logger.warning("left out: %s: %s", each.name, each.reason)
    order = np.random.default_rng(settings.seed).permutation(len(coded))
    held = min(_MOST_HELD_OUT, max(1, round(_HELD_OUT * len(coded)))) if len(coded) > 1 else 0
    texts = [each.text for each in coded]
    language_model = run.language_model()
    lines = [Line(each.text, each.codes, np.zeros(0, np.float32), each.name) for each in coded]
    chosen = [lines[index] for index in order]
    speaker = choose_speaker(run, chat, language_model, chosen[held:][:_COMPARED])
    vector = chat.speaker.vector(speaker)
    own = [replace(line, speaker=vector) for line in chosen]
    base = rehearsal(chat, [*texts, *sample_sentences(chat.config.defaults.language)], run)
    kept = max(1, round(_HELD_OUT * len(base)))
    corpus = Corpus(speaker, *map(tuple, (own[held:], own[:held], base[kept:], base[:kept])))
    corpus.save(path_of(run))
    chat.unload()
    seconds = sum(each.seconds for each in coded)
    logger.info(
        "prepare: %d recordings, %.0f s, %d of them held out; %d utterances of the base",
        *(len(coded), seconds, held, len(base)),
    )


def prompt_of(chat: Chat) -> str:
    """Return the control tags before a text, as requests without settings have them."""
    return InferCodeParams().with_defaults(chat.config.defaults.code).prompt


def sequences_of(chat: Chat, lines: Sequence[Line]) -> list[CodeSequence]:
    """Return the sequences of utterances after the prompts that inference gives them."""
    tokenizer, prompt = chat._loaded.tokenizer, prompt_of(chat)
    return [code_sequence(tokenizer, line.text, line.codes, prompt=prompt) for line in lines]


def choose_speaker(run: Run, chat: Chat, model: LanguageModel, lines: Sequence[Line]) -> str:
    """Return the speaker string with which the recordings are likeliest.

    Candidates are the speakers that the base knows, and random ones; or the run's own choice.
    """
    asked = run.settings.speaker
    known = dict(chat.config.defaults.speakers)
    if asked is not None:
        string = known.get(asked, asked)
        chat.speaker.vector(string)  # raises for what is no speaker
        return string
    candidates = list(known.values())
    if chat.config.spk_stat:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.settings.seed)
            candidates += [chat.sample_random_speaker() for _ in range(_RANDOM_SPEAKERS)]
    if not candidates:
        raise VoiceError(
            "this checkpoint knows no speakers and has no statistics to draw them from: give one "
            "with --speaker"
        )
    sequences = sequences_of(chat, lines)
    found = {
        string: unlikelihood(model, sequences, [chat.speaker.vector(string)] * len(lines))
        for string in candidates
    }
    best = min(found, key=lambda string: found[string])
    name = next((name for name, string in known.items() if string == best), "a random one")
    logger.info("the likeliest of %d speakers is %s: %.3f nats", len(found), name, found[best])
    return best


def rehearsal(chat: Chat, texts: Sequence[str], run: Run) -> list[Line]:
    """Have the base speak texts with its own speakers and with random ones, in turn."""
    defaults = chat.config.defaults
    speakers = list(defaults.speakers.values())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.settings.seed + 1)
        if chat.config.spk_stat:
            speakers += [chat.sample_random_speaker() for _ in range(max(4, len(speakers)))]
    wanted = run.settings.rehearsed
    lines: list[Line] = []
    for number, speaker in enumerate(speakers):
        share = -(-(wanted - len(lines)) // (len(speakers) - number))
        spoken = [texts[(number + i * len(speakers)) % len(texts)] for i in range(share)]
        codes = spoken_codes(chat, spoken, speaker, seed=run.settings.seed + number)
        vector = chat.speaker.vector(speaker)
        lines += [Line(text, own, vector) for text, own in codes]
    order = np.random.default_rng(run.settings.seed).permutation(len(lines))
    return [lines[index] for index in order]


def spoken_codes(
    chat: Chat, texts: Sequence[str], speaker: str, *, seed: int
) -> list[tuple[str, NDArray[np.int64]]]:
    """Return the first utterance of each text and its codes, of those that came to their end."""
    utterances = [
        Utterance(i, 0, prepare(text, chat.normalizer)[0], first=i) for i, text in enumerate(texts)
    ]
    params = InferCodeParams(spk_emb=speaker, show_tqdm=False, ensure_non_empty=False)
    params = params.with_defaults(chat.config.defaults.code)
    codes: dict[Utterance, list[torch.Tensor]] = {u: [] for u in utterances}
    ended: list[Utterance] = []
    for update in SpeechPass(
        chat._loaded,
        utterances,
        params,
        seed,
        batch_size=_TOGETHER,
        cancelled=Cancellation(),
    ).updates():
        codes[update.utterance].append(update.delta.ids)
        if update.delta.finish is not None and update.delta.finish.value == "stop":
            ended.append(update.utterance)
    found = [(u.text, torch.cat(codes[u]).numpy().astype(np.int64)) for u in ended]
    return [(text, own) for text, own in found if len(own)]
