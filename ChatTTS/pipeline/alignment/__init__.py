"""Alignment of frames and words, and the times and faults that follow from it."""
