"""The stage ``voices``: the named voices of a checkpoint chosen anew; its weights stay."""

from __future__ import annotations

import json
import logging
import shutil

import numpy as np
import torch

from ChatTTS.errors import ConfigError
from ChatTTS.model.speaker import Speaker

from .export import language_speakers, speaker_strings, write_json
from .run import Run
from .styles import CAST, StyleSpace
from .teacher import style_tables

logger = logging.getLogger(__name__)

_ROUNDING = 1e-3  # of the axes, on another machine


def main(run: Run) -> None:
    """Write ``asset`` in the folder of the run: that of the known checkpoint, with the cast of now.

    Raises:
        ConfigError: no checkpoint is given.
    """
    if run.known is None:
        raise ConfigError("the stage voices changes a checkpoint: give its asset folder (--known)")
    config = json.loads((run.known / "config.json").read_text(encoding="utf-8"))
    tables = style_tables(run.teacher_files().voices)
    places = StyleSpace.of(tables).places.astype(np.float32)
    hidden = config["gpt"]["hidden_size"]
    made = speaker_strings(hidden, places)
    # One who moved by rounding alone keeps its string, so that its speech stays as it is.
    speaker = Speaker(hidden, "", torch.device("cpu"))
    for name, string in config["defaults"]["speakers"].items():
        if name in made and np.allclose(
            speaker.vector(string), speaker.vector(made[name]), atol=_ROUNDING
        ):
            made[name] = string
    config["defaults"] |= {
        "speaker": next(iter(CAST)),
        "speakers": made,
        "language_speakers": language_speakers(),
    }
    # Complete before an earlier one goes, which may be the known checkpoint itself.
    asset = run.out / "asset"
    partial = asset.with_name(asset.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(run.known, partial)
    write_json(partial / "config.json", config)
    shutil.rmtree(asset, ignore_errors=True)
    partial.rename(asset)
    logger.info("%s has the voices %s", asset, ", ".join(CAST))
