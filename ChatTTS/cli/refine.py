"""``chattts refine``: print a text with the breaks and laughs that the model puts in."""

from __future__ import annotations

import argparse

from ..errors import ConfigError, NothingToSpeakError
from .console import Console
from .model import choose_model, load_chat, read_config
from .options import (
    Commands,
    add_command,
    add_engine_options,
    add_refine_levels,
    add_sampling_options,
    add_text_options,
    checked_parameters,
    refine_tags,
    sampling_parameters,
    text_arguments,
)
from .texts import gather_text

_DETAILS = """\
Print a text as the model would say it, with breaks, laughs and filler words; one sentence per line.

  chattts refine "So, what shall we do tonight?" --oral 2 --laugh 0 --break 6

You can edit the result and speak it: chattts say --no-normalize "...". The model must be trained
to refine texts; the full model and the bundled one are.
"""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "refine", run, "put breaks and laughs into a text", _DETAILS)
    add_text_options(parser)
    add_refine_levels(parser)
    add_sampling_options(parser)
    add_engine_options(parser, takes_adapters=False)


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the refined text; return the exit status."""
    text = gather_text(args.text, args.files)
    values = sampling_parameters(args) | {"show_tqdm": not console.quiet}
    if tags := refine_tags(args):
        values["prompt"] = tags
    params = checked_parameters("RefineTextParams", values)
    texts = text_arguments(args)
    choice = choose_model(args.model)
    if not read_config(choice).defaults.refine_trained:
        raise ConfigError(
            f"the model {choice.label} was not trained to refine texts; the full ChatTTS model "
            "was: `chattts download`, then --model huggingface"
        )
    chat = load_chat(choice, args, console)
    refined = chat.infer(text, refine_text_only=True, params_refine_text=params, **texts)
    lines = refined if isinstance(refined, str) else "\n".join(refined)
    if not lines:
        raise NothingToSpeakError(text)
    print(lines)
    return 0
