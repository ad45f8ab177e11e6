"""Encode speech as a stream in an audio format: tempo, sample rate, codec."""

from .encoder import Encoder
from .formats import Format

__all__ = ["Encoder", "Format"]
