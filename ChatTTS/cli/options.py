"""Options that several commands share, and the library's arguments that they set."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from ..config.request_fields import MOST_SILENCE, REQUEST_FIELDS, fields_on
from ..errors import ConfigError, printable
from ..languages import LANGUAGES, known_languages, language_choice
from .configuration import Configuration
from .console import UsageError

if TYPE_CHECKING:
    from ..text.lexicon import Lexicon

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

_AT_ENDS = ("silence_before", "silence_after")
SILENCES = (*_AT_ENDS, "paragraph_pause")
_LEVELS = (
    ("oral", 9, "how colloquial"),
    ("laugh", 2, "how much laughter"),
    ("break", 7, "how many pauses"),
)


class Parser(argparse.ArgumentParser):
    """argparse's parser, but it keeps the line breaks of help texts and prints one-line errors.

    Attributes:
        configuration: where options that are not given may be set; ``None`` for nowhere.
    """

    configuration: Configuration | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words; options that they lack come from the configuration."""
        if self.configuration is None:
            return super().parse_known_args(args, namespace)
        given, left = super().parse_known_args(args, self.configuration.blank(namespace))
        try:
            return self.configuration.complete(given), left
        except UsageError as error:
            self.error(printable(str(error)))

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"chattts: error: {message} (see `{self.prog} --help`)\n")


def add_command(
    commands: Commands, name: str, run: Callable[..., int], summary: str, details: str
) -> Parser:
    """Add a command and return its parser, with the options that every command has."""
    parser = commands.add_parser(name, help=summary, description=details)
    parser.set_defaults(run=run)
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="show the log; -vv also shows debug messages and tracebacks",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show only warnings and errors")
    return parser


def add_text_options(parser: Parser) -> None:
    """Add TEXT and the options for its preparation."""
    parser.usage = "%(prog)s [options] [TEXT ...]"
    parser.add_argument(
        "text",
        nargs="*",
        metavar="TEXT",
        help="words to speak; `-` or nothing reads standard input",
    )
    group = parser.add_argument_group("text")
    add_file_option(group)
    add_language_option(group)
    group.add_argument(
        "--no-normalize",
        dest="normalize",
        action="store_false",
        help="do not spell out numbers and symbols as words",
    )
    group.add_argument(
        "--no-split",
        dest="split",
        action="store_false",
        help="do not cut a long text into sentences",
    )
    add_lexicon_option(group, "how to pronounce your own words")


def add_language_option(group: Any) -> None:
    """Add the option that names the language of a text."""
    group.add_argument(
        "--lang",
        metavar="LANGUAGE",
        help=f"{language_choice(LANGUAGES)}, or one of --normalizer; detected from the text by "
        "default",
    )


def language_of(args: argparse.Namespace) -> str | None:
    """Return the language of ``--lang``.

    Raises:
        UsageError: it is neither built in nor one of ``--normalizer``.
    """
    known = known_languages(named_normalizers(args.normalizer))
    if args.lang not in (None, *known):
        raise UsageError(f"--lang must be {language_choice(known)}, not {args.lang!r}")
    return None if args.lang is None else str(args.lang)


def add_silence_options(group: Any, *, between_paragraphs: bool) -> None:
    """Add the options for the silence at both ends of a sound, and between its paragraphs."""
    for name in SILENCES if between_paragraphs else _AT_ENDS:
        field = next(each for each in REQUEST_FIELDS if each.name == name)
        assert field.bounds is not None
        group.add_argument(
            field.on["command"],
            type=float,
            metavar="SECONDS",
            help=f"{field.help.replace(';', ',')}; {field.bounds.rule}",
        )


def silence_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of ``Chat.infer`` for the options of :func:`add_silence_options`.

    Raises:
        UsageError: a value is out of its bounds.
    """
    values = {name: getattr(args, name, None) for name in SILENCES}
    given = {name: value for name, value in values.items() if value is not None}
    for name, value in given.items():
        if not 0 <= value <= MOST_SILENCE:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} must be from 0 to {MOST_SILENCE:g} seconds, not {value:g}")
    return given


def add_lexicon_option(group: Any, what: str) -> None:
    """Add the option that names a lexicon; ``what`` begins its description."""
    group.add_argument(
        "--lexicon",
        metavar="FILE",
        help=f'{what}: a TOML file with lines such as nginx = "engine x"',
    )


def read_lexicon(path: str | None) -> Lexicon:
    """Return the lexicon of a file; an empty one without a file.

    Raises:
        ConfigError: it cannot be read, or an entry cannot be used.
    """
    from ..text.lexicon import Lexicon

    return Lexicon() if path is None else Lexicon.load(path)


def add_file_option(group: Any) -> None:
    """Add the option that names files with the text."""
    group.add_argument(
        "-f",
        "--file",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help="read the text from a file (UTF-8); may be repeated",
    )


def text_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of ``Chat.infer`` for the options of :func:`add_text_options`."""
    return {
        "lang": language_of(args),
        "do_text_normalization": args.normalize,
        "split_text": args.split,
        "lexicon": read_lexicon(args.lexicon),
    }


def add_model_option(group: Any) -> None:
    """Add the option that names a checkpoint."""
    group.add_argument(
        "--model",
        metavar="MODEL",
        help="bundled, huggingface (the full ChatTTS model), or a folder that contains asset/; "
        "default: huggingface if it is downloaded, otherwise bundled",
    )


def add_force_option(parser: Parser) -> None:
    """Add the option that lets a voice replace another one."""
    parser.add_argument("--force", action="store_true", help="replace a voice of the same name")


def add_engine_options(parser: Parser, *, takes_adapters: bool = True) -> None:
    """Add the options for the checkpoint and for the engine that runs it."""
    group = parser.add_argument_group("model")
    add_model_option(group)
    group.add_argument(
        "--engine",
        choices=("velocity", "standard"),
        default="velocity",
        help="engine of the language model: velocity (fast; the default) or standard "
        "(transformers' Llama, the reference)",
    )
    group.add_argument(
        "--dtype",
        choices=("auto", "float32", "bfloat16", "float16", "int8"),
        default="auto",
        help="precision of the language model; auto: the fastest of the device's float types, "
        "int8: weights of velocity in 8 bits (fastest for one text at a time, less memory)",
    )
    group.add_argument(
        "--device", help="device, such as cpu or cuda:0; the fastest available by default"
    )
    group.add_argument("--threads", type=int, metavar="N", help="number of CPU threads")
    group.add_argument(
        "--memory", metavar="SIZE", help="size of the velocity engine's KV cache, such as 2GB"
    )
    group.add_argument(
        "--kv-cache-dtype",
        choices=("auto", "int8"),
        default="auto",
        help="int8: keys and values in 8 bits, which nearly doubles the streams that an NVIDIA "
        "GPU's memory holds; auto: as the weights are",
    )
    parser.set_defaults(adapter=[])
    if takes_adapters:
        group.add_argument(
            "--adapter",
            action="append",
            metavar="[NAME=]FOLDER",
            help="load an adapter (LoRA, as peft saves it) beside the model; its name is a voice. "
            "Without a name it speaks where no voice is chosen; may be repeated",
        )
    group.add_argument(
        "--normalizer",
        action="append",
        default=[],
        metavar="LANGUAGE=MODULE:FUNCTION",
        help="let this function of a Python module write out the texts of a language, also of a "
        "new one; may be repeated",
    )
    group.add_argument(
        "--tensor-parallel-size",
        type=int,
        default=1,
        metavar="N",
        help="divide each layer of the model among so many devices or processes (velocity)",
    )
    group.add_argument(
        "--pipeline-parallel-size",
        type=int,
        default=1,
        metavar="N",
        help="divide the layers of the model among so many devices or processes (velocity)",
    )
    group.add_argument(
        "--distributed-executor-backend",
        choices=("mp", "ray"),
        help="where these run: processes on this machine (mp, the default) or a Ray cluster",
    )


def adapter_options(given: Sequence[str]) -> dict[str, Path]:
    """Return the folders of ``--adapter`` by their names.

    Raises:
        UsageError: a name cannot be one, or is given twice.
    """
    from ..model.lora.names import DEFAULT, check_adapter_name

    folders: dict[str, Path] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals or Path(name).name != name:  # a path may have a "=", too
            name, folder = DEFAULT, text
        if not folder:
            raise UsageError(f"--adapter takes NAME=FOLDER or FOLDER, not {text!r}")
        if name in folders:
            raise UsageError(f"--adapter names {name!r} twice: give each adapter its own name")
        try:
            folders[check_adapter_name(name)] = Path(folder)
        except ConfigError as error:
            raise UsageError(str(error)) from error
    return folders


def named_normalizers(given: Sequence[str]) -> dict[str, str]:
    """Return the functions of ``--normalizer``, as ``MODULE:FUNCTION``, by their languages.

    Raises:
        UsageError: one is not written so, or a language is given twice.
    """
    places: dict[str, str] = {}
    for text in given:
        language, _, place = (part.strip() for part in text.partition("="))
        module, _, function = place.partition(":")
        if not (language and module and function):
            raise UsageError(
                "--normalizer takes LANGUAGE=MODULE:FUNCTION, such as fr=my_texts:read_french, "
                f"not {text!r}"
            )
        if language in places:
            raise UsageError(f"--normalizer names {language!r} twice: leave one out")
        places[language] = place
    return places


def add_sampling_options(parser: Parser) -> None:
    """Add the sampling options."""
    group = parser.add_argument_group("sampling")
    for each in fields_on("command"):
        option = f"--{each.name.replace('_', '-')}"
        group.add_argument(option, type=each.kind, metavar=each.metavar, help=each.help)


def sampling_parameters(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters for :func:`add_sampling_options`, with a random seed by default."""
    named = {each.parameter: getattr(args, each.name) for each in fields_on("command")}
    given = {name: value for name, value in named.items() if value is not None}
    return {"manual_seed": secrets.randbelow(2**32)} | given


def add_refine_levels(parser: Parser) -> argparse._ArgumentGroup:
    """Add the levels of the refine pass; return their group for further options."""
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
    """Return the given levels as the model's control tags."""
    levels = {name: getattr(args, f"{name}_level") for name, _, _ in _LEVELS}
    return "".join(f"[{name}_{level}]" for name, level in levels.items() if level is not None)


def checked_parameters(kind: str, values: Mapping[str, Any]) -> Any:
    """Return ``RefineTextParams`` or ``InferCodeParams``, checked before a model is loaded.

    Raises:
        UsageError: a value is not valid.
    """
    from .. import params

    try:
        checked = getattr(params, kind)(**values)
        checked.check()
    except ConfigError as error:
        raise UsageError(str(error)) from error
    return checked
