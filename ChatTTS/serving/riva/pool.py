"""Where the messages of this server are defined: a pool of its own.

Protobuf's default pool takes a name only once in a process. Riva's own client defines the same
names there, and a program may want both.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper

POOL = descriptor_pool.DescriptorPool()


def define(serialized: bytes) -> dict[str, Any]:
    """Add a file to the pool; the files that it imports must be there.

    Args:
        serialized: a ``FileDescriptorProto``.

    Returns:
        By name, the classes of its messages, its enums, and their values.
    """
    file = POOL.AddSerializedFile(serialized)
    names: dict[str, Any] = {"DESCRIPTOR": file}
    for name, message in file.message_types_by_name.items():
        names[name] = message_factory.GetMessageClass(message)
    for name, enum in file.enum_types_by_name.items():
        names[name] = enum_type_wrapper.EnumTypeWrapper(enum)
        names |= {value.name: value.number for value in enum.values}
    return names
