"""Scripts as jobs of the server: long works that are spoken behind all other requests."""

from .jobs import ScriptJobs

__all__ = ["ScriptJobs"]
