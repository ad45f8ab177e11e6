"""``chattts compare``: measure the difference of two sound files."""

from __future__ import annotations

import argparse

from .console import Console
from .options import Commands, add_command

_DETAILS = """\
Compare two sound files with the same sample rate: lengths, largest difference, signal-to-noise
ratio and log-spectral distance.

  chattts compare a.wav b.wav
  chattts compare a.wav b.wav --plot difference.png
  chattts compare a.wav b.wav --tolerance 1e-4    fails if they differ by more, or in length
"""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "compare", run, "compare two sound files", _DETAILS)
    parser.add_argument("a", metavar="A", help="the reference")
    parser.add_argument("b", metavar="B", help="the file that is compared with it")
    parser.add_argument("--plot", metavar="FILE", help="draw both and their difference")
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="fail if two samples differ by more than this (full scale is 1), or if the lengths "
        "differ; by default, differences are only reported",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the differences; return the exit status."""
    from ..audio import compare

    comparison = compare(args.a, args.b, plot=args.plot)
    print(comparison)
    if args.plot is not None:
        console.note(f"drawn in {args.plot}")
    if args.tolerance is None:
        return 0
    lengths_agree = comparison.samples_a == comparison.samples_b
    return 0 if lengths_agree and comparison.max_difference <= args.tolerance else 1
