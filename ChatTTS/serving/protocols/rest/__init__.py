"""REST: the routes of OpenAI's speech API, and some simpler ones."""

from .app import create_app

__all__ = ["create_app"]
