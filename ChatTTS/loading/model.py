"""Load the parts of a model from a checkpoint's files, all or none."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch

from ..checkpoints.assets import AssetFolder
from ..config import Config
from ..config.front_ends import front_end_named
from ..errors import AssetError, ConfigError, VoiceError
from ..model.cuda.capture_thread import capture_in_background
from ..model.cuda.support import must_fit
from ..model.devices.placement import Placement
from ..model.dvae import DVAE, MelDecoder
from ..model.gpt import EngineOptions
from ..model.lora.names import Adapters
from ..model.lora.reader import SPEAKER
from ..model.script_gpt import ScriptGPT
from ..model.script_tokenizer import ScriptTokenizer
from ..model.speaker import Speaker
from ..model.synthesis.vocoder import Vocoder
from ..params import InferCodeParams, RefineTextParams
from ..pipeline.decode.worker import MAX_FRAMES, MAX_FRAMES_ON_GPU, DecodeWorker
from ..pipeline.model import Model
from ..weights.tensor_file import RESTORE, TensorFile
from ..weights.tensors import load_module
from .sidecar_files import stored_heads, stored_lengths
from .synthesizers import load_synthesizers

logger = logging.getLogger(__name__)

# Features of all codes together; the published ones are two million numbers.
_LARGEST_CODEBOOK = 1 << 25

M = TypeVar("M", bound=torch.nn.Module)


def load_model(
    assets: AssetFolder,
    placement: Placement,
    options: EngineOptions,
    coef: str | None = None,
) -> Model:
    """Load every part.

    Args:
        coef: the mel scale that the caller expects; the checkpoint's own is used.

    Raises:
        ChatTTSError: a file is missing, damaged or does not fit; the message names the file.
    """
    config = Config.from_file(assets.config)
    try:
        _check(config)
    except ConfigError as error:
        raise ConfigError(f"{assets.config}: {error}") from None
    name = config.defaults.pronunciation
    tokenizer = ScriptTokenizer(assets.tokenizer, None if name is None else front_end_named(name))
    tokenizer.check_ids(config.gpt.num_text_tokens)
    speaker = _speaker(config, assets.config, placement)
    heads, lengths = stored_heads(assets, config), stored_lengths(assets)
    gpt = ScriptGPT.load_pretrained(
        weights=assets.gpt,
        llama_file=assets.gpt_config,
        embed_weights=assets.embed,
        config=config,
        tokenizer=tokenizer,
        placement=placement,
        options=options,
    )
    try:
        _check_speakers_of_adapters(gpt.adapters, options.adapters, speaker, config)
        decoder, dvae, vocos = _audio_parts(config, assets, placement)
        has_kernels = gpt.batches_itself and placement.audio_device.type == "cpu"
        from_hiddens, from_codes = load_synthesizers(
            decoder, dvae, vocos, placement, options, has_kernels=has_kernels
        )
    except BaseException:
        gpt.close()
        raise
    on_gpu = placement.audio_device.type == "cuda"
    model = Model(
        config=config,
        placement=placement,
        tokenizer=tokenizer,
        speaker=speaker,
        gpt=gpt,
        decoder=decoder,
        dvae=dvae,
        vocos=vocos,
        from_hiddens=from_hiddens,
        from_codes=from_codes,
        decode_worker=DecodeWorker(
            gpt.compute_lock,
            MAX_FRAMES_ON_GPU if on_gpu else MAX_FRAMES,
            gpt.shared_loop,
        ),
        searched_heads=heads,
        learned_lengths=lengths,
        plain_parts=(
            partial(_audio_parts, config, assets, placement)
            if has_kernels and gpt.may_change_engine
            else None
        ),
    )
    if coef is not None and coef != model.coef:
        logger.warning("the given coef differs from the checkpoint's own, which is used")
    # Now, since a thread that captures holds up the rest of a load.
    capture_in_background(model.capturables)
    return model


def _check(config: Config) -> None:
    """Raise ConfigError where parts do not fit together, or the voice's defaults are invalid."""
    dvae, vq = config.dvae, config.dvae.vq
    agreements = (
        ("2 * decoder.idim", 2 * config.decoder.idim, "gpt.hidden_size", config.gpt.hidden_size),
        ("2 * dvae.decoder.idim", 2 * dvae.decoder.idim, "dvae.vq.dim", vq.dim),
        ("dvae.encoder.idim", dvae.encoder.idim, "dvae.decoder.odim", dvae.decoder.odim),
        ("dvae.encoder.odim", dvae.encoder.odim, "dvae.vq.dim", vq.dim),
        ("dvae.vq.G * dvae.vq.R", vq.G * vq.R, "gpt.num_vq", config.gpt.num_vq),
        (
            "the product of dvae.vq.levels",
            math.prod(vq.levels),
            "gpt.num_audio_tokens - 1",
            config.gpt.num_audio_tokens - 1,
        ),
    )
    for name, found, other, wanted in agreements:
        if found != wanted:
            raise ConfigError(f"{name} is {found}, but {other} is {wanted}")
    if vq.dim % vq.G:
        raise ConfigError(f"dvae.vq.dim is {vq.dim}, which dvae.vq.G, {vq.G}, does not divide")
    if (numbers := config.gpt.num_audio_tokens * vq.dim * vq.R) > _LARGEST_CODEBOOK:
        raise ConfigError(
            f"dvae.vq.dim * dvae.vq.R * gpt.num_audio_tokens is {numbers}, and codebooks have at "
            f"most {_LARGEST_CODEBOOK} numbers"
        )
    RefineTextParams().with_defaults(config.defaults.refine)
    InferCodeParams().with_defaults(config.defaults.code)


def _speaker(config: Config, file: Path, placement: Placement) -> Speaker:
    try:
        return Speaker(config.gpt.hidden_size, config.spk_stat, placement.device)
    except VoiceError as error:
        raise ConfigError(f"{file}: {error}; correct spk_stat, or leave it empty") from None


def _check_speakers_of_adapters(
    adapters: Adapters, folders: Mapping[str, Path], speaker: Speaker, config: Config
) -> None:
    """Raise AssetError where an adapter names no speaker of this checkpoint.

    Otherwise each request for it would fail, with a message that names no file.
    """
    for name, info in adapters.items():
        if info.speaker is None or info.speaker in config.defaults.speakers:
            continue
        try:
            speaker.vector(info.speaker)
        except VoiceError as error:
            file = folders[name] / SPEAKER
            raise AssetError(f"{file}: {error}; correct it, or remove it") from error


def _audio_parts(
    config: Config, assets: AssetFolder, placement: Placement
) -> tuple[MelDecoder, DVAE, Vocoder]:
    """Return the modules that turn frames into samples, and samples into codes.

    They are built on the meta device, and compared with the files before memory is taken.
    """
    mels = config.vocos.mel
    with must_fit("the audio decoder", placement.audio_device, "load with a smaller kv_memory"):
        with torch.device("meta"):
            decoder = MelDecoder(config.decoder, mels.n_mels)
            dvae = DVAE(config.dvae, mels)
            vocos = Vocoder(config.vocos)
        decoder = _load(decoder, assets.decoder, placement)
        dvae = _load(dvae, assets.dvae, placement)
        vocos = _load(vocos, assets.vocos, placement)
    for module, file in ((decoder, assets.decoder), (dvae, assets.dvae)):
        if not module.coef.all():
            raise AssetError(f"{file}: coef, the mel scale, has zeros; {RESTORE}")
    vocos.check_window(assets.vocos)
    return decoder, dvae, vocos


def _load(module: M, file: Path, placement: Placement) -> M:
    load_module(module, TensorFile(file), file=file)
    return module.to(placement.audio_device).eval().requires_grad_(False)
