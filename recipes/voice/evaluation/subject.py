"""The voice that is evaluated, its teacher, and a recogniser that listens to both."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ChatTTS.checkpoints.assets import locate
from ChatTTS.core import Chat
from ChatTTS.pipeline.results import Waveforms

from ..corpus import DEFAULT_SPEED
from ..processes import in_processes
from ..styles import CAST
from . import heldout
from .speech_metrics import Samples, VoiceSimilarity, recognise, voice_print, word_errors
from .taught import Taught

Result = dict[str, Any]

_TOGETHER = 64  # texts per call


def error_rate(lines: Sequence[str], heard: Sequence[Sequence[str]]) -> float:
    """Return the word error rate in percent, rounded for the report."""
    return round(word_errors(lines, heard).rate, 2)


def through_codec(chat: Chat, samples: Samples) -> Samples:
    """Encode samples with a checkpoint's codec, and decode them again."""
    model = chat._loaded
    with torch.inference_mode():
        codes = model.dvae.encode(torch.from_numpy(samples)[None])[0]
    copied: Samples = model.from_codes.samples(codes.T).numpy()
    return copied


@dataclass
class Subject:
    """The voice that is measured.

    Attributes:
        checkpoint: the folder that holds ``asset``, or ``None`` for the voice in the package.
        workers: processes of the recogniser.
        seed: seed of the draws.
        teacher: the teacher's speech, for the measurements that compare with it.
    """

    checkpoint: Path | None = None
    workers: int | None = None
    seed: int = 1
    teacher: Taught = field(default_factory=Taught)
    _recognised: dict[tuple[str, str], list[str]] = field(default_factory=dict, repr=False)

    @property
    def asset(self) -> Path:
        """The folder of the checkpoint's files."""
        source = "bundled" if self.checkpoint is None else "custom"
        return locate(source, self.checkpoint).asset

    @cached_property
    def chat(self) -> Chat:
        """The checkpoint on the velocity engine, in float32."""
        return self.load(use_vllm=True)

    def load(self, use_vllm: bool) -> Chat:
        """Load the checkpoint on the velocity or the standard engine."""
        chat = Chat()
        source = "bundled" if self.checkpoint is None else "custom"
        chat.load_or_raise(source, custom_path=self.checkpoint, device="cpu", use_vllm=use_vllm)
        return chat

    def say(
        self,
        lines: Sequence[str],
        chat: Chat | None = None,
        use_decoder: bool = True,
        split_text: bool = True,
        **code: Any,
    ) -> list[Samples]:
        """Speak each line; settings are those of ``InferCodeParams``."""
        waves: list[Samples] = []
        for begin in range(0, len(lines), _TOGETHER):
            part = lines[begin : begin + _TOGETHER]
            waves += self.waveforms(part, chat, use_decoder, split_text, **code)
        return waves

    def waveforms(
        self,
        lines: Sequence[str],
        chat: Chat | None = None,
        use_decoder: bool = True,
        split_text: bool = True,
        **code: Any,
    ) -> Waveforms:
        """Speak a few lines, and keep why each ended. An empty result raises no error."""
        settings = {
            "manual_seed": self.seed,
            "show_tqdm": False,
            "ensure_non_empty": False,
            **code,
        }
        found: Waveforms = (chat or self.chat).infer(
            list(lines),
            skip_refine_text=True,
            use_decoder=use_decoder,
            split_text=split_text,
            params_infer_code=settings,
        )
        return found

    def teacher_speech(self, line: str, voice: str, speed: int = DEFAULT_SPEED) -> Samples:
        """Return the line spoken by the teacher."""
        return self.teacher.speak(line, voice, speed).samples

    def through_codec(self, samples: Samples) -> Samples:
        """Encode samples with the codec, and decode them again."""
        return through_codec(self.chat, samples)

    def recognise(self, waves: Sequence[Samples]) -> list[list[str]]:
        """Return the recognised words of each wave."""
        return list(in_processes(recognise, waves, self.workers))

    def errors(self, lines: Sequence[str], waves: Sequence[Samples]) -> float:
        """Return the word error rate in percent."""
        return error_rate(lines, self.recognise(waves))

    def teacher_errors(self, lines: Sequence[str], voice: str) -> float:
        """Return the teacher's word error rate, which is measured once and cached."""
        missing = [line for line in lines if (line, voice) not in self._recognised]
        heard = self.recognise([self.teacher_speech(line, voice) for line in missing])
        self._recognised.update(zip(((line, voice) for line in missing), heard, strict=True))
        return error_rate(lines, [self._recognised[line, voice] for line in lines])

    @cached_property
    def checksum(self) -> str:
        """A checksum of all files of the checkpoint."""
        value = 0
        for file in sorted(path for path in self.asset.rglob("*") if path.is_file()):
            value = zlib.crc32(file.read_bytes(), value)
        return f"{value:08x}"

    @cached_property
    def voice_similarity(self) -> VoiceSimilarity:
        """The similarity of voices, from thirty of the teacher's sentences per voice."""
        lines = heldout.everyday()[-30:]
        return VoiceSimilarity.of(
            {v: [voice_print(self.teacher_speech(line, v)) for line in lines] for v in CAST}
        )
