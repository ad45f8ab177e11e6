"""``chattts align``: find the attention heads from which the times of words are found."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .console import Console, table
from .model import choose_model, load_chat
from .options import Commands, add_command, add_engine_options

if TYPE_CHECKING:
    from ..config import AlignmentHeads
    from ..pipeline.alignment.head_scores import HeadChoice, Score

_DETAILS = """\
Find the attention heads of a model that follow the text while it is spoken. The times of words
(`chattts say --subtitles`) are found from them.

  chattts align --model my-model
  chattts align --model huggingface

The model speaks a few sentences, which takes seconds to minutes. The choice is written beside the
model (alignment_heads.json), or into the cache folder where that is not possible. The bundled voice
names its heads itself. For any other model, this runs by itself when word times are first wanted.
"""
_SHOWN = 10


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "align", run, "find the heads for word times", _DETAILS)
    add_engine_options(parser, takes_adapters=False)


def run(args: argparse.Namespace, console: Console) -> int:
    """Search for the heads; print and store the choice."""
    chat = load_chat(choose_model(args.model), args, console)
    named = chat.config.defaults.alignment_heads
    try:
        found = chat.find_alignment_heads(show_tqdm=not console.quiet)
    finally:
        chat.unload()
    assert found is not None  # nothing but Ctrl-C interrupts it, and that raises
    print(_report(found))
    if named:
        print(f"the model's config.json names {_listed(named)}: they stay in use")
    elif found.file is None:
        print("the choice could not be saved; it is searched for again whenever it is needed")
    else:
        print(f"written to {found.file}")
    return 0


def _report(found: HeadChoice) -> str:
    """Return the best heads as a table, and the choice in words."""
    rows = [
        (
            f"{each.layer}",
            f"{each.head}",
            *_numbers(each.score),
            "chosen" if (each.layer, each.head) in found.heads else "",
        )
        for each in found.best[:_SHOWN]
    ]
    titles = ("LAYER", "HEAD", "SCORE", "MONOTONE", "COVERAGE", "SHARPNESS", "")
    return "\n".join(
        (
            table(titles, *rows),
            f"chosen: {_listed(found.heads)}, together {found.joint.total:.2f} of 1",
            found.verdict,
        )
    )


def _numbers(score: Score) -> tuple[str, ...]:
    values = (score.total, score.monotone, score.coverage, score.sharpness)
    return tuple(f"{value:.2f}" for value in values)


def _listed(heads: AlignmentHeads) -> str:
    return ", ".join(f"layer {layer} head {head}" for layer, head in heads)
