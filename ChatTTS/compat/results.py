"""Names that scripts import from here; their home is :mod:`ChatTTS.pipeline.results`."""

from ..pipeline.results import EmptySpeechError, Piece, Waveforms, Word

__all__ = ["EmptySpeechError", "Piece", "Waveforms", "Word"]
