"""The Model Context Protocol: tools by which programs with language models speak."""

from .server import keyed_app, make_server

__all__ = ["keyed_app", "make_server"]
