"""Made of riva/proto/riva_audio.proto by ``python riva/generate_messages.py``: do not edit."""

from ..descriptor_pool import define

globals().update(
    define(
        b'\n\x1briva/proto/riva_audio.'
        b'proto\x12\x0bnvidia.riva*e\n\rAu'
        b'dioEncoding\x12\x18\n\x14ENCODING_'
        b'UNSPECIFIED\x10\x00\x12\x0e\n\nLINEAR_'
        b'PCM\x10\x01\x12\x08\n\x04FLAC\x10\x02\x12\t\n\x05MULAW'
        b'\x10\x03\x12\x0b\n\x07OGGOPUS\x10\x04\x12\x08\n\x04ALAW\x10'
        b'\x14b\x06proto3'
    )
)
