"""The loaded checkpoint that the pipeline runs on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..config import AlignmentHeads, Config
from ..errors import ConfigError
from ..model.cuda.capture_thread import Capturable
from ..model.devices.placement import Placement
from ..model.dvae import DVAE, MelDecoder
from ..model.gpt import GPT
from ..model.script_tokenizer import ScriptTokenizer
from ..model.speaker import Speaker
from ..model.synthesis.synthesizer import Synthesizer
from ..model.synthesis.vocoder import Vocoder
from ..utils import base16384
from ..utils.lru import LRU
from .decode.worker import DecodeWorker
from .lazy_value import LazyValue
from .speech_lengths import SpeechLengths

# Decoded voices that are kept; a sample of half a minute takes 45 kB.
_VOICES_KEPT = 256


@dataclass(frozen=True)
class Model:
    """All parts of a loaded checkpoint.

    Attributes:
        from_hiddens, from_codes: turn frames into samples: from their hidden states through the
            Decoder, or from their codes through the DVAE.
        decode_worker: the thread that runs these two.
        searched_heads: attention heads for the times of words, if the configuration names none.
        learned_lengths: how long it speaks, by which speech is fitted to its time.
        vectors, samples: caches of decoded speaker strings and sample prompts.
        plain_parts: loads ``decoder``, ``dvae`` and ``vocos`` as plain modules, where they run on
            kernels that the caller did not ask for.
    """

    config: Config
    placement: Placement
    tokenizer: ScriptTokenizer
    speaker: Speaker
    gpt: GPT
    decoder: MelDecoder
    dvae: DVAE
    vocos: Vocoder
    from_hiddens: Synthesizer
    from_codes: Synthesizer
    decode_worker: DecodeWorker
    searched_heads: LazyValue[AlignmentHeads] = field(default_factory=LazyValue)
    learned_lengths: LazyValue[SpeechLengths] = field(default_factory=LazyValue)
    vectors: LRU[str, NDArray[np.float32]] = field(default_factory=lambda: LRU(_VOICES_KEPT))
    samples: LRU[str, NDArray[np.int64]] = field(default_factory=lambda: LRU(_VOICES_KEPT))

    plain_parts: Callable[[], tuple[MelDecoder, DVAE, Vocoder]] | None = None

    @property
    def alignment_heads(self) -> AlignmentHeads:
        """The attention heads of the configuration, else those that were found, if they were."""
        return self.config.defaults.alignment_heads or self.searched_heads.known or ()

    @property
    def capturables(self) -> list[Capturable]:
        """The parts whose launches a GPU captures behind the start, in this order; else none."""
        parts = self.gpt.capturable, self.from_hiddens.capturable, self.from_codes.capturable
        return [part for part in parts if part is not None]

    def synthesizer(self, use_decoder: bool) -> Synthesizer:
        """Return the synthesizer through the Decoder, or the one through the DVAE."""
        return self.from_hiddens if use_decoder else self.from_codes

    def with_plain_parts(self) -> Model:
        """Return a model whose sound comes from plain modules, for scripts that touch them.

        The kernels have packed copies of the weights, so what a script changes in a module would
        have no effect. Kernels that the caller asked for stay.

        Raises:
            ChatTTSError: the files cannot be loaded any more.
        """
        if self.plain_parts is None:
            return self
        decoder, dvae, vocos = self.plain_parts()
        return replace(
            self,
            decoder=decoder,
            dvae=dvae,
            vocos=vocos,
            from_hiddens=Synthesizer(decoder, vocos),
            from_codes=Synthesizer(dvae, vocos),
            plain_parts=None,
        )

    def with_part(self, name: str, part: object) -> Model:
        """Return a model with another ``part``, for scripts that assign ``chat.decoder``.

        A new module of the audio decoder runs as plain torch, without kernels.

        Raises:
            ConfigError: ``part`` is of another class than the one that it replaces.
        """
        kind = type(getattr(self, name))
        if not isinstance(part, kind):
            raise ConfigError(f"{name} must be a {kind.__name__}, not {type(part).__name__}")
        model = replace(self, **{name: part})
        if name not in ("decoder", "dvae", "vocos"):
            return model
        return replace(
            model,
            from_hiddens=Synthesizer(model.decoder, model.vocos),
            from_codes=Synthesizer(model.dvae, model.vocos),
        )

    @property
    def coef(self) -> str:
        """The Decoder's mel scale, as base16384 text of 100 float32."""
        values = self.decoder.coef.detach().cpu().numpy().astype("<f4")
        return base16384.encode(values.tobytes())
