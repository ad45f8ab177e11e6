"""The stage ``evaluate``: how near the voice comes, and that the old ones are as they were.

Word error rates are those of the recogniser of the bundled voice's recipe, which knows English.
Likeness is the cosine of voice prints, scaled over the recordings and the base's own voices. The
recordings through the codec are the most that a language model can learn; a tuned Decoder learns
from the recordings themselves.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ChatTTS.core import Chat
from ChatTTS.model.dvae import MelDecoder
from ChatTTS.voice_learning.likelihood import unlikelihood
from ChatTTS.voice_learning.recordings import read_recordings

from ..voice.evaluation.speech_metrics import (
    Samples,
    VoiceSimilarity,
    recognise,
    voice_print,
    word_errors,
)
from ..voice.evaluation.subject import through_codec
from ..voice.processes import in_processes
from .corpus import Corpus, Line, path_of, sequences_of
from .decoder import (
    Example,
    base_examples,
    hiddens_of,
    is_tuned,
    load_base_decoder,
    load_tuned_decoder,
    mel_of,
    own_examples,
)
from .export import ADAPTER, DECODER, trained_adapter
from .run import Run
from .task import load_tuned

logger = logging.getLogger(__name__)

Result = dict[str, Any]

_SENTENCES = 12  # of the held-out recordings; fewer are filled up with those that were learned
_OLD_VOICES = 3
_RECOGNISED = 24  # recordings at most; recognising takes longer than all else here
_VOICE, _COPIES = "recordings", "copies"  # the copies are the recordings through the codec
_ADAPTER, _DECODER, _READ = "adapter", "decoder", "read_by_decoder"


def main(run: Run) -> Result:
    """Measure, and write ``evaluation.json``."""
    corpus = Corpus.read(path_of(run))
    results: Result = {
        "adapter": trained_adapter(run).info.digest[:16],
        "recordings": len(corpus.own) + len(corpus.own_held),
        "held_out": len(corpus.own_held),
        "rank": run.settings.rank,
        "nats_per_code": _likelihoods(run, corpus),
        **({"mel_distance": _mel_distances(run, corpus)} if is_tuned(run) else {}),
        **_speech(run, corpus),
    }
    path = run.out / "evaluation.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)
    logger.info("%s", json.dumps(results))
    return results


def _likelihoods(run: Run, corpus: Corpus) -> Result:
    """Return minus log likelihoods, before and after, of held-out recordings and of the base."""
    chat = run.load()
    found: Result = {}
    sets = {"recordings": corpus.own_held or corpus.own, "base": corpus.base_held}
    for when, model in (
        ("before", run.language_model()),
        ("after", load_tuned(run).language_model),
    ):
        for name, lines in sets.items():
            vectors = [line.speaker for line in lines]
            nats = unlikelihood(model, sequences_of(chat, lines), vectors)
            found.setdefault(name, {})[when] = round(nats, 3)
    chat.unload()
    return found


def _mel_distances(run: Run, corpus: Corpus) -> Result:
    """Return mean absolute differences of log-mels: to held-out recordings, and to the base's own.

    For recordings the states are the adapter's. For speech of the base they are those of the base
    (``base``) and of the adapter (``merged``).
    """
    chat, tuned = run.load(), load_tuned(run)
    untuned, decoder = load_base_decoder(run), load_tuned_decoder(run, tuned)
    own = own_examples(run, chat, tuned, corpus.own_held or corpus.own)
    base = base_examples(run, chat, tuned, untuned, corpus.base_held)
    chat.unload()
    half = len(base) // 2
    return {
        name: {
            when: round(float(np.mean([_distance(each, part) for part in parts])), 3)
            for when, each in (("before", untuned), ("after", decoder))
        }
        for name, parts in (("recordings", own), ("base", base[:half]), ("merged", base[half:]))
    }


def _distance(decoder: MelDecoder, example: Example) -> float:
    return float((mel_of(decoder, example.hidden) - example.mel).abs().mean())


def _speech(run: Run, corpus: Corpus) -> Result:
    plain, name = run.load(), run.settings.name
    chats = {_ADAPTER: run.load(adapter={name: run.out / ADAPTER})}
    if is_tuned(run):
        chats[_DECODER] = run.load(run.out / DECODER, adapter={name: run.out / ADAPTER})
    kept = read_recordings(run.settings.recordings, run.settings.transcript).kept
    recorded = [each.samples for each in kept]
    copied = [through_codec(plain, wave) for wave in recorded]
    lines = [line.text for line in (*corpus.own_held, *corpus.own)][:_SENTENCES]
    old = _old_voices(plain, corpus)
    before = {voice: _say(plain, lines, spk_emb=string) for voice, string in old.items()}
    waves = {"base": _say(plain, lines, spk_emb=corpus.speaker)}
    waves |= {kind: _say(chat, lines, adapter=name) for kind, chat in chats.items()}
    if is_tuned(run):
        waves[_READ] = _read_aloud(run, chats[_DECODER], (*corpus.own_held, *corpus.own))
    prints = {
        voice: [voice_print(wave) for wave in own]
        for voice, own in ((_VOICE, recorded), (_COPIES, copied))
    }
    prints |= {voice: [voice_print(w) for w in said if len(w)] for voice, said in before.items()}
    scale = VoiceSimilarity.of(prints)
    results: Result = {
        "sentences": len(lines),
        **{
            f"likeness_to_{voice}": {
                kind: _likeness(scale, said, voice)
                for kind, said in ((_VOICE, recorded), (_COPIES, copied), *waves.items())
            }
            for voice in (_VOICE, _COPIES)
        },
        "word_error_rate": {
            **{
                kind: _errors(run, [e.text for e in kept[:_RECOGNISED]], own[:_RECOGNISED])
                for kind, own in ((_VOICE, recorded), (_COPIES, copied))
            },
            **{kind: _errors(run, lines, said) for kind, said in waves.items()},
        },
        "old_voices": {},
    }
    for voice, string in old.items():
        beside = _say(chats[_ADAPTER], lines, spk_emb=string)  # it is loaded, and not asked for
        said = {"": before[voice]}
        said["_through_adapter"] = _say(chats[_ADAPTER], lines, spk_emb=string, adapter=name)
        if is_tuned(run):
            said["_with_decoder"] = _say(chats[_DECODER], lines, spk_emb=string)
            said["_merged"] = _say(chats[_DECODER], lines, spk_emb=string, adapter=name)
        results["old_voices"][voice] = {
            "equal_without_adapter": all(
                np.array_equal(a, b) for a, b in zip(before[voice], beside, strict=True)
            ),
            **{f"likeness{how}": _likeness(scale, each, voice) for how, each in said.items()},
            **{f"word_error_rate{how}": _errors(run, lines, each) for how, each in said.items()},
        }
    for chat in (plain, *chats.values()):
        chat.unload()
    return results


def _read_aloud(run: Run, chat: Chat, lines: Sequence[Line]) -> list[Samples]:
    """Return recordings as the tuned Decoder renders them, of the states that read their codes."""
    hiddens = hiddens_of(load_tuned(run).language_model, chat, lines[:_SENTENCES])
    return [chat._loaded.from_hiddens.samples(hidden).numpy() for hidden in hiddens]


def _old_voices(chat: Chat, corpus: Corpus) -> dict[str, str]:
    """Return some speakers of the base, by name; of speech of the base where it has no names."""
    named = dict(chat.config.defaults.speakers)
    vectors = {line.speaker.tobytes(): line.speaker for line in corpus.base_held}
    strings = named or {f"base {i}": chat.speaker.encode(v) for i, v in enumerate(vectors.values())}
    return dict(list(strings.items())[:_OLD_VOICES])


def _say(chat: Chat, lines: Sequence[str], **code: Any) -> list[Samples]:
    settings = {"manual_seed": 1, "show_tqdm": False, "ensure_non_empty": False, **code}
    said: list[Samples] = chat.infer(list(lines), skip_refine_text=True, params_infer_code=settings)
    return list(said)


def _likeness(scale: VoiceSimilarity, waves: Sequence[Samples], voice: str) -> float:
    """Return the mean likeness of waves to a voice, -1 to 1."""
    found = [scale.similarities(wave)[voice] for wave in waves if len(wave)]
    return round(float(np.mean(found)), 3) if found else 0.0


def _errors(run: Run, lines: Sequence[str], waves: Sequence[Samples]) -> float:
    heard = list(in_processes(recognise, waves, run.workers))
    return round(word_errors(lines, heard).rate, 2)
