"""The Model Context Protocol: tools by which programs with language models speak."""

from .server import guarded_app, make_server

__all__ = ["guarded_app", "make_server"]
