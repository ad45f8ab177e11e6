"""Texts to samples: the call, frames, rows, streams, results, and when to decode."""
