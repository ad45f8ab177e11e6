"""Recordings to learn a voice from: read, checked and encoded; the language model with gradients."""
