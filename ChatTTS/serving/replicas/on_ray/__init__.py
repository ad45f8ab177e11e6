"""Replicas run by Ray Serve. Importing this package needs the extra ``scale``."""
