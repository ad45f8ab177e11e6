"""Tests of the front end of phonemes."""
