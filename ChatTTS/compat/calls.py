"""Calls of the published package that scripts make beside the documented ones.

They have leading underscores there, and their arguments are in its order. What has no meaning here
raises an ``AttributeError`` that names what to call instead.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..config import Paths
from ..errors import ConfigError
from ..model.generation import Cancellation
from ..model.script_gpt import GenerationOutputs
from ..params import InferCodeParams, RefineTextParams
from ..pipeline.call_arguments import checked_texts
from ..utils.process_hooks import finish_before_exit
from .attributes import CheckpointAttributes
from .passes import code_outputs, joined_waveforms, refine_outputs

# Names of the published package and of its earlier versions, and what to call instead.
_INSTEAD = {
    "_infer": "call chat.infer, with the same arguments but device",
    "pretrain_models": "the parts are chat.gpt, embed, decoder, dvae, vocos and tokenizer",
    "check_model": "call chat.has_loaded()",
    "_encode_spk_emb": "call chat.speaker._encode(vector)",
    "_sample_random_speaker": "call chat.speaker._sample_random()",
    "_apply_spk_emb": "call chat.speaker.apply",
    "_text_to_token": "call chat.tokenizer.encode",
    "_sample_audio_speaker": "call chat.sample_audio_speaker(wav)",
    "init_normalizer": "call chat.normalizer.register(lang, function)",
}


class Context:
    """The published switch that interrupts.

    It ends what runs now, as :meth:`~ChatTTS.core.Chat.interrupt` does.

    Args:
        interrupt: ends all running calls.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt

    def set(self, value: bool) -> None:
        """Interrupt, for a true value; there is nothing to switch off before a later call."""
        if value:
            self._interrupt()

    def get(self) -> bool:
        """Return ``False``: no later call is interrupted."""
        return False


class ScriptCalls(CheckpointAttributes):
    """Methods of ``Chat`` for scripts; no engine, server or command uses them."""

    _compile: bool | None = None

    # What ``Chat`` has.
    load: Callable[..., bool]
    logger: logging.Logger
    interrupt: Callable[[], None]
    _params: Callable[..., tuple[RefineTextParams, InferCodeParams]]
    _new_cancellation: Callable[..., Cancellation]

    if not TYPE_CHECKING:  # where it would hide misspelled names

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # and getting its value raised an AttributeError
                return object.__getattribute__(self, name)
            remedy = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}{remedy}"
            )

    @property
    def compile(self) -> bool:
        """Return whether the last load was asked to compile; before one there is no such name."""
        if self._compile is None:
            raise AttributeError("chat.compile is known after chat.load")
        return self._compile

    @property
    def context(self) -> Context:
        """The switch that scripts set to interrupt, and reset before they speak."""
        return Context(self.interrupt)

    def load_models(
        self,
        source: str = "huggingface",
        force_redownload: bool = False,
        local_path: str | Path | None = None,
        compile: bool = False,
        custom_path: str | Path | None = None,
        **options: Any,
    ) -> bool:
        """Load with the name and arguments of old versions; ``local_path`` is a custom path."""
        if local_path is not None:
            source, custom_path = "custom", local_path
        return self.load(source, force_redownload, compile, custom_path, **options)

    def _load(
        self,
        vocos_ckpt_path: str | os.PathLike[str] | None = None,
        dvae_ckpt_path: str | os.PathLike[str] | None = None,
        gpt_ckpt_path: str | os.PathLike[str] | None = None,
        embed_path: str | os.PathLike[str] | None = None,
        decoder_ckpt_path: str | os.PathLike[str] | None = None,
        tokenizer_path: str | os.PathLike[str] | None = None,
        device: str | torch.device | None = None,
        compile: bool = False,
        coef: str | None = None,
        use_flash_attn: bool = False,
        use_vllm: bool | None = None,
        experimental: bool = False,
        enable_cache: bool = True,
    ) -> bool:
        """Load the checkpoint that the paths belong to, as ``load("custom")`` does.

        The paths must be those of one folder, under the published names; paths that are left out
        are found there. Where they are not, the error is logged and the answer is ``False``.
        """
        given = Paths(
            *(
                "" if path is None else os.fspath(path)
                for path in (
                    vocos_ckpt_path,
                    dvae_ckpt_path,
                    gpt_ckpt_path,
                    decoder_ckpt_path,
                    tokenizer_path,
                    embed_path,
                )
            )
        )
        try:
            folder = _folder_of(given)
        except ConfigError as error:
            self.logger.error("%s", error)
            return False
        return self.load(
            "custom",
            custom_path=folder,
            device=device,
            compile=compile,
            coef=coef,
            use_flash_attn=use_flash_attn,
            use_vllm=use_vllm,
            experimental=experimental,
            enable_cache=enable_cache,
        )

    def _infer_code(
        self,
        text: str | Sequence[str],
        stream: bool,
        device: str | torch.device,
        return_hidden: bool,
        params: InferCodeParams | Mapping[str, Any] | None,
    ) -> Iterator[GenerationOutputs]:
        """Yield the codes of texts that are spoken as they are, and their hidden states.

        Args:
            text: normalized already; a string, or several.
            stream: yield all frames so far whenever ``params.stream_batch`` are new.
            device: of the tensors that are yielded.
            return_hidden: give hidden states as well.

        Raises:
            TextError, VoiceError, ConfigError: as ``infer``.
        """
        model = self._loaded
        coding = self._params(model, None, params)[1]
        cancelled = self._new_cancellation(None)
        for found in code_outputs(model, _texts(text), coding, cancelled, stream=stream):
            hiddens = found.hiddens if return_hidden else []
            yield GenerationOutputs(
                [ids.to(device) for ids in found.ids], [], [each.to(device) for each in hiddens]
            )

    def _refine_text(
        self,
        text: str | Sequence[str],
        device: str | torch.device,
        params: RefineTextParams | Mapping[str, Any] | None,
    ) -> GenerationOutputs:
        """Return the ids of refined texts, on ``device``; ``tokenizer.decode`` gives their text.

        Raises:
            TextError, ConfigError: as ``infer``.
        """
        model = self._loaded
        refining = self._params(model, params, None)[0]
        cancelled = self._new_cancellation(None)
        with finish_before_exit(cancelled.set):
            found = refine_outputs(model, _texts(text), refining, cancelled)
        return GenerationOutputs([ids.to(device) for ids in found.ids], [], [])

    def _decode_to_wavs(self, result_list: Sequence[Tensor], use_decoder: bool) -> NDArray[Any]:
        """Return the samples of hidden states or codes, float32 [rows, n] at 24 kHz.

        Args:
            result_list: ``hiddens`` of :meth:`_infer_code`, or its ``ids`` without ``use_decoder``.
        """
        model = self._loaded
        with finish_before_exit():
            return joined_waveforms(model, [row.detach().cpu() for row in result_list], use_decoder)

    def _vocos_decode(self, spec: Tensor) -> NDArray[np.float32]:
        """Return the samples of a log-mel [B, n_mels, T], float32 [B, n]."""
        samples: NDArray[np.float32] = self.vocos.decode(spec).float().cpu().numpy()
        return samples


def _texts(text: str | Sequence[str]) -> list[str]:
    return list(checked_texts([text] if isinstance(text, str) else text))


def _folder_of(given: Paths) -> Path:
    """Return the folder that holds all paths under their published names.

    Raises:
        ConfigError: there is no path, or they are not in one folder under these names.
    """
    published, folders = asdict(Paths()), {}
    for name, path in asdict(given).items():
        if not path:
            continue
        parts = Path(published[name]).parts[1:]  # within asset/
        found = Path(path).absolute()
        if found.parts[-len(parts) :] != parts:
            raise ConfigError(
                f"{name} is {path}: the file must be named {Path(*parts)}, in one folder with the "
                'others of its checkpoint; chat.load("custom", custom_path=folder) loads them all'
            )
        folders[name] = found.parents[len(parts) - 1]
    if len(set(folders.values())) != 1:
        told = ", ".join(f"{name} in {folder}" for name, folder in folders.items()) or "none"
        raise ConfigError(
            f"_load needs paths in one folder, not {told}: put the files (or links) into one"
        )
    return next(iter(folders.values()))
