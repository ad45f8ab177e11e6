"""The common parts of the commands: parser, checks of options, and the written report."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .report import machine


def new_parser(name: str, doc: str) -> argparse.ArgumentParser:
    """Return the parser of ``python -m benchmarks.NAME``; ``doc`` is the module's docstring."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=doc.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )


def check_at_least_one(
    parser: argparse.ArgumentParser, args: argparse.Namespace, *names: str
) -> None:
    """End the program with a message if a number, or a list of numbers, holds less than 1."""
    for name in names:
        value = getattr(args, name)
        if (min(value) if isinstance(value, list) else value) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")


def check_positions(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End the program with a message if prompt and frames exceed the model's positions."""
    if args.prompt + args.frames > args.positions:
        parser.error(
            f"--prompt and --frames together exceed the model's {args.positions} positions"
        )


def origin() -> dict[str, Any]:
    """Return the part of a report that says which command made it, and on which machine."""
    return {"command": command_line(), "machine": machine()}


def command_line() -> str:
    """Return how this program was called, for its report.

    Of absolute paths only the last two parts are told: the folders above mean nothing elsewhere.
    """
    main = sys.modules["__main__"].__spec__
    called = ["-m", main.name.removesuffix(".__main__")] if main else sys.argv[:1]
    told = (
        str(Path(*Path(argument).parts[-2:])) if Path(argument).is_absolute() else argument
        for argument in sys.argv[1:]
    )
    return shlex.join(["python", *called, *told])


def write_json(report: Mapping[str, Any], file: Path | None) -> None:
    """Write the report to ``file``, if there is one."""
    if file is not None:
        file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
