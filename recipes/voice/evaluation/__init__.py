"""Measurements of the voice: against its teacher, a recogniser, and faults made on purpose."""
