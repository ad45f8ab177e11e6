"""The table of hostile changes to a checkpoint for ``test_hostile_checkpoints``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .hostile_tools import CONFIG, GOOD, LLAMA, Case, Raw, weights

# ---------------------------------------------------------------- what may stand there

_VOCOS_MEL = "vocos.feature_extractor.init_args"
SIZES = [
    *(f"gpt.{n}" for n in ("hidden_size", "intermediate_size", "num_attention_heads")),
    *(f"gpt.{n}" for n in ("num_hidden_layers", "max_position_embeddings", "num_audio_tokens")),
    *(f"gpt.{n}" for n in ("num_text_tokens", "num_vq")),
    *(f"embed.{n}" for n in ("hidden_size", "num_audio_tokens", "num_text_tokens", "num_vq")),
    *(f"decoder.{n}" for n in ("idim", "odim", "hidden", "n_layer", "bn_dim")),
    *(f"dvae.encoder.{n}" for n in ("idim", "odim", "hidden", "n_layer", "bn_dim")),
    *(f"dvae.decoder.{n}" for n in ("idim", "odim", "hidden", "n_layer", "bn_dim")),
    *(f"dvae.vq.{n}" for n in ("dim", "levels", "G", "R")),
    *(f"{_VOCOS_MEL}.{n}" for n in ("sample_rate", "n_fft", "hop_length", "n_mels")),
    *(f"vocos.backbone.init_args.{n}" for n in ("dim", "intermediate_dim", "num_layers")),
]
NO_SIZES = [
    0,
    -1,
    10**9,
    2**63,
    Raw("1" + "0" * 5000),
    Raw("1e999"),
    Raw("Infinity"),
    Raw("-Infinity"),
    Raw("NaN"),
    1.5,
    "8",
    True,
    None,
    [],
    {},
    [[8]],
]


def size_case(key: str, value: object) -> Case:
    # The JSON reader of the library stops at invalid JSON, and its error names the position.
    readable = not isinstance(value, Raw)
    return Case(CONFIG, key, value, says=(key.rpartition(".")[2],) if readable else ())


def sizes() -> list[Case]:
    return [size_case(key, value) for key in SIZES for value in NO_SIZES]


def neighbours() -> list[Case]:
    """Cases with sizes that other checkpoints could have."""
    return [
        Case(CONFIG, key, value, says=None)
        for key in SIZES
        for value in (1, 2, 3, 7, 64, 200, 256, 1000, 4096, 30000, 65536)
    ]


def agreeing() -> list[Case]:
    """Cases with sizes on which all configs agree, but which match no weight."""

    def both(key: str, value: object, says: str | None = None) -> Case:
        words = (says or key,)
        return Case(CONFIG, f"gpt.{key}", value, says=words, also=((LLAMA, key, value),))

    def embedded(key: str, value: int) -> Case:
        also = ((CONFIG, f"embed.{key}", value),)
        return Case(CONFIG, f"gpt.{key}", value, says=(), also=also)

    return [
        *(both("num_hidden_layers", n) for n in (20_000, 10**9)),
        *(both("num_hidden_layers", n, "layers.3") for n in (200, 256)),
        *(both("max_position_embeddings", n) for n in (20_000_000, 10**9, 1 << 16)),
        *(both("num_attention_heads", n) for n in (0, -4, 10**6)),
        *(both("intermediate_size", n) for n in (10**9, 2**31)),
        *(both("intermediate_size", n, "mlp") for n in (60_000, 1)),
        *(embedded("num_vq", n) for n in (10**8, 64, 1, 5)),
        *(embedded("num_text_tokens", n) for n in (10**8, 1 << 20, 1, 399)),
        *(embedded("num_audio_tokens", n) for n in (10**8, 65_000, 2)),
        *(embedded("hidden_size", n) for n in (10**8, 65_536, 2)),
    ]


def _values(*values: Any) -> tuple[Any, ...]:
    """Return values of any types."""
    return values


def llama() -> list[Case]:
    rope = "rope_parameters"
    refused: list[tuple[str, object, str]] = [
        (key, value, key)
        for key in ("num_key_value_heads", "head_dim", "hidden_size", "num_hidden_layers")
        for value in _values(0, -1, -4, 10**9, 2**63, 1.5, "4", [], {}, [4], 512)
    ]
    refused += [(key, 3, key) for key in ("num_key_value_heads", "head_dim")]
    refused += [
        ("rms_norm_eps", value, "rms_norm_eps")
        for value in _values(0, -1, 2, 10**9, True, None, "1e-6", [], {})
    ]
    refused += [
        ("hidden_act", value, "hidden_act") for value in _values(0, None, True, [], {}, "x" * 10**6)
    ]
    refused += [("hidden_act", "nonsense", "config.json"), ("hidden_act", "", "config.json")]
    refused += [
        (key, value, key)
        for key in ("attention_bias", "mlp_bias")
        for value in _values(0, 1, "no", None, [], {})
    ]
    refused += [("attention_bias", True, "config"), ("mlp_bias", True, "config")]
    refused += [(rope, value, rope) for value in (5, "default", [1], True, 1.5)]
    refused += [
        (rope, {"rope_type": kind}, "rope_type")
        for kind in _values("nonsense", "", 5, None, [], {}, "x" * 10**6)
    ]
    refused += [
        (rope, {"rope_type": "linear", "factor": factor}, "factor")
        for factor in _values(0, -1, "2", [], {}, [2.0], True)
    ]
    refused += [
        (rope, {"rope_type": "default", "rope_theta": theta}, "rope_theta")
        for theta in _values(0, -1, "1", [], {}, None, True, 10**13, 1e-300)
    ]
    refused += [(rope, {"rope_type": kind}, "config.json") for kind in ("linear", "yarn", "llama3")]
    refused += [
        (rope, {"rope_type": "longrope", "factor": 2.0, **lists}, "config.json")
        for lists in (
            {},
            {"short_factor": [1.0] * 3, "long_factor": [1.0] * 3},
            {"short_factor": [1.0] * 10**5, "long_factor": [1.0] * 10**5},
            {"short_factor": [-1.0] * 8, "long_factor": [1.0] * 8},
            {"short_factor": "x", "long_factor": 5},
        )
    ]
    refused += [
        (rope, {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": part}, "")
        for part in (0.5, 0, -1, 10**9, 1e300, "1")
    ]
    odd = [
        (rope, {"rope_type": "dynamic", "factor": 2.0}),
        (rope, {"rope_type": "dynamic", "factor": 1e12}),
        (rope, {"rope_type": "linear", "factor": 1e-300}),
        (rope, {"rope_type": "linear", "factor": 1e11}),
        (rope, {"rope_type": "yarn", "factor": 1e11, "beta_fast": 1e-300}),
        (rope, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1}),
        (
            rope,
            {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 1.0,
                "original_max_position_embeddings": 1,
            },
        ),
        (rope, {"rope_type": "default", "rope_theta": 1e12}),
        (rope, {}),
        (rope, None),
        ("rms_norm_eps", 1e-300),
        ("rms_norm_eps", 1),
        ("hidden_act", "gelu"),
        ("hidden_act", "xielu"),
        ("head_dim", None),
        ("num_key_value_heads", None),
        ("num_key_value_heads", 2),
        ("num_key_value_heads", 1),
        ("head_dim", 8),
        ("rope_theta", "ignored"),
        ("vocab_size", 10**12),
        ("dtype", "int4"),
        ("quantization_config", {"quant_method": "evil"}),
        ("auto_map", {"AutoModel": "evil.py"}),
        ("attn_implementation", "flash_attention_2"),
        ("pretraining_tp", 10**9),
    ]
    return [
        *(Case(LLAMA, key, value, says=(word,)) for key, value, word in refused),
        *(Case(LLAMA, key, value) for key, value in odd),
    ]


def speaking() -> list[Case]:
    """Cases of settings for voices and requests."""
    refused: list[tuple[str, object, str]] = [
        ("spk_stat", value, "spk_stat")
        for value in _values(
            5, None, [], {}, True, "x", "好", "好" * 10**5, "一" * 300, " ", "\x00"
        )
    ]
    refused += [
        (f"defaults.{key}", value, key)
        for key in ("code", "refine", "speakers", "name", "characters", "refine_trained")
        for value in (5, None, [1], 1.5)
    ]
    refused += [("defaults.speakers", {"a": 5}, "speakers"), ("defaults", 5, "defaults")]
    refused += [("defaults.max_utterance_characters", v, "max_utt") for v in (0, -1, "9", 2**70)]
    refused += [
        ("defaults.alignment_heads", value, "alignment_heads")
        for value in _values(
            *(5, None, {}, "x", True, [5], [[0]], [[0, 0, 0]], [["0", 0]], [[0, 1.5]], [[True, 0]]),
            *([[-1, 0]], [[0, -1]], [[2**70, 0]], [[0, 2**70]], [[0, 0]] * 2),
        )
    ]
    refused += [("defaults.speaker", value, "speaker") for value in ("x", 5, "x" * 10**6)]
    refused += [("defaults.language", value, "language") for value in _values(5, [], {}, True)]
    refused += [("defaults.unknown", 1, "unknown"), ("x" * 10**6, 1, "unknown")]
    numbers = _values(
        -1, 1.5, 10**18, 2**63, 10**30, "9", True, None, [], {}, [[1]], [1, 2], -1e300
    )
    odd: list[tuple[str, object]] = [
        (f"defaults.{part}.{key}", value)
        for part in ("code", "refine")
        for key in ("temperature", "top_P", "top_K", "repetition_penalty")
        for value in (*numbers, 1e300, 1e-300, 0)
    ]
    odd += [
        (f"defaults.{part}.{key}", value)
        for part in ("code", "refine")
        for key in ("max_new_token", "min_new_token", "manual_seed", "prompt", "show_tqdm")
        for value in (*numbers, 1e300, 0)
    ]
    odd += [
        (f"defaults.code.{key}", value)
        for key in (
            "stream_batch",
            "stream_speed",
            "pass_first_n_batches",
            "spk_emb",
            "spk_smp",
            "txt_smp",
            "ensure_non_empty",
        )
        for value in (*numbers, "好" * 1000, "x", Raw('"\\ud800"'))
    ]
    odd += [
        (f"defaults.{key}", value)
        for key in ("name", "language", "characters", "code.prompt", "refine.prompt")
        for value in (
            "",
            "\x00",
            "x" * 10**5,
            "[spk_emb]" * 100,
            "\n\r\x1b[2J",
            "[]",
            "%s{0}",
            Raw('"\\ud800"'),
        )
    ]
    odd += [("defaults.max_utterance_characters", value) for value in (1, 2, 65_536)]
    odd += [("defaults.temperature", 1), ("defaults.speakers", {"": "", "\x00": "好"})]
    return [
        *(Case(CONFIG, key, value, says=(word,)) for key, value, word in refused),
        *(Case(CONFIG, key, value) for key, value in odd),
    ]


def structure() -> list[Case]:
    """Cases of parts that are no objects, missing or unknown, and of text that is no JSON."""
    parts = ("gpt", "embed", "decoder", "dvae", "vocos", "dvae.encoder", "dvae.decoder", "dvae.vq")
    inner = ("feature_extractor", "backbone", "head")
    refused: list[tuple[str, object, str]] = [
        (part, value, part) for part in parts for value in _values(5, None, [], "x", True, [{}])
    ]
    refused += [(part, {}, "") for part in parts]
    refused += [
        (f"vocos.{part}{rest}", value, part)
        for part in inner
        for rest in ("", ".class_path", ".init_args")
        for value in _values(5, None, [], "ab", {}, True, [["a", 1]], "x" * 10**6)
        if (rest, value) != (".init_args", {})  # then the published sizes are used
    ]
    refused += [(f"{part}.evil", 1, "evil") for part in parts if part != "vocos"]
    refused += [
        (f"vocos.head.init_args.{key}", value, key)
        for key in ("dim", "n_fft", "hop_length", "padding")
        for value in _values(0, -1, 10**9, None, [], {}, "same", "x" * 10**6)
    ]
    refused += [
        (f"{_VOCOS_MEL}.padding", value, "padding") for value in _values("same", "", 5, None, [])
    ]
    refused += [
        ("vocos.backbone.init_args.input_channels", v, "input") for v in _values(0, -1, "x", [])
    ]
    texts = [
        "",
        " ",
        "{",
        "[]",
        "5",
        "null",
        '"x"',
        "{'a': 1}",
        "{}}",
        "\x00",
        "NaN",
        "[" * 10**5,
        '{"a":' * 10**5,
        '{"gpt": {}, "gpt": {}}',
        '{"gpt": {"num_vq": 4, "num_vq": 4}}',
        "9" * 10**6,
        "[" + "0," * 10**6 + "0]",
        '{"\\ud800": 1}',
        " " * (5 << 20),
        '{"spk_stat": "' + "x" * (5 << 20) + '"}',
    ]
    return [
        *(Case(CONFIG, key, value, says=(word,)) for key, value, word in refused),
        *(Case(file, "", text, says=()) for file in (CONFIG, LLAMA) for text in texts),
        *(Case(file, "", "{}", says=None) for file in (CONFIG, LLAMA)),
        *(Case(CONFIG, f"vocos.{part}.init_args", {}, says=None) for part in inner),
    ]


# ---------------------------------------------------------------- files and weights

WEIGHTS = ("gpt/model", "Embed", "Decoder", "DVAE", "Vocos")
FILES = (CONFIG, LLAMA, "tokenizer/tokenizer.json", *(f"{name}.safetensors" for name in WEIGHTS))


def _with_header(header: str | bytes, data: bytes = b"") -> bytes:
    raw = header.encode() if isinstance(header, str) else header
    return len(raw).to_bytes(8, "little") + raw + data


def _sparse(size: int) -> Callable[[Path], None]:
    """Return a maker of a sparse file with a valid header and ``size`` bytes of data."""

    def make(path: Path) -> None:
        header = {"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
        path.write_bytes(_with_header(json.dumps(header)))
        os.truncate(path, path.stat().st_size + size)

    return make


def _names(count: int) -> bytes:
    entries = (f'"{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for i in range(count))
    return _with_header("{" + ",".join(entries) + "}")


def _empty_terabyte(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def files() -> list[Case]:
    """Cases with no regular file, or a foreign one, in the place of a file."""
    kinds: dict[str, Callable[[Path], object]] = {
        "pipe": os.mkfifo,
        "endless": lambda path: path.symlink_to("/dev/zero"),
        "nothing": lambda path: path.symlink_to("/dev/null"),
        "loop": lambda path: path.symlink_to(path.name),
        "folder": Path.mkdir,
        "process": lambda path: path.symlink_to("/proc/self/environ"),
        "sparse": _empty_terabyte,
        "noise": lambda path: path.write_bytes(bytes(range(256)) * 64),
    }
    # A loop of links is a missing file, and config.json may be missing.
    optional = {(CONFIG, "loop")}
    headers = {
        "a million names": lambda path: path.write_bytes(_names(10**6)),
        "nested": lambda path: path.write_bytes(_with_header('{"a":' + "[" * 10**5)),
        "long": lambda path: path.write_bytes(_with_header(" " * (2 << 20))),
        "huge number": lambda path: path.write_bytes(_with_header('{"a":' + "9" * 10**5 + "}")),
        "twice": lambda path: path.write_bytes(_with_header('{"a":{},"a":{}}')),
        "large tensor": _sparse(12 << 30),
        "long file": _sparse(1 << 40),
    }
    return [
        *(
            Case(file, kind, make=make, says=None if (file, kind) in optional else ())
            for file in FILES
            for kind, make in kinds.items()
        ),
        *(
            Case(f"{name}.safetensors", kind, make=make, says=())
            for name in WEIGHTS
            for kind, make in headers.items()
        ),
        *(
            Case("homophones_map.json", kind, make=kinds[kind], says=())
            for kind in ("pipe", "endless", "nothing", "folder", "sparse", "noise")
        ),
        *(
            Case("homophones_map.json", "", text, says=())
            for text in ("[]", '{"a": 5}', '{"ab": "c"}', "[" * 10**5, '{"\\ud800": "x"}', "")
        ),
    ]


def _poisoned(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        other = tensor.clone()
        other.view(-1)[len(other.view(-1)) // 2] = value
        return other

    return change


NAN, INF = float("nan"), float("inf")
TENSORS = {
    "gpt/model": ("norm.weight", "q_proj.weight", "down_proj.weight", "input_layernorm.weight"),
    "Embed": (
        "emb_text.weight",
        "emb_code.0.weight",
        "head_code.1.parametrizations.weight.original1",
    ),
    "Decoder": ("coef", "conv_out.weight", "dwconv.weight", "out_conv.weight"),
    "DVAE": ("coef", "encoder.conv_out.weight", "decoder.conv_out.weight"),
    "Vocos": ("head.out.weight", "backbone.embed.bias", "istft.window", "mel_scale.fb"),
}


def poisons() -> list[Case]:
    """Cases of weights that are not finite, or that overflow."""

    def case(
        file: str,
        name: str,
        what: str,
        make: Callable[[torch.Tensor], torch.Tensor],
        says: tuple[str, ...] | None,
        dtype: str = "float32",
    ) -> Case:
        maker = weights(**{name.replace(".", "__"): make})
        return Case(f"{file}.safetensors", f"{name} {what}", make=maker, says=says, dtype=dtype)

    found = [
        case(file, name, str(value), _poisoned(value), () if file == "Embed" else (name,))
        for file, names in TENSORS.items()
        for name in names
        for value in (NAN, INF, -INF)
    ]
    found += [
        case(file, name, "zeros", torch.zeros_like, None)
        for file, names in TENSORS.items()
        for name in names
        if name not in ("coef", "istft.window")
    ]
    found += [
        case("Decoder", "coef", "zeros", torch.zeros_like, ("coef",)),
        case("DVAE", "coef", "zeros", torch.zeros_like, ("coef",)),
        case("Vocos", "istft.window", "zeros", torch.zeros_like, ("window",)),
    ]
    found += [
        case(file, name, "huge", lambda tensor: tensor.sign() * 3e38, None)
        for file, names in TENSORS.items()
        for name in names
    ]
    found += [
        case(file, name, "cut", lambda tensor: tensor.flatten()[:3], ())
        for file, names in TENSORS.items()
        for name in names
    ]
    found += [
        case(file, name, "whole", lambda tensor: tensor.to(torch.int32), ())
        for file, names in TENSORS.items()
        for name in names
    ]
    return found


def tokenizers() -> list[Case]:
    file = "tokenizer/tokenizer.json"
    good = json.loads((GOOD / "asset" / file).read_text("utf-8"))
    pad = {"direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    double = {"type": "Replace", "pattern": {"String": "e"}, "content": "ee"}
    regex = {"type": "Split", "pattern": {"Regex": "(.*)*$x"}, "behavior": "Removed"}
    refused: list[tuple[str, object]] = [
        ("model", None),
        ("model", {"type": "Unigram", "unk_id": 5, "vocab": []}),
        ("normalizer", {"type": "Sequence", "normalizers": [double] * 40}),
        ("pre_tokenizer", {**regex, "invert": False}),
        *(
            ("model", {**good["model"], "vocab": {**good["model"]["vocab"], "zz": own}})
            for own in (2**32 - 1, 2**40, -1, 400, "x")
        ),
    ]
    odd: list[tuple[str, object]] = [
        ("padding", {**pad, "strategy": {"Fixed": 10**9}, "pad_to_multiple_of": None}),
        ("padding", {**pad, "strategy": "BatchLongest", "pad_to_multiple_of": 10**9}),
        ("post_processor", 5),  # no prompt goes through one
        ("normalizer", None),
        ("pre_tokenizer", None),
    ]
    return [
        *(Case(file, key, value, says=()) for key, value in refused),
        *(Case(file, key, value) for key, value in odd),
    ]
