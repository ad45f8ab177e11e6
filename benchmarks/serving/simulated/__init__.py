"""A GPU that computes nothing and takes its time, under the real server; see ``serve.py``."""
