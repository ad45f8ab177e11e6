"""The sizes of a voice whose host has the published work, and whose device has next to none."""

from __future__ import annotations

from dataclasses import replace

from ChatTTS.config import Config


def host_config() -> Config:
    """Return a config with the published sizes where the host sees them.

    Rows of the published width go from the engine to the decoder, and its layers have the published
    reach. What no processor computes on a simulated device is small.
    """
    sizes = Config()
    return replace(
        sizes,
        gpt=replace(sizes.gpt, num_hidden_layers=1, intermediate_size=64),
        decoder=replace(sizes.decoder, hidden=8, bn_dim=8),
        dvae=replace(
            sizes.dvae,
            encoder=replace(sizes.dvae.encoder, hidden=8, bn_dim=8),
            decoder=replace(sizes.dvae.decoder, hidden=8, bn_dim=8),
        ),
        vocos=replace(sizes.vocos, dim=8, intermediate_dim=8),
    )
