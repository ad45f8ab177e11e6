"""The stage ``export``: write the trained parts as a checkpoint in the published layout."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ChatTTS.config import DVAEConfig, VocosConfig
from ChatTTS.errors import AssetError
from ChatTTS.model.dvae import DVAE, MelDecoder
from ChatTTS.model.embed import Embed
from ChatTTS.model.llama_config import LlamaShape
from ChatTTS.model.speaker import Speaker
from ChatTTS.model.vocoder import Vocoder
from ChatTTS.utils import base16384

from .checkpoints import checksum, read_origin
from .codec import CODEC, load_codec
from .codec import NAME as CODEC_NAME
from .decoder import load_decoder
from .gpt import NAME as GPT_NAME
from .gpt import GPTSettings, SpeechModel, load_gpt
from .run import Run
from .speakers import COORDINATES, statistics, voice_speaker
from .types import DEFAULT_SPEED, VOICES
from .vocabulary import save_tokenizer
from .vocoder import load_vocoder

logger = logging.getLogger(__name__)

MOST_BYTES = 32_000_000
# Windows and filters are computed, not learned; half precision would only add noise.
_FULL_PRECISION = (".window", ".fb")


@dataclass(frozen=True)
class Parts:
    """All trained parts, and the codec's sizes."""

    gpt: SpeechModel
    codec: DVAE
    decoder: MelDecoder
    vocoder: Vocoder
    codec_config: DVAEConfig = CODEC


def voice_defaults(hidden: int, alignment_heads: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return the checkpoint's defaults for settings that a caller leaves out.

    Args:
        alignment_heads: the guided attention heads, pairs of a layer and a head.
    """
    strings = Speaker(hidden, "", torch.device("cpu"))
    vectors = {voice: torch.zeros(hidden) for voice in VOICES}
    for voice, vector in vectors.items():
        vector[:COORDINATES] = torch.from_numpy(voice_speaker(voice).point)
    drawing = {"top_P": 0.7, "top_K": 20, "repetition_penalty": 1.0}
    return {
        "name": "bundled voice",
        "language": "en",
        "speaker": VOICES[0],
        "speakers": {voice: strings.encode(vector) for voice, vector in vectors.items()},
        # Lower than the published 0.3: a small model is less sure of the right code.
        "code": {"prompt": f"[speed_{DEFAULT_SPEED}]", "temperature": 0.1, **drawing},
        "refine": {"prompt": "[oral_0][laugh_0][break_0]", "temperature": 0.3, **drawing},
        "refine_trained": True,
        "samples_trained": True,
        "characters": "'?",
        "max_utterance_characters": 200,
        "alignment_heads": [list(pair) for pair in alignment_heads],
    }


def export(parts: Parts, folder: Path) -> None:
    """Write ``folder`` anew: weights in float16, sizes, defaults and the tokenizer.

    Args:
        folder: the ``asset`` folder; an earlier one is removed once the new one is complete.

    Raises:
        AssetError: a weight does not fit into float16, or the checkpoint exceeds 32 MB.
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "gpt").mkdir(parents=True)
    sizes = parts.gpt.sizes
    llama = dict(parts.gpt.llama.state_dict())
    # Unused, but older loaders fail without it.
    llama["embed_tokens.weight"] = torch.zeros(8, sizes.hidden)
    weights = {
        "gpt/model.safetensors": llama,
        "Embed.safetensors": published_embed(parts.gpt.embed),
        "DVAE.safetensors": parts.codec.state_dict(),
        "Decoder.safetensors": parts.decoder.state_dict(),
        "Vocos.safetensors": parts.vocoder.state_dict(),
    }
    for name, tensors in weights.items():
        save_file(_halved(tensors, name), partial / name, metadata={"format": "pt"})
        (partial / name).chmod(0o644)  # readable by all users, like the other files
    _write(partial / "gpt" / "config.json", llama_json(sizes.llama))
    _write(partial / "config.json", config_json(parts))
    save_tokenizer(partial / "tokenizer")
    size = sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())
    logger.info("the checkpoint has %.1f MB", size / 1e6)
    if size > MOST_BYTES:
        raise AssetError(
            f"{partial} has {size / 1e6:.1f} MB; at most {MOST_BYTES / 1e6:.0f} fit into the "
            "package: make a part smaller (gpt.GPTSizes, codec.CODEC, vocoder.VOCODER)"
        )
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def published_embed(embed: Embed) -> dict[str, Tensor]:
    """Return embeddings and heads by their published names; heads as magnitude and direction."""
    heads = {"head_text": _weight(embed.head_text)}
    tensors = {"emb_text.weight": embed.text.weight.detach()}
    size = embed.num_audio_tokens
    for number in range(embed.num_codebooks):
        rows = slice(number * size, (number + 1) * size)
        tensors[f"emb_code.{number}.weight"] = embed.code.weight.detach()[rows]
        heads[f"head_code.{number}"] = _weight(embed.head_code)[rows]
    for name, weight in heads.items():
        norm = f"{name}.parametrizations.weight.original"
        tensors[f"{norm}0"] = weight.norm(dim=1, keepdim=True)
        tensors[f"{norm}1"] = weight
    return tensors


def config_json(parts: Parts) -> dict[str, Any]:
    """Return the content of ``asset/config.json``."""
    sizes = parts.gpt.sizes
    stats = statistics(sizes.hidden).astype("<f2").tobytes()
    return {
        "gpt": asdict(sizes.config),
        "embed": asdict(sizes.embed),
        "decoder": asdict(parts.decoder.config),
        "dvae": asdict(parts.codec_config),
        "vocos": _vocos_json(parts.vocoder.config),
        "spk_stat": base16384.encode(stats),
        "defaults": voice_defaults(sizes.hidden, parts.gpt.guided(GPTSettings.guided_heads)),
    }


def llama_json(shape: LlamaShape) -> dict[str, Any]:
    """Return the content of ``asset/gpt/config.json``."""
    values = asdict(shape)
    del values["rope_scaling"]
    return {
        "architectures": ["LlamaModel"],
        "model_type": "llama",
        "vocab_size": 8,
        "use_cache": False,
        **values,
    }


def main(run: Run) -> None:
    """Write ``asset`` in the folder of the run, and load it to check that this works.

    Raises:
        AssetError: a part is not trained yet, or was trained on another codec or language model
            than those in the folder; or the checkpoint cannot be loaded.
    """
    gpt = load_gpt(run)
    parts = Parts(gpt, load_codec(run), load_decoder(run, gpt.sizes.hidden), load_vocoder(run))
    _check_origins(run, {CODEC_NAME: checksum(parts.codec), GPT_NAME: checksum(parts.gpt)})
    export(parts, run.out / "asset")
    from ChatTTS.core import Chat

    Chat().load_or_raise("custom", custom_path=run.out, device="cpu")
    logger.info("%s can be loaded: Chat().load('custom', custom_path=...)", run.out / "asset")


def _check_origins(run: Run, present: Mapping[str, str]) -> None:
    for stage in run.budgets:
        state = run.state(stage)
        origin = read_origin(state)
        if state.exists() and not origin and stage != CODEC_NAME:
            logger.warning("%s: trained by an older recipe, which did not note its origin", stage)
        for name, known in origin.items():
            if known != present[name]:
                raise AssetError(
                    f"{stage!r} learned from another {name} than that in {run.out}: give it more "
                    f"minutes to go on with this one, or delete {state} to train it anew"
                )


def _weight(head: nn.Module) -> Tensor:
    weight = head.weight
    assert isinstance(weight, Tensor)
    return weight.detach()


def _halved(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Copy tensors, with floats in float16."""
    halved = {}
    for key, value in tensors.items():
        copy = value.detach().to("cpu", copy=True).contiguous()
        if copy.is_floating_point() and not key.endswith(_FULL_PRECISION):
            copy = copy.half()
            if not bool(copy.isfinite().all()):
                raise AssetError(f"{name}: {key} does not fit into float16; train the part anew")
        halved[key] = copy
    return halved


def _vocos_json(config: VocosConfig) -> dict[str, Any]:
    mel = config.mel
    transform = {"n_fft": mel.n_fft, "hop_length": mel.hop_length, "padding": mel.padding}
    return {
        "feature_extractor": {
            "class_path": "vocos.feature_extractors.MelSpectrogramFeatures",
            "init_args": asdict(mel),
        },
        "backbone": {
            "class_path": "vocos.models.VocosBackbone",
            "init_args": {
                "input_channels": mel.n_mels,
                "dim": config.dim,
                "intermediate_dim": config.intermediate_dim,
                "num_layers": config.num_layers,
            },
        },
        "head": {
            "class_path": "vocos.heads.ISTFTHead",
            "init_args": {"dim": config.dim, **transform},
        },
    }


def _write(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
