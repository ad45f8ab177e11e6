"""The parts of a loaded checkpoint as attributes, under the names that scripts know."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar, overload

import torch

from ..checkpoints.assets import published_hashes
from ..config import AlignmentHeads, Config
from ..errors import NotLoadedError
from ..model.dvae import DVAE, MelDecoder
from ..model.embed import Embed
from ..model.script_gpt import ScriptGPT
from ..model.script_tokenizer import ScriptTokenizer
from ..model.speaker import Speaker
from ..model.synthesis.vocoder import Vocoder
from ..pipeline.model import Model
from ..utils.lru import CacheCounts

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SOUND = ("decoder", "dvae", "vocos")


class ModelAttribute(Generic[T]):
    """A descriptor of one part of the loaded model, which a script may replace by its own."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, chat: None, owner: type) -> ModelAttribute[T]: ...
    @overload
    def __get__(self, chat: CheckpointAttributes, owner: type) -> T: ...
    def __get__(self, chat: CheckpointAttributes | None, owner: type) -> ModelAttribute[T] | T:
        if chat is None:
            return self
        value: T = getattr(self._touched(chat), self._name)
        return value

    def __set__(self, chat: CheckpointAttributes, value: T) -> None:
        chat._model = self._touched(chat).with_part(self._name, value)

    def _touched(self, chat: CheckpointAttributes) -> Model:
        """Return the model, whose sound comes from plain modules from now on if this is one."""
        model = chat._loaded
        if self._name in _SOUND and model.plain_parts is not None:
            with chat._lock:
                chat._model = model = chat._loaded.with_plain_parts()
            logger.info(
                "chat.%s is used by the script: sound comes from plain modules, which are slower; "
                "load with use_vllm=True to stay on the kernels",
                self._name,
            )
        return model


class CheckpointAttributes:
    """Attributes for the parts of a checkpoint.

    Before a checkpoint is loaded, most of them raise ``NotLoadedError``.
    """

    _model: Model | None = None
    _assigned_device: torch.device | None = None
    _lock: AbstractContextManager[Any]

    tokenizer = ModelAttribute[ScriptTokenizer]()
    speaker = ModelAttribute[Speaker]()
    gpt = ModelAttribute[ScriptGPT]()
    decoder = ModelAttribute[MelDecoder]()
    dvae = ModelAttribute[DVAE]()
    vocos = ModelAttribute[Vocoder]()

    @property
    def _loaded(self) -> Model:
        model = self._model
        if model is None:
            raise NotLoadedError(
                "no checkpoint is loaded: call chat.load(), and check what it returns; "
                'chat.load("bundled") always works'
            )
        return model

    @property
    def config(self) -> Config:
        """Sizes and voice defaults of the checkpoint; the published ones before a load."""
        return Config.published() if self._model is None else self._model.config

    @property
    def alignment_heads(self) -> AlignmentHeads:
        """The attention heads that the times of words are found from; none are searched for."""
        return self._loaded.alignment_heads

    @property
    def gives_attention(self) -> bool:
        """Return whether the engine gives attention, for the times of words and the guard."""
        return self._loaded.gpt.gives_attention

    @property
    def embed(self) -> Embed:
        """The embeddings and heads of the language model, on the engine that has them as modules.

        An engine that was not asked for gives way, see :meth:`~ChatTTS.model.gpt.GPT.use_modules`.
        """
        gpt = self._loaded.gpt
        gpt.use_modules()
        return gpt.embed

    @property
    def coef(self) -> str:
        """The checkpoint's mel scale as base16384 text."""
        return self._loaded.coef

    @property
    def device(self) -> torch.device:
        """The device that the language model runs on."""
        return self._assigned_device or self._loaded.placement.device

    @device.setter
    def device(self, device: str | torch.device) -> None:
        # Old scripts assign it. It moves nothing, as in the published package, and the next load
        # forgets it.
        self._assigned_device = torch.device(device)
        if self._model is not None and self._assigned_device != self._model.placement.device:
            logger.warning(
                "chat.device = %r moves nothing: the model stays on %s; load(device=...) loads it "
                "elsewhere",
                str(device),
                self._model.placement.device,
            )

    @property
    def device_gpt(self) -> torch.device:
        """The device that prompts for the language model belong on."""
        return self._loaded.placement.device

    @property
    def sha256_map(self) -> dict[str, str]:
        """The published hashes, by names such as ``sha256_asset_DVAE_safetensors``."""
        return published_hashes()

    @property
    def voice_caches(self) -> dict[str, CacheCounts]:
        """Hits and misses of the caches of decoded speaker strings and sample prompts."""
        model = self._loaded
        return {"speaker": model.vectors.counts, "sample": model.samples.counts}
