"""The plan of a reading: for each line, the call that speaks it, and the hash that names it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ChatTTSError, NothingToSpeakError, VoiceError
from ..model.lora.names import DEFAULT
from ..params import InferCodeParams, RefineTextParams, as_params
from ..pipeline.utterances import Reading
from ..pipeline.voice import text_speaker
from ..text import prepare
from ..text.emphasis import has_emphasis
from ..text.pauses import paused_parts
from ..version import __version__
from ..voices import VoiceLibrary, find_voice
from .planned import PlannedLine
from .references import with_references
from .script import Line, Script, Style
from .settings import ReadSettings, Role

if TYPE_CHECKING:
    from ..pipeline.loaded_chat import LoadedChat
    from ..pipeline.model import Model

logger = logging.getLogger(__name__)

_FORMAT = 1
_BLOCK = 1 << 20
_FOUND = ("alignment_heads.json", "speech_lengths.json")
# Settings that change no sample.
_UNHEARD = ("show_tqdm", "stream_batch", "stream_speed", "pass_first_n_batches")


@dataclass(frozen=True)
class _Manner:
    """The arguments of all lines with one voice and style, and what of them decides the speech."""

    arguments: Mapping[str, Any]
    decides: str
    tempo: float


def checkpoint_hash(folder: Path) -> str:
    """Return the hash of all files of a checkpoint, by content.

    What a reading may find out and write is left out: the plan has what of it decides the speech.
    """
    digest = hashlib.sha256()
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in _FOUND)
    for path in sorted(files):
        digest.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def sound_identity(model: Model, checkpoint: str) -> list[Any]:
    """Return what decides the speech of every line, beside the line; plain data.

    Args:
        checkpoint: the hash of the model's files.
    """
    placement = model.placement
    return [
        *(_FORMAT, __version__, checkpoint),
        *(placement.device.type, str(placement.dtype), placement.quantization),
        *(type(model.gpt.engine).__name__, model.gpt.kv_cache_dtype),
        *sorted((name, info.digest) for name, info in model.gpt.adapters.items()),
    ]


class Planner:
    """Makes the plan of a script.

    Args:
        chat: with a loaded model.
        model: that model.
        checkpoint: its hash.
        settings: of the reading.

    Raises:
        ConfigError: the voice cannot use the lexicon.
    """

    def __init__(
        self, chat: LoadedChat, model: Model, checkpoint: str, settings: ReadSettings
    ) -> None:
        self._chat, self._model, self._settings = chat, model, settings
        self._reading = Reading(
            chat.normalizer,
            settings.lang,
            settings.normalize,
            do_homophone_replacement=True,
            lexicon=settings.lexicon,
        )
        self._engine = sound_identity(model, checkpoint)
        self._manners: dict[tuple[str | None, Style], _Manner] = {}
        self._library = VoiceLibrary()
        self._speaker: str | None = None  # of lines without a voice

    def plan(self, script: Script) -> tuple[PlannedLine, ...]:
        """Return the lines of an expanded script with their calls; all voices are checked.

        Raises:
            ScriptError: a line cannot be spoken.
        """
        self._speaker = self._default_speaker(script)
        plan = tuple(self._planned(line) for line in script.lines)
        steady = self._settings.steady
        return plan if steady is None else with_references(plan, steady)

    def _default_speaker(self, script: Script) -> str | None:
        """Return the speaker of all lines without a voice, which most of their words choose."""
        settings = self._settings
        text = "\n".join(line.text for line in script.lines if self._role(line).voice is None)
        params = as_params(InferCodeParams, settings.parameters)
        return text_speaker(self._model, params, text, settings.lang)

    def _planned(self, line: Line) -> PlannedLine:
        try:
            manner = self._manner(line)
            texts = self._texts(line) if line.text else []
        except ChatTTSError as error:
            raise line.place.error(str(error)) from error
        if not texts:
            return PlannedLine(line, None, {}, 1.0)
        words = self._words(line) if self._settings.word_times else None
        deciding: list[Any] = [texts, words, manner.decides]
        arguments, tempo = manner.arguments, manner.tempo
        if has_emphasis(line.text):
            deciding.append([line.text, list(self._chat.alignment_heads)])
        if line.duration is not None:
            deciding.append(self._fit(line))
            arguments, tempo = {**arguments, "duration": line.duration}, 1.0
        decides = json.dumps(deciding, ensure_ascii=True)
        key = hashlib.sha256(decides.encode()).hexdigest()
        return PlannedLine(line, key, arguments, tempo, tuple(texts))

    def _fit(self, line: Line) -> list[Any]:
        """Return what decides how the speech of a line is fitted to its duration."""
        lengths = self._model.learned_lengths.known
        known = None if lengths is None else asdict(lengths)
        return [line.duration, line.text, list(self._chat.alignment_heads), known]

    def _words(self, line: Line) -> list[Any]:
        """Return what decides how the words of a line are found, beside its speech."""
        parts = paused_parts(line.text, self._reading.lexicon)
        uses = [use for part in parts for use in part.uses]
        return [line.text, [(use.start_character, use.end_character) for use in uses]]

    def _texts(self, line: Line) -> list[str]:
        """Return the utterances of a line after normalisation; none if nothing can be spoken."""
        parts = paused_parts(line.text, self._reading.lexicon)
        said = " ".join(part.text for part in parts)
        try:
            return list(
                prepare(
                    self._reading.as_words(said),
                    self._chat.normalizer,
                    lang=self._settings.lang,
                    do_text_normalization=self._settings.normalize,
                    do_homophone_replacement=True,
                    split_text=True,
                    max_characters=self._model.config.defaults.max_utterance_characters,
                )
            )
        except NothingToSpeakError as error:
            logger.warning("%s: %s; the line stays silent", line.place, error)
            return []

    def _manner(self, line: Line) -> _Manner:
        key = (line.voice, line.style)
        if key not in self._manners:
            self._manners[key] = self._new_manner(line)
        return self._manners[key]

    def _new_manner(self, line: Line) -> _Manner:
        settings, role = self._settings, self._role(line)
        style = line.style.over(role.style)
        seed = settings.seed if style.seed is None else style.seed
        code = {
            **settings.parameters,
            "manual_seed": seed,
            "show_tqdm": False,
            **self._voice(role.voice),
        }
        if style.temperature is not None:
            code["temperature"] = style.temperature
        if style.speed is not None:
            code["prompt"] = f"[speed_{style.speed}]"
        refine = {"manual_seed": seed, "show_tqdm": False, "prompt": style.refine_tags}
        defaults = self._model.config.defaults
        refines = bool(style.refine_tags) and defaults.refine_trained
        if style.refine_tags and not refines:
            logger.warning(
                "%s: this model was not trained to refine texts; oral, laugh and breaks have no "
                "effect",
                line.place,
            )
        arguments = {
            "lang": settings.lang,
            "do_text_normalization": settings.normalize,
            "lexicon": settings.lexicon,
            "skip_refine_text": not refines,
            "params_infer_code": code,
            "params_refine_text": refine,
            "word_times": settings.word_times,
            "guard": settings.guard,
        }
        checked = as_params(InferCodeParams, code).with_defaults(defaults.code)
        decides = [
            self._engine,
            _plain(vars(checked)),
            _plain(vars(as_params(RefineTextParams, refine).with_defaults(defaults.refine)))
            if refines
            else None,
            settings.guard,
            list(self._chat.alignment_heads) if settings.aligns else None,
        ]
        return _Manner(arguments, json.dumps(decides, sort_keys=True), style.tempo)

    def _role(self, line: Line) -> Role:
        name = self._settings.voice if line.voice is None else line.voice
        return Role(name) if name is None else self._settings.voices.get(name, Role(name))

    def _voice(self, name: str | None) -> dict[str, Any]:
        """Return the parameters of a voice; where the model has no default, one drawn by the seed.

        All lines without a voice must sound alike, also after a resume.
        """
        config, adapters = self._model.config, self._model.gpt.adapters
        found = dict(find_voice(name, config, self._library, adapters).parameters)
        given = self._settings.parameters
        has_own = any(given.get(field) is not None for field in ("spk_emb", "spk_smp", "adapter"))
        if not found and self._speaker is not None:
            return {"spk_emb": self._speaker}
        if found or has_own or config.defaults.speaker or DEFAULT in adapters:
            return found
        import torch

        with torch.random.fork_rng():
            torch.manual_seed(self._settings.seed)
            try:
                return {"spk_emb": self._chat.sample_random_speaker()}
            except VoiceError:  # the model has no statistics of voices
                return {}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as JSON has them; arrays and tensors as the hash of their values."""
    return {name: _value(value) for name, value in values.items() if name not in _UNHEARD}


def _value(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    numbers = np.asarray(value, dtype=np.float64)
    return [list(numbers.shape), hashlib.sha256(numbers.tobytes()).hexdigest()]
