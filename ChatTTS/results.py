"""Names that scripts import from here; their home is :mod:`ChatTTS.pipeline.results`."""

from .pipeline.results import EmptySpeechError, Piece, Waveforms

__all__ = ["EmptySpeechError", "Piece", "Waveforms"]
