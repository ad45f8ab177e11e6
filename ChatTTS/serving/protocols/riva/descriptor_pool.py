"""The descriptor pool with the messages of this server.

Protobuf's default pool accepts each name only once in a process. Riva's own client defines its
names there, and a program may import both.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper

POOL = descriptor_pool.DescriptorPool()


def define(serialized: bytes) -> dict[str, Any]:
    """Add a file to the pool, after the files that it imports.

    Args:
        serialized: a ``FileDescriptorProto``.

    Returns:
        The classes of its messages, its enums and their values, by name.
    """
    file = POOL.AddSerializedFile(serialized)
    names: dict[str, Any] = {"DESCRIPTOR": file}
    for name, message in file.message_types_by_name.items():
        names[name] = message_factory.GetMessageClass(message)
    for name, enum in file.enum_types_by_name.items():
        names[name] = enum_type_wrapper.EnumTypeWrapper(enum)
        names |= {value.name: value.number for value in enum.values}
    return names
