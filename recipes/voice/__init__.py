"""The recipe that makes a voice that reads phonemes."""
