"""Learn a speaker vector from recordings: read, check, encode, search, report.

``ChatTTS.voices.learn`` is the way in. Fine-tuning reads and encodes recordings with the same
modules.
"""
