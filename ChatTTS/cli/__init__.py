"""The command ``chattts``; ``commands.py`` registers its subcommands."""

from .commands import main

__all__ = ["main"]
