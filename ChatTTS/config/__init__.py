"""All sizes of a ChatTTS checkpoint; the module within has the name of the published one."""

from __future__ import annotations

from .config import (
    MOST_HEADS,
    AlignmentHeads,
    Config,
    ConvNetConfig,
    DVAEConfig,
    EmbedConfig,
    GPTConfig,
    MelConfig,
    Paths,
    QuantizerConfig,
    VocosConfig,
    VoiceDefaults,
    checked_heads,
    published_facts,
)

__all__ = [
    "MOST_HEADS",
    "AlignmentHeads",
    "Config",
    "ConvNetConfig",
    "DVAEConfig",
    "EmbedConfig",
    "GPTConfig",
    "MelConfig",
    "Paths",
    "QuantizerConfig",
    "VocosConfig",
    "VoiceDefaults",
    "checked_heads",
    "published_facts",
]
