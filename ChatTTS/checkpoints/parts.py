"""What a loaded checkpoint consists of, under the names that scripts know."""

from __future__ import annotations

import logging
from typing import Generic, TypeVar, overload

import torch

from ..config import Config
from ..errors import NotLoadedError
from ..model.dvae import DVAE, MelDecoder
from ..model.embed import Embed
from ..model.gpt import GPT
from ..model.script_tokenizer import ScriptTokenizer
from ..model.speaker import Speaker
from ..model.vocoder import Vocoder
from ..pipeline.model import Model
from ..utils.lru import CacheCounts
from .assets import published_hashes

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Part(Generic[T]):
    """A part of the loaded model. A script may put one of its own in its place."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, parts: None, owner: type) -> Part[T]: ...
    @overload
    def __get__(self, parts: Parts, owner: type) -> T: ...
    def __get__(self, parts: Parts | None, owner: type) -> Part[T] | T:
        if parts is None:
            return self
        value: T = getattr(parts._loaded, self._name)
        return value

    def __set__(self, parts: Parts, value: T) -> None:
        parts._model = parts._loaded.with_part(self._name, value)


class Parts:
    """The parts of a checkpoint; before it is loaded most names raise ``NotLoadedError``."""

    _model: Model | None = None
    _said_device: torch.device | None = None

    tokenizer = Part[ScriptTokenizer]()
    speaker = Part[Speaker]()
    gpt = Part[GPT]()
    decoder = Part[MelDecoder]()
    dvae = Part[DVAE]()
    vocos = Part[Vocoder]()

    @property
    def _loaded(self) -> Model:
        model = self._model
        if model is None:
            raise NotLoadedError(
                "no checkpoint is loaded: call chat.load(), and look at what it returned; "
                'chat.load("bundled") always works'
            )
        return model

    @property
    def config(self) -> Config:
        """Sizes and voice defaults of the checkpoint; before a load the published ones."""
        return Config.published() if self._model is None else self._model.config

    @property
    def embed(self) -> Embed:
        """Embeddings and heads of the language model."""
        return self._loaded.gpt.embed

    @property
    def coef(self) -> str:
        """The checkpoint's mel scale as base16384 text."""
        return self._loaded.coef

    @property
    def device(self) -> torch.device:
        """Where the language model runs."""
        return self._said_device or self._loaded.placement.device

    @device.setter
    def device(self, device: str | torch.device) -> None:
        # Old scripts write it down here. It moves nothing, there as here; the next load forgets it.
        self._said_device = torch.device(device)
        if self._model is not None and self._said_device != self._model.placement.device:
            logger.warning(
                "chat.device = %r moves nothing: the model stays on %s; load(device=...) loads it "
                "elsewhere",
                str(device),
                self._model.placement.device,
            )

    @property
    def device_gpt(self) -> torch.device:
        """Where prompts for the language model belong."""
        return self._loaded.placement.device

    @property
    def sha256_map(self) -> dict[str, str]:
        """The published hashes, by names such as ``sha256_asset_DVAE_safetensors``."""
        return published_hashes()

    @property
    def voice_caches(self) -> dict[str, CacheCounts]:
        """How often speaker strings and sample prompts had been read before."""
        model = self._loaded
        return {"speaker": model.vectors.counts, "sample": model.samples.counts}
