"""The kind of Llama that a checkpoint holds, read from ``asset/gpt/config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ...config import GPTConfig
from ...errors import AssetError, shown
from ...utils.untrusted import read_json
from .transformers_import import importing_transformers

# The fused matrices of a layer, as the engine names them, and the projections that they stack.
MATRICES: Mapping[str, tuple[str, ...]] = {
    "qkv": ("q_proj", "k_proj", "v_proj"),
    "out": ("o_proj",),
    "gate": ("gate_proj",),
    "up": ("up_proj",),
    "down": ("down_proj",),
}
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
    "max_position_embeddings",
)
_PLAIN = "default"
# The types that transformers knows.
_ROPE_TYPES = (_PLAIN, "linear", "dynamic", "yarn", "longrope", "llama3")
_ROPE_NAMES = ("rope_type", "type")
_FACTOR_LISTS = ("short_factor", "long_factor")
# The largest head of any Llama. With the most positions each rotary table then has 32 MB.
_MAX_HEAD_DIM = 256
_MAX_THETA = 1e12
_LONGEST_NAME = 40
# A product of fewer weights than two threads' worth takes no longer than the threads' meeting.
_WEIGHTS_FOR_A_THREAD = 1 << 18
# A larger factor would make transformers allocate larger tables, before anything is checked.
_MAX_SETTINGS = {"partial_rotary_factor": 1.0}


@dataclass(frozen=True)
class LlamaShape:
    """Sizes and constants, with the names of Llama checkpoints.

    Attributes:
        rope_scaling: how the rotary embedding is scaled (``rope_type`` and its settings); empty
            if it is not scaled.
    """

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_hidden_layers: int
    max_position_embeddings: int
    num_key_value_heads: int
    head_dim: int
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    attention_bias: bool = False
    mlp_bias: bool = False
    rope_theta: float = 10_000.0
    rope_scaling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def useful_threads(self) -> int:
        """The most threads that make a step faster: one, where its products are small."""
        return max(1, self.hidden_size * self.intermediate_size // _WEIGHTS_FOR_A_THREAD)

    def block_shape(self, block_size: int) -> tuple[int, ...]:
        """Return the shape of the keys and values of a number of positions.

        It is [layers, 2 (keys, values), kv heads, positions, head size].
        """
        return (self.num_hidden_layers, 2, self.num_key_value_heads, block_size, self.head_dim)


def read_llama_shape(path: Path, sizes: GPTConfig) -> LlamaShape:
    """Read ``path``. The base of the rotary embedding may have its old name (``rope_theta``) or
    its new one (in ``rope_parameters``).

    Raises:
        AssetError: the file is missing or damaged, contradicts ``sizes``, or describes a model
            that no engine can compute.
    """
    try:
        values = read_json(path)
    except (OSError, ValueError) as error:
        raise AssetError(f"{path} is missing or not JSON ({error}); restore the file") from error
    if not isinstance(values, dict):
        raise AssetError(f"{path} must hold a JSON object, not {type(values).__name__}")
    try:
        return _shape(values, sizes)
    except ValueError as error:
        raise AssetError(f"{path} describes no Llama ({error}); restore the file") from None


def llama_config(shape: LlamaShape, attention: str = "sdpa") -> Any:
    """Return a transformers ``LlamaConfig``.

    Raises:
        AssetError: transformers rejects it.
    """
    with importing_transformers():
        from transformers import LlamaConfig

    values = {**asdict(shape), "attn_implementation": attention}
    scaling = values.pop("rope_scaling")
    if scaling:
        values["rope_scaling"] = {**scaling, "rope_theta": shape.rope_theta}
    try:
        return LlamaConfig(
            **values,
            vocab_size=1,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        )
    except Exception as error:  # transformers raises many kinds
        raise AssetError(
            f"asset/gpt/config.json describes no Llama ({error}); restore the file"
        ) from error


def projections(shape: LlamaShape) -> dict[str, tuple[int, int]]:
    """Return the outputs and inputs of each projection of a layer, by its name."""
    hidden, inner = shape.hidden_size, shape.intermediate_size
    queries = shape.num_attention_heads * shape.head_dim
    keys = shape.num_key_value_heads * shape.head_dim
    return {
        "q_proj": (queries, hidden),
        "k_proj": (keys, hidden),
        "v_proj": (keys, hidden),
        "o_proj": (hidden, queries),
        "gate_proj": (inner, hidden),
        "up_proj": (inner, hidden),
        "down_proj": (hidden, inner),
    }


def module_of(projection: str) -> str:
    """Return the module of a layer that has a projection."""
    return "mlp" if projection in ("gate_proj", "up_proj", "down_proj") else "self_attn"


def check_rotation(head_dim: int, *tables: Tensor) -> None:
    """Check tables of cosines and sines, each [..., positions, head size].

    Raises:
        AssetError: a table has another head size, or values that are not finite.
    """
    for table in tables:
        if table.shape[-1] != head_dim:
            raise no_rotation(f"it turns {table.shape[-1]} numbers of a head's {head_dim}")
        if not table.isfinite().all():
            raise no_rotation("it gives NaN")


def no_rotation(reason: str) -> AssetError:
    """Return the error for a rotary embedding that cannot be computed."""
    return AssetError(
        f"asset/gpt/config.json describes no rotary embedding ({reason}); correct its rope_theta "
        "and rope_parameters, or restore the file"
    )


def _shape(values: Mapping[str, Any], sizes: GPTConfig) -> LlamaShape:
    for name in _SIZES:
        if (found := values.get(name, getattr(sizes, name))) != getattr(sizes, name):
            raise ValueError(
                f"{name} is {shown(found)}, but asset/config.json (or the published size, without "
                f"that file) says {getattr(sizes, name)}"
            )
    heads = sizes.num_attention_heads
    kv_heads = _whole(values, "num_key_value_heads", heads, heads)
    head_dim = _whole(values, "head_dim", sizes.hidden_size // heads, _MAX_HEAD_DIM)
    if heads % kv_heads:
        raise ValueError(
            f"its {heads} num_attention_heads are no multiple of num_key_value_heads, {kv_heads}"
        )
    if head_dim % 2:
        raise ValueError(f"head_dim is {head_dim}, and rotation takes pairs of numbers")
    rope = _rope(values)
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    plain = _rope_type(scaling) == _PLAIN
    theta = "rope_theta"
    return LlamaShape(
        **{name: getattr(sizes, name) for name in _SIZES},
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        hidden_act=_text(values, "hidden_act", "silu"),
        rms_norm_eps=_number(values, "rms_norm_eps", 1e-6, 1.0),
        attention_bias=_flag(values, "attention_bias"),
        mlp_bias=_flag(values, "mlp_bias"),
        rope_theta=_number(rope if theta in rope else values, theta, 10_000.0, _MAX_THETA),
        rope_scaling={} if plain else scaling,
    )


def _rope(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of the rotary embedding, under their new or their old name."""
    for name in ("rope_parameters", "rope_scaling"):
        if rope := values.get(name):
            if not isinstance(rope, dict):
                raise ValueError(f"{name} must be a JSON object, not {shown(rope)}")
            for key, value in rope.items():
                if not _is_setting(key, value):
                    raise ValueError(f"{name}: {shown(key)} cannot be {shown(value)}")
            return rope
    return {}


def _is_setting(key: str, value: Any) -> bool:
    """Return whether transformers can safely be given this setting of a rotary embedding."""
    if key in _FACTOR_LISTS:
        are_few = isinstance(value, list) and len(value) <= _MAX_HEAD_DIM
        return are_few and all(_is_setting("", number) for number in value)
    if value is None or isinstance(value, bool):
        return value is None or key == "truncate"
    if isinstance(value, str):  # not elsewhere: a text times a number is a long text
        return key in _ROPE_NAMES and len(value) <= _LONGEST_NAME
    most = _MAX_SETTINGS.get(key, _MAX_THETA)
    return isinstance(value, (int, float)) and 0 < value <= most


def _rope_type(scaling: Mapping[str, Any]) -> str:
    kind = scaling.get("rope_type", scaling.get("type", _PLAIN))
    if kind not in _ROPE_TYPES:
        raise ValueError(f"rope_type is {shown(kind)}; known are {', '.join(_ROPE_TYPES)}")
    return str(kind)


def _whole(values: Mapping[str, Any], name: str, default: int, most: int) -> int:
    value = values.get(name)
    value = default if value is None else value
    if type(value) is not int or not 0 < value <= most:
        raise ValueError(f"{name} must be a whole number from 1 to {most}, not {shown(value)}")
    return value


def _number(values: Mapping[str, Any], name: str, default: float, most: float) -> float:
    value = values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise ValueError(f"{name} must be above 0 and at most {most:g}, not {shown(value)}")
    return float(value)


def _flag(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, not {shown(value)}")
    return value


def _text(values: Mapping[str, Any], name: str, default: str) -> str:
    value = values.get(name, default)
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        raise ValueError(f"{name} must be a name, not {shown(value)}")
    return value
