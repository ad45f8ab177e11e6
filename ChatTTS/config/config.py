"""All sizes of a ChatTTS checkpoint, with the published ones as defaults.

A checkpoint may have an ``asset/config.json``, which overrides sizes and sets the defaults of its
voice (speaker, prompt, sampling). Without that file the published sizes apply.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

from ..errors import ConfigError, shown
from ..languages import LANGUAGES
from ..utils.untrusted import parse_json, read_json
from .front_ends import FRONT_ENDS

T = TypeVar("T")

# Pairs of a layer and an attention head, each counted from 0.
AlignmentHeads: TypeAlias = tuple[tuple[int, int], ...]
# More of them in a request are refused.
MOST_HEADS = 64

# Upper bounds of all sizes, checked before any module is built. Sizes that the weights have, too,
# are compared with these later. The bounds keep that cheap, and limit sizes that no weight has.
_WIDEST = 1 << 16
_DEEPEST = 256
_MOST: dict[str, int] = {
    "num_hidden_layers": _DEEPEST,
    "n_layer": _DEEPEST,
    "num_layers": _DEEPEST,
    "num_attention_heads": 1024,
    "max_position_embeddings": 1 << 15,  # a sine and a cosine for each; twelve minutes of speech
    "num_text_tokens": 1 << 20,
    "num_vq": 64,
    "levels": 1 << 12,
    "G": 64,
    "R": 64,
    "sample_rate": 384_000,
    "n_fft": 1 << 13,
    "hop_length": 1 << 12,
    "n_mels": 512,
}
_LEAST = {"sample_rate": 1000, "n_fft": 64, "hop_length": 32, "levels": 3}
_MOST_LEVELS = 16
_LONGEST_DELAY = 1.0

# Keys of published configurations that are no sizes.
_LEGACY_KEYS = {"use_cache", "spk_emb_dim", "spk_KL"}


@dataclass(frozen=True)
class Paths:
    """The published files of a checkpoint, within its folder, by the arguments of ``_load``."""

    vocos_ckpt_path: str = "asset/Vocos.safetensors"
    dvae_ckpt_path: str = "asset/DVAE.safetensors"
    gpt_ckpt_path: str = "asset/gpt"
    decoder_ckpt_path: str = "asset/Decoder.safetensors"
    tokenizer_path: str = "asset/tokenizer"
    embed_path: str = "asset/Embed.safetensors"


@dataclass(frozen=True)
class GPTConfig:
    """The Llama that turns a prompt into text ids or code frames."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_attention_heads: int = 12
    num_hidden_layers: int = 20
    max_position_embeddings: int = 4096
    num_audio_tokens: int = 626
    num_text_tokens: int = 21178
    num_vq: int = 4


@dataclass(frozen=True)
class EmbedConfig:
    """The embeddings and heads of text ids and of the ``num_vq`` codebooks."""

    hidden_size: int = 768
    num_audio_tokens: int = 626
    num_text_tokens: int = 21178
    num_vq: int = 4

    @property
    def end_of_speech(self) -> int:
        """The code that ends the speech, in any codebook: the last one."""
        return self.num_audio_tokens - 1


@dataclass(frozen=True)
class ConvNetConfig:
    """A stack of ConvNeXt blocks between two convolutions (channels in, out, inside)."""

    idim: int = 384
    odim: int = 384
    hidden: int = 512
    n_layer: int = 12
    bn_dim: int = 128


@dataclass(frozen=True)
class QuantizerConfig:
    """A grouped residual finite scalar quantizer: ``G`` groups of ``R`` residual codes each."""

    dim: int = 1024
    levels: tuple[int, ...] = (5, 5, 5, 5)
    G: int = 2
    R: int = 2


@dataclass(frozen=True)
class DVAEConfig:
    """The codec between mel frames and codes."""

    encoder: ConvNetConfig = ConvNetConfig(idim=512, odim=1024, hidden=256)
    decoder: ConvNetConfig = ConvNetConfig(idim=512, odim=512, hidden=256)
    vq: QuantizerConfig = QuantizerConfig()


@dataclass(frozen=True)
class MelConfig:
    """The mel features between the two convolutional stages (Hz, samples, bins)."""

    sample_rate: int = 24_000
    n_fft: int = 1024
    hop_length: int = 256
    n_mels: int = 100
    padding: str = "center"


@dataclass(frozen=True)
class VocosConfig:
    """The vocoder from mel frames to samples."""

    mel: MelConfig = MelConfig()
    dim: int = 512
    intermediate_dim: int = 1536
    num_layers: int = 8


@dataclass(frozen=True)
class VoiceDefaults:
    """A checkpoint's defaults for what the caller leaves out.

    Attributes:
        name: of the voice.
        language: the only one of the voice, in which texts that show no language are read; None
            for a voice of several.
        speaker: a name in ``speakers``, the default speaker.
        speakers: speaker strings by name.
        language_speakers: names in ``speakers`` by the codes of languages, for texts without a
            named voice. Texts of all other languages have the default speaker.
        code, refine: defaults of single fields of the request parameters.
        refine_trained: whether the model was trained to refine texts.
        refine_keeps_words: whether refining only adds breaks, laughs and fillers. Then a pass that
            shall add nothing is left out, and an answer with other words is not used.
        samples_trained: whether the model was trained to follow sample prompts.
        characters: those beyond the published set that the voice was trained on, which the text
            rules keep.
        pronunciation: the front end that the voice was trained with, one of ``FRONT_ENDS``; without
            one it reads letters.
        max_utterance_characters: longest text to speak in one go. The splitter divides longer
            sentences, since a voice fails beyond the lengths that it was trained on.
        alignment_heads: attention heads of the Llama that follow the text while it is spoken, as
            pairs of a layer and a head, both counted from 0. The times of words are found from
            them; without any, they are searched for when times are first asked for.
        alignment_delay: seconds by which these heads move on behind the sound. The times of words
            are so much earlier than what the heads say.
    """

    name: str = ""
    language: str | None = None
    speaker: str | None = None
    speakers: Mapping[str, str] = field(default_factory=dict)
    language_speakers: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, Any] = field(default_factory=dict)
    refine: Mapping[str, Any] = field(default_factory=dict)
    refine_trained: bool = True
    refine_keeps_words: bool = False
    samples_trained: bool = True
    characters: str = ""
    pronunciation: str | None = None
    max_utterance_characters: int = 200
    alignment_heads: AlignmentHeads = ()
    alignment_delay: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.alignment_delay <= _LONGEST_DELAY:
            raise ConfigError(
                f"config.json: defaults.alignment_delay is {self.alignment_delay:g} seconds; it "
                f"must be between 0 and {_LONGEST_DELAY:g}"
            )
        if self.speaker is not None and self.speaker not in self.speakers:
            known = shown(", ".join(self.speakers)) if self.speakers else "none"
            raise ConfigError(
                f"config.json: defaults.speaker {shown(self.speaker)} is not among "
                f"defaults.speakers ({known})"
            )
        self._check_language_speakers()
        if self.pronunciation not in (None, *FRONT_ENDS):
            raise ConfigError(
                f"config.json: defaults.pronunciation is {shown(self.pronunciation)}; this version "
                f"has {', '.join(FRONT_ENDS)}. Leave it out for a voice that reads letters"
            )

    def _check_language_speakers(self) -> None:
        where = "config.json: defaults.language_speakers"
        if self.language_speakers and self.speaker is None:
            raise ConfigError(f"{where} needs defaults.speaker, which speaks all other texts")
        for code, name in self.language_speakers.items():
            if code not in LANGUAGES:
                raise ConfigError(
                    f"{where} has the language {shown(code)}; known are {', '.join(LANGUAGES)}"
                )
            if name not in self.speakers:
                raise ConfigError(
                    f"{where} names {shown(name)}, which is not among defaults.speakers "
                    f"({shown(', '.join(self.speakers))})"
                )

    def speaker_of(self, language: str | None) -> str | None:
        """Return the name of the speaker of a language where no voice is named.

        Args:
            language: a code; ``None`` for a text that shows none.
        """
        return self.language_speakers.get(language or self.language or "", self.speaker)


@dataclass(frozen=True)
class Config:
    """All sizes and defaults.

    Attributes:
        spk_stat: base16384 text of float16 ``[std (H), mean (H)]``, or empty.
    """

    gpt: GPTConfig = GPTConfig()
    embed: EmbedConfig = EmbedConfig()
    decoder: ConvNetConfig = ConvNetConfig()
    dvae: DVAEConfig = DVAEConfig()
    vocos: VocosConfig = VocosConfig()
    spk_stat: str = ""
    defaults: VoiceDefaults = field(default_factory=VoiceDefaults)

    def __post_init__(self) -> None:
        for name in ("hidden_size", "num_audio_tokens", "num_text_tokens", "num_vq"):
            gpt, embed = getattr(self.gpt, name), getattr(self.embed, name)
            if gpt != embed:
                raise ConfigError(f"config.json: gpt.{name} is {gpt} but embed.{name} is {embed}")
        checked_heads(self.defaults.alignment_heads, self.gpt, "config.json: defaults.")

    @property
    def path(self) -> Paths:
        """The published files, for scripts that load them by ``chat._load(**paths)``."""
        return Paths()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """Build from the JSON of ``asset/config.json``; missing parts keep their defaults."""
        return _build(cls, values, "")

    @classmethod
    def published(cls) -> Config:
        """Return the configuration of the published model."""
        return cls(spk_stat=str(published_facts()["spk_stat"]))

    @classmethod
    def from_file(cls, path: Path) -> Config:
        """Read ``path``; a missing file means the published sizes.

        Raises:
            ConfigError: the file is not JSON, or has invalid sizes.
        """
        try:
            values = read_json(path)
        except FileNotFoundError:
            return cls.published()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} is not readable JSON ({error}); restore the file") from error
        if not isinstance(values, dict):
            raise ConfigError(f"{path} must hold a JSON object, not {type(values).__name__}")
        try:
            return cls.from_dict(values)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None


# Classes of the published configuration, by the classes that have their sizes here.
_INSTEAD = {
    "Path": "Paths",
    "GPT": "GPTConfig",
    "Embed": "EmbedConfig",
    "Decoder": "ConvNetConfig",
    "DVAE": "DVAEConfig",
    "VQ": "QuantizerConfig",
    "Vocos": "VocosConfig",
    "FeatureExtractor": "MelConfig",
}


def __getattr__(name: str) -> NoReturn:
    remedy = f"; its sizes are in {_INSTEAD[name]}" if name in _INSTEAD else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{remedy}")


def checked_heads(given: Any, gpt: GPTConfig, where: str = "") -> AlignmentHeads:
    """Return alignment heads as a tuple of pairs of plain whole numbers.

    Args:
        given: pairs of a layer and a head, of any sequence.
        where: what the name in a message begins with.

    Raises:
        ConfigError: they are no pairs of whole numbers, the model has no such head, one is given
            twice, or there are more than 64.
    """
    name = f"{where}alignment_heads"
    try:
        heads = tuple((operator.index(layer), operator.index(head)) for layer, head in given)
    except Exception as error:  # from a class of the caller's
        raise ConfigError(
            f"{name} must be pairs of a layer and a head, such as [[2, 0], [3, 1]], not "
            f"{shown(given)}"
        ) from error
    if len(heads) > MOST_HEADS or len(set(heads)) < len(heads):
        raise ConfigError(
            f"{name} must be at most {MOST_HEADS} different heads, not {shown(given)}"
        )
    layers, count = gpt.num_hidden_layers, gpt.num_attention_heads
    for layer, head in heads:
        if not (0 <= layer < layers and 0 <= head < count):
            raise ConfigError(
                f"{name} has layer {shown(layer)}, head {shown(head)}: this model has layers 0 to "
                f"{layers - 1} with heads 0 to {count - 1}"
            )
    return heads


def published_facts() -> dict[str, Any]:
    """Return the published model's speaker statistics and file hashes."""
    text = (Path(__file__).parents[1] / "published_model.json").read_text(encoding="utf-8")
    facts: dict[str, Any] = parse_json(text)
    return facts


def _reject_unknown(where: str, values: Mapping[str, Any], known: set[str]) -> None:
    unknown = set(values) - known - _LEGACY_KEYS
    if unknown:
        raise ConfigError(
            f"{where or 'top level'}: unknown key {shown(', '.join(sorted(unknown)))}; "
            f"known are {', '.join(sorted(known))}"
        )


def _is_size(name: str, value: Any) -> bool:
    return type(value) is int and _LEAST.get(name, 1) <= value <= _MOST.get(name, _WIDEST)


def _are_sizes(name: str, values: Any) -> bool:
    return isinstance(values, (list, tuple)) and all(_is_size(name, value) for value in values)


def _range(name: str) -> str:
    return f"{_LEAST.get(name, 1)} to {_MOST.get(name, _WIDEST)}"


# By the annotation of a field: the check of its JSON value, and what a message calls valid values.
_KINDS: dict[str, tuple[Callable[[str, Any], bool], str]] = {
    "int": (_is_size, "a whole number from {range}"),
    "float": (lambda _, v: type(v) in (int, float), "a number"),
    "bool": (lambda _, v: isinstance(v, bool), "true or false"),
    "str": (lambda _, v: isinstance(v, str), "text"),
    "str | None": (lambda _, v: v is None or isinstance(v, str), "text or null"),
    "tuple[int, ...]": (
        lambda name, v: _are_sizes(name, v) and 0 < len(v) <= _MOST_LEVELS,
        f"a list of 1 to {_MOST_LEVELS} whole numbers from {{range}}",
    ),
    "AlignmentHeads": (
        lambda _, v: (
            isinstance(v, list)
            and all(
                isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)
                for pair in v
            )
        ),
        "a list of pairs of whole numbers, a layer and a head",
    ),
    "Mapping[str, str]": (
        lambda _, v: isinstance(v, dict) and all(isinstance(text, str) for text in v.values()),
        "a JSON object of texts",
    ),
    "Mapping[str, Any]": (lambda _, v: isinstance(v, dict), "a JSON object"),
}


# By the annotation of a field: the part that is built from its JSON object.
_PARTS: dict[str, type[Any]] = {
    part.__name__: part
    for part in (GPTConfig, EmbedConfig, ConvNetConfig, QuantizerConfig, DVAEConfig, VoiceDefaults)
}


def _build(part: type[T], values: Any, where: str) -> T:
    """Build the dataclass ``part``, and the dataclasses in it, from a JSON object; check values."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where} must be a JSON object, not {type(values).__name__}")
    known = {f.name: str(f.type) for f in fields(cast(Any, part))}
    _reject_unknown(where, values, set(known))
    return part(
        **{
            name: _value(known[name], value, name, f"{where}.{name}" if where else name)
            for name, value in values.items()
            if name in known
        }
    )


def _value(kind: str, value: Any, name: str, where: str) -> Any:
    """Return the value of a field from its JSON."""
    if kind == "VocosConfig":
        return _vocos(value)
    if kind in _PARTS:
        return _build(_PARTS[kind], value, where)
    fits, what = _KINDS[kind]
    if not fits(name, value):
        raise ConfigError(
            f"{where} must be {what.format(range=_range(name))}, not {shown(value)}; correct it"
        )
    if kind == "AlignmentHeads":
        return tuple(map(tuple, value))
    return tuple(value) if isinstance(value, list) else value


def _vocos(values: Any) -> VocosConfig:
    """Read the nested form of the vocos package (``class_path`` with ``init_args``)."""

    def arguments(part: str, class_path: str) -> dict[str, Any]:
        section = values.get(part) if isinstance(values, dict) else None
        if not isinstance(section, dict) or not isinstance(section.get("init_args"), dict):
            raise ConfigError(f"vocos.{part} must be a JSON object that has one as init_args")
        if (found := section.get("class_path")) != class_path:
            raise ConfigError(
                f"vocos.{part}.class_path is {shown(found)}; supported is {class_path}"
            )
        return dict(section["init_args"])

    mel = _build(
        MelConfig,
        arguments("feature_extractor", "vocos.feature_extractors.MelSpectrogramFeatures"),
        "vocos.feature_extractor",
    )
    backbone = arguments("backbone", "vocos.models.VocosBackbone")
    head = arguments("head", "vocos.heads.ISTFTHead")
    agreements = (
        ("backbone.input_channels", backbone.pop("input_channels", mel.n_mels), mel.n_mels),
        ("backbone.mel", backbone.pop("mel", None), None),
        ("head.dim", head.get("dim"), backbone.get("dim")),
        ("head.n_fft", head.get("n_fft"), mel.n_fft),
        ("head.hop_length", head.get("hop_length"), mel.hop_length),
        ("head.padding", head.get("padding"), mel.padding),
        ("feature_extractor.padding", mel.padding, "center"),
    )
    for name, found, wanted in agreements:
        if found != wanted:
            raise ConfigError(f"vocos.{name} is {shown(found)} where {wanted!r} is needed")
    _check_transform(mel)
    sizes = _build(VocosConfig, backbone, "vocos.backbone")
    return VocosConfig(mel, sizes.dim, sizes.intermediate_dim, sizes.num_layers)


def _check_transform(mel: MelConfig) -> None:
    """Raise ConfigError for sizes without an inverse Fourier transform."""
    where = "vocos.feature_extractor"
    if mel.n_fft % 2:
        raise ConfigError(f"{where}.n_fft is {mel.n_fft} where an even number is needed")
    if 2 * mel.hop_length > mel.n_fft:
        raise ConfigError(
            f"{where}.hop_length is {mel.hop_length}, and frames of n_fft {mel.n_fft} overlap only "
            f"up to half of that, {mel.n_fft // 2}"
        )
