"""Options that several commands share, and what they mean for the library."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import ConfigError
from .console import UsageError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]

_LEVELS = (("oral", 9, "how colloquial"), ("laugh", 2, "how much laughter"), ("break", 7, "pauses"))


class Parser(argparse.ArgumentParser):
    """argparse's, with help texts kept as they are written and errors of one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"chattts: error: {message} (see `{self.prog} --help`)\n")


def add_command(
    commands: Commands, name: str, run: Callable[..., int], summary: str, details: str
) -> Parser:
    """A command's parser, with the options that every command has."""
    parser = commands.add_parser(name, help=summary, description=details)
    parser.set_defaults(run=run)
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="say what happens; -vv also says where errors come from",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="only warnings and errors")
    return parser


def add_text_options(parser: Parser) -> None:
    """TEXT and what is done to it before it reaches the model."""
    parser.usage = "%(prog)s [options] [TEXT ...]"
    parser.add_argument(
        "text", nargs="*", metavar="TEXT", help="words to speak; `-` or none: standard input"
    )
    group = parser.add_argument_group("text")
    group.add_argument(
        "-f",
        "--file",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help="read the text from a file (UTF-8); may be repeated",
    )
    group.add_argument("--lang", choices=("en", "zh"), help="found out from the text by default")
    group.add_argument(
        "--no-normalize",
        dest="normalize",
        action="store_false",
        help="do not read out numbers and symbols",
    )
    group.add_argument(
        "--no-split",
        dest="split",
        action="store_false",
        help="do not cut a long text into sentences",
    )


def text_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of ``Chat.infer`` that :func:`add_text_options` asks for."""
    return {
        "lang": args.lang,
        "do_text_normalization": args.normalize,
        "split_text": args.split,
    }


def add_model_option(group: Any) -> None:
    """Which checkpoint."""
    group.add_argument(
        "--model",
        metavar="MODEL",
        help="bundled, huggingface (the full ChatTTS model), or a folder that holds asset/; "
        "huggingface by default once it is downloaded, bundled until then",
    )


def add_engine_options(parser: Parser) -> None:
    """Which checkpoint, and how it runs."""
    group = parser.add_argument_group("model")
    add_model_option(group)
    group.add_argument(
        "--engine",
        choices=("velocity", "standard"),
        default="velocity",
        help="what runs the language model: velocity (fast; the default), or standard "
        "(transformers' Llama, the reference)",
    )
    group.add_argument(
        "--dtype",
        choices=("auto", "float32", "bfloat16", "float16", "int8"),
        default="auto",
        help="precision of the language model; auto takes what the device is fast in, int8 keeps "
        "velocity's weights in eight bits (fastest for one voice at a time)",
    )
    group.add_argument("--device", help="such as cpu or cuda:0; the best one by default")
    group.add_argument("--threads", type=int, metavar="N", help="threads on the CPU")
    group.add_argument(
        "--memory", metavar="SIZE", help="of the velocity engine's cache, such as 2GB"
    )


def add_sampling_options(parser: Parser) -> None:
    """How the model draws."""
    group = parser.add_argument_group("drawing")
    group.add_argument("--seed", type=int, metavar="N", help="the same seed, the same sound")
    group.add_argument(
        "--temperature", type=float, metavar="T", help="lower is steadier, higher livelier"
    )
    group.add_argument("--top-p", type=float, metavar="P", help="above 0, at most 1")
    group.add_argument("--top-k", type=int, metavar="K", help="at least 1")


def sampling_parameters(args: argparse.Namespace) -> dict[str, Any]:
    """Request parameters of :func:`add_sampling_options`, a fresh seed where none is given."""
    named = {"temperature": args.temperature, "top_P": args.top_p, "top_K": args.top_k}
    seed = secrets.randbelow(2**32) if args.seed is None else args.seed
    return {"manual_seed": seed, **{k: v for k, v in named.items() if v is not None}}


def add_refine_levels(parser: Parser) -> argparse._ArgumentGroup:
    """What the refine pass should put into a text; gives their group for more."""
    group = parser.add_argument_group("refining")
    for name, most, what in _LEVELS:
        group.add_argument(
            f"--{name}",
            dest=f"{name}_level",
            type=int,
            choices=range(most + 1),
            metavar=f"0..{most}",
            help=what,
        )
    return group


def refine_tags(args: argparse.Namespace) -> str:
    """The levels that are given, as the tags that the model knows."""
    levels = {name: getattr(args, f"{name}_level") for name, _, _ in _LEVELS}
    return "".join(f"[{name}_{level}]" for name, level in levels.items() if level is not None)


def checked_parameters(kind: str, values: Mapping[str, Any]) -> Any:
    """``RefineTextParams`` or ``InferCodeParams``, refused before a model is loaded for nothing."""
    from .. import params

    try:
        made = getattr(params, kind)(**values)
        made.check()
    except ConfigError as error:
        raise UsageError(str(error)) from error
    return made
