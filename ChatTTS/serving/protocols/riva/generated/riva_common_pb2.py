"""Made of riva/proto/riva_common.proto by ``python riva/generate_messages.py``: do not edit."""

from ..descriptor_pool import define

globals().update(
    define(
        b'\n\x1criva/proto/riva_common'
        b'.proto\x12\x0bnvidia.riva"!\n\tR'
        b'equestId\x12\x14\n\x05value\x18\x01 \x01(\tR'
        b'\x05valueb\x06proto3'
    )
)
