"""Tests of speech that fits its time."""
