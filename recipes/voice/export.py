"""The stage ``export``: the trained parts as a checkpoint, in the layout of published ones."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from ChatTTS.config import VocosConfig
from ChatTTS.errors import AssetError
from ChatTTS.model.dvae import DVAE, MelDecoder
from ChatTTS.model.speaker import Speaker
from ChatTTS.model.synthesis.vocoder import Vocoder
from ChatTTS.utils import base16384

from .checkpoints import checksum, read_origin
from .codec import CODEC
from .codec import NAME as CODEC_NAME
from .coded import read_space
from .corpus import DEFAULT_SPEED
from .decoder import JUDGES_FILE, load_decoder, write_judges
from .decoder import NAME as DECODER_NAME
from .frozen import frozen_codec, is_stored_in_half
from .gpt import NAME as GPT_NAME
from .gpt import SETTINGS, load_gpt
from .language_model import SpeechModel
from .published import llama_json, published_embed
from .run import Run
from .styles import CAST, mixture, speaker_vector, statistics
from .texts import CHARACTERS
from .vocabulary import save_tokenizer

logger = logging.getLogger(__name__)

MOST_BYTES = 60_000_000
# Seconds. What the teacher says of its frames comes about three of them behind its sound.
ALIGNMENT_DELAY = 0.07


@dataclass(frozen=True)
class Parts:
    """All trained parts.

    Attributes:
        gpt, codec, decoder, vocoder: on the CPU.
        places: of the teacher's voices, float32 [voices, coordinates].
    """

    gpt: SpeechModel
    codec: DVAE
    decoder: MelDecoder
    vocoder: Vocoder
    places: NDArray[np.float32]


def speaker_strings(hidden: int, places: NDArray[np.float32]) -> dict[str, str]:
    """Return the speaker strings of the cast.

    Args:
        hidden: width of the language model.
        places: of the teacher's voices, [voices, coordinates].
    """
    strings = Speaker(hidden, "", torch.device("cpu"))
    return {
        name: strings.encode(
            torch.from_numpy(speaker_vector(mixture(person.weights) @ places, hidden))
        )
        for name, person in CAST.items()
    }


def language_speakers() -> dict[str, str]:
    """Return who speaks a language by default: the first of its cast, beside the first of all."""
    firsts: dict[str, str] = {}
    for name, person in CAST.items():
        firsts.setdefault(person.language, name)
    return dict([*firsts.items()][1:])


def voice_defaults(
    hidden: int, places: NDArray[np.float32], alignment_heads: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """Return the checkpoint's defaults for settings that a caller leaves out.

    Args:
        hidden: width of the language model.
        places: of the teacher's voices, [voices, coordinates].
        alignment_heads: the guided attention heads, pairs of a layer and a head.
    """
    drawing = {"top_P": 0.7, "top_K": 20, "repetition_penalty": 1.0}
    return {
        "name": "bundled voice",
        "speaker": next(iter(CAST)),
        "speakers": speaker_strings(hidden, places),
        "language_speakers": language_speakers(),
        "code": {"prompt": f"[speed_{DEFAULT_SPEED}]", "temperature": 0.1, **drawing},
        "refine": {"prompt": "[oral_0][laugh_0][break_0]", "temperature": 0.3, **drawing},
        "refine_keeps_words": True,
        "samples_trained": True,
        "characters": CHARACTERS,
        "pronunciation": "phonemes",
        "max_utterance_characters": 200,
        "alignment_heads": [list(pair) for pair in alignment_heads],
        "alignment_delay": ALIGNMENT_DELAY,
    }


def export(parts: Parts, folder: Path) -> None:
    """Write ``folder`` anew: weights in float16, sizes, defaults and the tokenizer.

    Args:
        parts: what to write.
        folder: the ``asset`` folder; an earlier one is removed once the new one is complete.

    Raises:
        AssetError: a weight does not fit into float16, or the checkpoint is too large.
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
    write_json(partial / "gpt" / "config.json", llama_json(sizes.llama))
    write_json(partial / "config.json", config_json(parts))
    save_tokenizer(partial / "tokenizer")
    size = sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())
    logger.info("the checkpoint has %.1f MB", size / 1e6)
    if size > MOST_BYTES:
        raise AssetError(
            f"{partial} has {size / 1e6:.1f} MB; at most {MOST_BYTES / 1e6:.0f} fit into the "
            "package: make a part smaller (language_model.SIZES, codec.CODEC, vocoder.VOCODER)"
        )
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def config_json(parts: Parts) -> dict[str, Any]:
    """Return the content of ``asset/config.json``."""
    sizes = parts.gpt.sizes
    stats = statistics(sizes.hidden).astype("<f2").tobytes()
    heads = parts.gpt.guided(SETTINGS.guided_heads)
    return {
        "gpt": asdict(sizes.config),
        "embed": asdict(sizes.embed),
        "decoder": asdict(parts.decoder.config),
        "dvae": asdict(CODEC),
        "vocos": _vocos_json(parts.vocoder.config),
        "spk_stat": base16384.encode(stats),
        "defaults": voice_defaults(sizes.hidden, parts.places, heads),
    }


def main(run: Run) -> None:
    """Write ``asset`` in the folder of the run, and load it to check that this works.

    Raises:
        AssetError: a part is not trained yet, or was trained on another codec or language model
            than those in the folder; or the checkpoint cannot be loaded.
    """
    gpt, codec = load_gpt(run), frozen_codec(run)
    present = {CODEC_NAME: checksum(codec), GPT_NAME: checksum(gpt)}
    for stage in (GPT_NAME, DECODER_NAME):
        _check_origin(run, stage, present)
    places = read_space(run.codes(present[CODEC_NAME]))
    decoder, vocoder = load_decoder(run, gpt.sizes.hidden)
    export(Parts(gpt, codec, decoder, vocoder, places), run.out / "asset")
    write_judges(run, run.out / JUDGES_FILE)
    from ChatTTS.core import Chat

    Chat().load_or_raise("custom", custom_path=run.out, device="cpu")
    logger.info("%s can be loaded: Chat().load('custom', custom_path=...)", run.out / "asset")


def _check_origin(run: Run, stage: str, present: Mapping[str, str]) -> None:
    for name, known in read_origin(run.state(stage)).items():
        if known != present[name]:
            raise AssetError(
                f"{stage!r} learned from another {name} than that in {run.out}: give it more "
                f"minutes to go on with this one, or delete {run.state(stage)} to train it anew"
            )


def _halved(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Copy tensors, with floats in float16."""
    halved = {}
    for key, value in tensors.items():
        copy = value.detach().to("cpu", copy=True).contiguous()
        if is_stored_in_half(key, copy):
            copy = copy.half()
            if not bool(copy.isfinite().all()):
                raise AssetError(f"{name}: {key} does not fit into float16; train the part anew")
        halved[key] = copy
    return halved


def _vocos_json(config: VocosConfig) -> dict[str, Any]:
    mel = config.mel
    transform = {"n_fft": mel.n_fft, "hop_length": mel.hop_length, "padding": mel.padding}
    backbone = {
        "input_channels": mel.n_mels,
        "dim": config.dim,
        "intermediate_dim": config.intermediate_dim,
        "num_layers": config.num_layers,
    }
    return {
        "feature_extractor": {
            "class_path": "vocos.feature_extractors.MelSpectrogramFeatures",
            "init_args": asdict(mel),
        },
        "backbone": {"class_path": "vocos.models.VocosBackbone", "init_args": backbone},
        "head": {
            "class_path": "vocos.heads.ISTFTHead",
            "init_args": {"dim": config.dim, **transform},
        },
    }


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file of a checkpoint in JSON."""
    path.write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
