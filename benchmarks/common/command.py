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
    return {"command": shlex.join(["python", *sys.argv]), "machine": machine()}


def write_json(report: Mapping[str, Any], file: Path | None) -> None:
    """Write the report to ``file``, if there is one."""
    if file is not None:
        file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
