"""Texts to samples: the call, frames, waveforms, streams, results, and when to decode."""
