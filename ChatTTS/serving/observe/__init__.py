"""Figures for operators: metrics, logs, and the lateness of the event loop."""
