"""Write a random ChatTTS checkpoint of any size, in the published asset layout.

    python -m benchmarks.common.random_checkpoint FOLDER --layers 20 --hidden 768

Speed does not depend on the values of the weights, so benchmarks need no download. Files depend on
sizes and seed alone. At the published sizes no ``asset/config.json`` is written, because the
published checkpoint has none.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import ChatTTS
from ChatTTS.config import Config, ConvNetConfig, EmbedConfig, GPTConfig, VocosConfig
from ChatTTS.model.dvae import DVAE, MelDecoder
from ChatTTS.model.llama.transformers_import import importing_transformers
from ChatTTS.model.synthesis.vocoder import Vocoder
from ChatTTS.utils import base16384

# Any tokenizer with the control tokens works; its ids are below the published 21178.
_TOKENIZER = Path(ChatTTS.__file__).parent / "bundled" / "asset" / "tokenizer"
# Standard deviation of random embeddings and heads, as of a new Llama's own weights.
_SPREAD = 0.02


def add_size_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for sizes; the defaults are the published sizes."""
    gpt = GPTConfig()
    parser.add_argument("--layers", type=int, default=gpt.num_hidden_layers)
    parser.add_argument("--hidden", type=int, default=gpt.hidden_size)
    parser.add_argument("--heads", type=int, default=gpt.num_attention_heads)
    parser.add_argument("--intermediate", type=int, default=gpt.intermediate_size)
    parser.add_argument("--positions", type=int, default=gpt.max_position_embeddings)
    parser.add_argument("--text-tokens", type=int, default=gpt.num_text_tokens)
    parser.add_argument(
        "--audio-layers", type=int, help="blocks of decoder, codec and vocoder (default: 12, 12, 8)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random weights")


def config_from(args: argparse.Namespace) -> Config:
    """Return the configuration with the sizes of :func:`add_size_arguments`."""
    gpt = GPTConfig(
        hidden_size=args.hidden,
        intermediate_size=args.intermediate,
        num_attention_heads=args.heads,
        num_hidden_layers=args.layers,
        max_position_embeddings=args.positions,
        num_text_tokens=args.text_tokens,
    )
    embed = EmbedConfig(hidden_size=args.hidden, num_text_tokens=args.text_tokens)
    # The decoder reads a hidden state as two mel frames of half its width.
    width = args.hidden // 2
    config = Config(gpt=gpt, embed=embed)
    decoder, dvae, vocos = (
        replace(config.decoder, idim=width, odim=width),
        config.dvae,
        config.vocos,
    )
    if args.audio_layers is not None:

        def cut(part: ConvNetConfig) -> ConvNetConfig:
            return replace(part, n_layer=args.audio_layers)

        decoder = cut(decoder)
        dvae = replace(dvae, encoder=cut(dvae.encoder), decoder=cut(dvae.decoder))
        vocos = replace(vocos, num_layers=args.audio_layers)
    return replace(config, decoder=decoder, dvae=dvae, vocos=vocos)


@contextmanager
def temporary_checkpoint(config: Config, seed: int) -> Iterator[Path]:
    """Give the folder of a random checkpoint, which is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="chattts-random-") as folder:
        write_checkpoint(Path(folder), config, seed)
        yield Path(folder)


def write_checkpoint(folder: Path, config: Config, seed: int = 0) -> None:
    """Write a whole float32 checkpoint into ``folder/asset``.

    Args:
        folder: created if it does not exist.
        config: the sizes.
        seed: seed of the weights; each file depends on it and on its own sizes alone.
    """
    asset = folder / "asset"
    (asset / "gpt").mkdir(parents=True, exist_ok=True)
    shutil.copytree(_TOKENIZER, asset / "tokenizer", dirs_exist_ok=True)
    n_mels = config.vocos.mel.n_mels
    parts: dict[str, Callable[[], dict[str, Tensor]]] = {
        "gpt/model": lambda: _llama(config.gpt, asset / "gpt" / "config.json"),
        "Embed": lambda: _embed(config.embed),
        "Decoder": lambda: _tensors(MelDecoder(config.decoder, n_mels)),
        "DVAE": lambda: _tensors(DVAE(config.dvae, config.vocos.mel)),
        "Vocos": lambda: _tensors(Vocoder(config.vocos)),
    }
    for name, make in parts.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            # Earlier versions of transformers read no file that does not name its framework.
            save_file(make(), asset / f"{name}.safetensors", {"format": "pt"})
    (asset / "config.json").unlink(missing_ok=True)
    if config != Config():
        (asset / "config.json").write_text(json.dumps(_as_json(config), indent=1), "utf-8")


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.contiguous() for name, value in module.state_dict().items()}


def _llama(sizes: GPTConfig, config_file: Path) -> dict[str, Tensor]:
    """Return a new Llama's tensors, and write its own configuration to ``config_file``."""
    with importing_transformers():
        from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        **asdict(sizes), vocab_size=8, bos_token_id=None, eos_token_id=None, pad_token_id=None
    )
    model = LlamaModel(config)
    values = {**config.to_dict(), "architectures": ["LlamaModel"]}
    config_file.write_text(json.dumps(values, indent=1), "utf-8")
    return _tensors(model)


def _embed(sizes: EmbedConfig) -> dict[str, Tensor]:
    """Return embeddings and weight-normed heads, by their published names."""
    tables = {"text": sizes.num_text_tokens}
    tables |= {f"code.{i}": sizes.num_audio_tokens for i in range(sizes.num_vq)}
    tensors = {}
    for name, rows in tables.items():
        direction = torch.randn(rows, sizes.hidden_size) * _SPREAD
        head = f"head_{name}.parametrizations.weight"
        tensors[f"emb_{name}.weight"] = torch.randn(rows, sizes.hidden_size) * _SPREAD
        tensors[f"{head}.original0"] = direction.norm(dim=1, keepdim=True)
        tensors[f"{head}.original1"] = direction
    return tensors


def _as_json(config: Config) -> dict[str, Any]:
    """Return the values that ``Config.from_dict`` reads as ``config``."""
    sizes = {name: asdict(getattr(config, name)) for name in ("gpt", "embed", "decoder", "dvae")}
    deviation_and_mean = np.repeat(np.array([1, 0], np.float16), config.gpt.hidden_size)
    return {
        **sizes,
        "vocos": _vocos_as_json(config.vocos),
        "spk_stat": base16384.encode(deviation_and_mean.tobytes()),
    }


def _vocos_as_json(vocos: VocosConfig) -> dict[str, Any]:
    """Return the configuration in the nested form of the vocos package."""
    mel = asdict(vocos.mel)
    backbone = {
        "input_channels": vocos.mel.n_mels,
        "dim": vocos.dim,
        "intermediate_dim": vocos.intermediate_dim,
        "num_layers": vocos.num_layers,
    }
    head = {"dim": vocos.dim, **{key: mel[key] for key in ("n_fft", "hop_length", "padding")}}
    return {
        "feature_extractor": {
            "class_path": "vocos.feature_extractors.MelSpectrogramFeatures",
            "init_args": mel,
        },
        "backbone": {"class_path": "vocos.models.VocosBackbone", "init_args": backbone},
        "head": {"class_path": "vocos.heads.ISTFTHead", "init_args": head},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.common.random_checkpoint",
        description=__doc__.partition("\n")[0],
    )
    parser.add_argument("folder", type=Path, nargs="?", help="default: a new temporary folder")
    add_size_arguments(parser)
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="chattts-random-"))
    write_checkpoint(folder, config_from(args), args.seed)
    print(folder)


if __name__ == "__main__":
    main()
