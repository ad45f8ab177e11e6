"""From frames to samples: when to decode, and the worker thread that does."""
