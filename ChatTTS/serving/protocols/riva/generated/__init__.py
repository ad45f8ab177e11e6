"""The messages, made of the files in ``proto/``; see ``ChatTTS/serving/protocols/riva/generate_messages.py``."""
