"""Speech to bytes of a format, while it comes: tempo, sample rate, codec."""

from .encoder import Encoder, encoder
from .formats import Format

__all__ = ["Encoder", "Format", "encoder"]
