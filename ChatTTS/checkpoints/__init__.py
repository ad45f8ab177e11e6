"""Checkpoints: found, downloaded and verified."""
