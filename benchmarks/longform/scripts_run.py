"""Speak a dialogue, subtitles in time, and SSML, and listen to them beside plain sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from ChatTTS.audio.samples import SAMPLE_RATE, Samples
from ChatTTS.audio.trim import speech_bounds
from ChatTTS.audio.word_check import check_words
from ChatTTS.core import Chat
from ChatTTS.longform.files import parse_script
from ChatTTS.longform.recording import SpokenPiece
from ChatTTS.longform.script import Script
from ChatTTS.longform.settings import ReadSettings, Role
from recipes.voice.evaluation import heldout

VOICES = ("clara", "miles", "edith", "hugh")
_NAMES = ("Anna", "Bob", "Carl", "Dora")
# Seconds from one cue to the next one; the short ones make the tempo rise.
_STEPS = (4.0, 2.5, 3.0, 2.0)

SSML = """<speak>
<p><s>We walked along the river.</s> <s>The weather was good.</s></p>
<p>It was late. <break time="700ms"/> Nobody was there. <break strength="strong"/> We went home.</p>
<p>She lives in <sub alias="the United Kingdom">UK</sub> now.</p>
<p>The word is spelled <say-as interpret-as="characters">cab</say-as>.</p>
<p>The code is <say-as interpret-as="digits">4071</say-as>.</p>
<p>We met on <say-as interpret-as="date" format="dmy">3.5.2024</say-as>.</p>
<p>Please call <say-as interpret-as="telephone">030 555 12</say-as>.</p>
<p>He came in on the <say-as interpret-as="ordinal">3</say-as> day.</p>
<prosody rate="80%"><p>This sentence is spoken slowly.</p></prosody>
<prosody rate="fast"><p>This sentence is spoken quickly.</p></prosody>
<voice name="edith"><p>Another voice is speaking now.</p></voice>
<p><mark name="end"/>I like <phoneme alphabet="ipa" ph="ˈwɔːtər">water</phoneme> in the morning.</p>
</speak>"""


def run_scripts(folder: Path, count: int = 60, seed: int = 0) -> dict[str, Any]:
    """Run everything and return the figures; sounds are written to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    chat = Chat()
    chat.load_or_raise("bundled", use_vllm=True)
    sentences = list(heldout.everyday()[:count])
    return {
        "dialogue": _dialogue(chat, folder, sentences, seed),
        "cues": _cues(chat, folder, sentences, seed),
        "ssml": _ssml(chat, folder, seed),
    }


def _dialogue(chat: Chat, folder: Path, sentences: Sequence[str], seed: int) -> dict[str, Any]:
    text = "\n".join(
        f"{_NAMES[number % 4]}: {sentence}" for number, sentence in enumerate(sentences)
    )
    roles = {name: Role(voice) for name, voice in zip(_NAMES, VOICES, strict=True)}
    pieces = _spoken(
        chat, folder / "dialogue.wav", parse_script(text, "play", "dialogue"), seed, roles
    )
    voices = [VOICES[number % 4] for number in range(len(pieces))]
    return _words_wrong(chat, pieces, voices, seed)


def _cues(chat: Chat, folder: Path, sentences: Sequence[str], seed: int) -> dict[str, Any]:
    starts, time = [], 1.0
    for number in range(len(sentences)):
        starts.append(time)
        time += _STEPS[number % len(_STEPS)]
    ends = [later - 0.1 for later in [*starts[1:], time]]
    text = "\n".join(
        f"{number}\n{_clock(start)} --> {_clock(end)}\n{sentence}\n"
        for number, (start, end, sentence) in enumerate(
            zip(starts, ends, sentences, strict=True), 1
        )
    )
    path = folder / "cues.wav"
    pieces = _spoken(chat, path, parse_script(text, "film.srt", "cues"), seed)
    sound, _ = soundfile.read(path, dtype="float32")
    # A silent phase of the first word, such as that before a "t", is not the cue's lateness, so
    # the beginning is that of the sound that is kept, which is 20 ms before the first loud frame.
    heard = [
        piece.position + speech_bounds(sound[piece.position : piece.end])[0] for piece in pieces
    ]
    late = [
        1000 * (found / SAMPLE_RATE - start) for found, start in zip(heard, starts, strict=True)
    ]
    return {
        "cues": len(pieces),
        "most_late_ms": round(max(late), 1),
        "most_early_ms": round(-min(late), 1),
        "within_50_ms": sum(abs(each) <= 50 for each in late),
        **_words_wrong(chat, pieces, [None] * len(pieces), seed),
    }


def _ssml(chat: Chat, folder: Path, seed: int) -> dict[str, Any]:
    script = parse_script(SSML, "talk.ssml")
    pieces = [
        piece for piece in _spoken(chat, folder / "ssml.wav", script, seed) if len(piece.samples)
    ]
    silences = {piece.line.text: piece.silence_after / SAMPLE_RATE for piece in pieces}
    return {
        "warnings": len(script.warnings),
        "silence_s": {
            "700ms": silences["It was late."],
            "strong": silences["Nobody was there."],
        },
        **_words_wrong(chat, pieces, [piece.line.voice for piece in pieces], seed),
    }


def _spoken(
    chat: Chat,
    path: Path,
    script: Script,
    seed: int,
    voices: Mapping[str, Role] | None = None,
) -> list[SpokenPiece]:
    settings = ReadSettings(voices=voices or {}, seed=seed)
    with chat.read(script, settings) as recording:
        recording.save(path)
        return list(recording)


def _words_wrong(
    chat: Chat, pieces: Sequence[SpokenPiece], voices: Sequence[str | None], seed: int
) -> dict[str, Any]:
    """Return the words, and those that are skipped or repeated in the work and in plain speech."""
    words = in_work = plainly = 0
    for piece, voice in zip(pieces, voices, strict=True):
        text = chat.normalizer(piece.line.text, lang="en")
        count, wrong = _checked(piece.samples, text)
        words += count
        in_work += wrong
        plainly += _checked(_plain(chat, piece.line.text, voice, seed), text)[1]
    return {"words": words, "wrong": in_work, "wrong_plainly": plainly}


def _plain(chat: Chat, text: str, voice: str | None, seed: int) -> Samples:
    code: dict[str, Any] = {"manual_seed": seed, "show_tqdm": False}
    if voice is not None:
        code["spk_emb"] = chat.config.defaults.speakers[voice]
    return np.asarray(chat.infer(text, skip_refine_text=True, params_infer_code=code)[0])


def _checked(samples: Samples, text: str) -> tuple[int, int]:
    # The recogniser needs some silence around the words.
    quiet = np.zeros(SAMPLE_RATE // 4, dtype=np.float32)
    found = check_words(np.concatenate([quiet, samples, quiet]), text)
    return len(found.words), len(found.skipped) + len(found.repeated)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(1000 * seconds), 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02},{rest % 1000:03}"
