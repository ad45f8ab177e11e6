"""The messages, made of the files in ``proto/``; see ``ChatTTS/serving/riva/generate_messages.py``."""
