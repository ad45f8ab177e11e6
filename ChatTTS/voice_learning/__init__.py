"""Recordings to learn from: read, checked and encoded; the language model with gradients."""
