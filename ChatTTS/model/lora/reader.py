"""Read adapters as peft saves them: a folder with ``adapter_config.json`` and
``adapter_model.safetensors``.

A folder may come from a stranger. Nothing is unpickled; names, ranks, shapes and numbers are
checked before any of them is used. What this reader does not know is refused, since an adapter that
is applied in part sounds like a bad one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import AssetError, shown
from ...utils.untrusted import read_bytes, read_json
from ...weights.tensor_file import TensorFile
from ...weights.tensors import finite
from ..llama.config import LlamaShape, module_of, projections
from .adapter import Adapter, LowRank

CONFIG, WEIGHTS, SPEAKER = "adapter_config.json", "adapter_model.safetensors", "speaker.txt"
MAX_RANK = 512
_LONGEST_SPEAKER = 1 << 16
_LARGEST_SCALE = 1e4
_AGAIN = "train the adapter again, or copy its whole file"
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# "model." stands there where the adapter was trained on a Llama with a head.
_TENSOR = re.compile(
    r"base_model\.model\.(?:model\.)?layers\.(\d{1,4})\.(self_attn|mlp)\.([a-z]+_proj)"
    r"\.lora_(A|B)\.weight",
    re.ASCII,
)
# Settings that change nothing of what is computed, or that are read here. Every other one must be
# off, whether it is known here or not: each release of peft brings ways to compute something else.
_HARMLESS = frozenset(
    {
        "alpha_pattern",
        "auto_mapping",
        "base_model_name_or_path",
        "corda_config",
        "ensure_weight_tying",
        "eva_config",
        "exclude_modules",
        "inference_mode",
        "init_lora_weights",
        "layers_pattern",
        "layers_to_transform",
        "loftq_config",
        "lora_alpha",
        "lora_dropout",
        "lora_ga_config",
        "megatron_core",
        "peft_type",
        "peft_version",
        "qalora_group_size",
        "r",
        "rank_pattern",
        "revision",
        "runtime_config",
        "target_modules",
        "task_type",
        "use_rslora",
    }
)
_OFF: tuple[Any, ...] = (None, False, "none", [], {})
# Ways to begin a training that change nothing but the adapter. Others also change the weights under
# it, or are not known here.
_BEGINNINGS = ("gaussian", "eva", "orthogonal", "mica")


def read_adapter(folder: Path, name: str, shape: LlamaShape) -> Adapter:
    """Read the adapter of a folder, for a Llama of this shape.

    Raises:
        AssetError: a file is missing, damaged or hostile, or the adapter does not fit the model or
            changes more than sums to the projections of the Llama. The message names the file.
    """
    config = _config(folder / CONFIG)
    file = folder / WEIGHTS
    tensors = _open(folder)
    sizes = projections(shape)
    pairs: dict[tuple[int, str], dict[str, str]] = {}
    for key in tensors:
        found = _TENSOR.fullmatch(key)
        if (
            found is None
            or found[3] not in sizes
            or found[2] != module_of(found[3])
            or int(found[1]) >= shape.num_hidden_layers
        ):
            raise AssetError(
                f"{file}: the tensor {shown(key)} belongs to no projection of this checkpoint's "
                f"Llama of {shape.num_hidden_layers} layers; take an adapter that was trained on "
                "it, with target_modules among " + ", ".join(sizes)
            )
        own = pairs.setdefault((int(found[1]), found[3]), {})
        if found[4] in own:
            raise AssetError(f"{file} has two tensors for {shown(key)}: train the adapter again")
        own[found[4]] = key
    if not pairs:
        raise AssetError(f"{file} has no tensors: train the adapter again")
    products = {}
    for (layer, projection), own in sorted(pairs.items()):
        where = f"layers.{layer}.{module_of(projection)}.{projection}"
        down, up = _checked(file, tensors, own, where, sizes[projection])
        rank = len(down)
        _check_rank(folder / CONFIG, config, where, rank)
        scale = _scale(folder / CONFIG, config, where, rank)
        products[layer, projection] = LowRank(down, finite(up * scale, own["B"], file, _AGAIN))
    return Adapter(name, products, _speaker(folder / SPEAKER))


def _open(folder: Path) -> TensorFile:
    file = folder / WEIGHTS
    if not file.exists() and (folder / "adapter_model.bin").exists():
        raise AssetError(
            f"{folder} has its weights in adapter_model.bin, a pickle, which could run any program "
            "and is not opened: save the adapter with safe_serialization=True"
        )
    try:
        return TensorFile(file, _AGAIN)
    except AssetError as error:
        if not file.exists():
            raise AssetError(
                f"{file} is missing: name a folder as peft's save_pretrained writes it, with "
                f"{CONFIG} and {WEIGHTS}"
            ) from None
        raise AssetError(f"the adapter cannot be read: {error}") from error


def _checked(
    file: Path,
    tensors: TensorFile,
    own: Mapping[str, str],
    where: str,
    size: tuple[int, int],
) -> tuple[Tensor, Tensor]:
    """Return the two matrices of a projection [outputs, inputs], in float32."""
    for part in "AB":
        if part not in own:
            raise AssetError(f"{file}: lora_{part} of {where} is missing: train the adapter again")
    down, up = (tensors.infos[own[part]] for part in "AB")
    rank = down.shape[0] if len(down.shape) == 2 else 0
    if not 1 <= rank <= MAX_RANK:
        raise AssetError(
            f"{file}: lora_A of {where} has the shape {list(down.shape)}; it needs [rank, "
            f"{size[1]}] with a rank of 1 to {MAX_RANK}"
        )
    for part, info, wanted in (("A", down, (rank, size[1])), ("B", up, (size[0], rank))):
        if info.shape != wanted:
            raise AssetError(
                f"{file}: lora_{part} of {where} has the shape {list(info.shape)} and this "
                f"checkpoint needs {list(wanted)}: the adapter belongs to another model"
            )
        if info.dtype not in _FLOATS:
            raise AssetError(f"{file}: lora_{part} of {where} holds {info.dtype}; it needs floats")
    first, second = (finite(tensors[own[part]].float(), own[part], file, _AGAIN) for part in "AB")
    return first.contiguous(), second.contiguous()


def _config(path: Path) -> dict[str, Any]:
    try:
        config = read_json(path)
    except FileNotFoundError:
        raise AssetError(
            f"{path} is missing: name a folder as peft's save_pretrained writes it, with {CONFIG} "
            f"and {WEIGHTS}"
        ) from None
    except OSError as error:
        raise AssetError(f"{path} cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise AssetError(f"{path} is not valid JSON ({error}): train the adapter again") from error
    if not isinstance(config, dict):
        raise AssetError(f"{path} holds no object: it is not the configuration of an adapter")
    if config.get("peft_type") != "LORA":
        raise AssetError(
            f"{path}: peft_type is {shown(config.get('peft_type'))}, and only LORA is known here"
        )
    for key, value in config.items():
        if key not in _HARMLESS and value not in _OFF:
            raise AssetError(
                f"{path}: {shown(key)} is {shown(value)}, which is not supported; train without "
                "it, or merge the adapter into a checkpoint with peft's merge_and_unload"
            )
    begun = config.get("init_lora_weights")
    if isinstance(begun, str) and begun.lower() not in _BEGINNINGS:
        raise AssetError(
            f"{path}: init_lora_weights is {shown(begun)}, which may change the weights under the "
            "adapter, too; save it with path_initial_model_for_weight_conversion"
        )
    if config.get("use_rslora") not in (None, False, True):
        raise AssetError(f"{path}: use_rslora is {shown(config['use_rslora'])}, not true or false")
    return config


def _check_rank(path: Path, config: Mapping[str, Any], where: str, rank: int) -> None:
    said = _pattern(path, config, "rank_pattern", where, config.get("r"))
    if type(said) is not int or said != rank:
        raise AssetError(
            f"{path}: the rank of {where} is {shown(said)}, and its tensors have {rank}: the files "
            "do not belong together"
        )


def _scale(path: Path, config: Mapping[str, Any], where: str, rank: int) -> float:
    """Return the factor of a projection's product."""
    alpha = _pattern(path, config, "alpha_pattern", where, config.get("lora_alpha"))
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)):
        raise AssetError(f"{path}: lora_alpha is {shown(alpha)}, and must be a number")
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    if not abs(scale) <= _LARGEST_SCALE:
        raise AssetError(f"{path}: lora_alpha is {shown(alpha)}, which is far too large")
    return scale


def _pattern(path: Path, config: Mapping[str, Any], key: str, where: str, usual: Any) -> Any:
    """Return the value of a projection; patterns are names, since others could run for ever."""
    patterns = config.get(key)
    if patterns is None:
        return usual
    if not isinstance(patterns, dict):
        raise AssetError(f"{path}: {key} is {shown(patterns)}, and must be an object")
    for name, value in patterns.items():
        if not re.fullmatch(r"[\w.]+", name, re.ASCII):
            raise AssetError(
                f"{path}: {key} has {shown(name)}; only names of modules are known here, no "
                "regular expressions"
            )
        if where == name or where.endswith(f".{name}"):
            return value
    return usual


def _speaker(path: Path) -> str | None:
    """Return the speaker string beside an adapter, if there is one."""
    try:
        return read_bytes(path, _LONGEST_SPEAKER).decode("utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise AssetError(f"{path} cannot be read ({error}): correct it, or remove it") from error
