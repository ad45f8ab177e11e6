"""Regression tests of speech: compare a sound with a reference that is kept beside the test."""
