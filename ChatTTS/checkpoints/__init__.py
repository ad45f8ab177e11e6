"""Checkpoints: found, downloaded, verified, opened and loaded."""
