"""Regenerate the modules of ``generated/``: ``python riva/generate_messages.py`` beside it.

It needs the package ``grpcio-tools``, which the server does not.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

_HERE = Path(__file__).parent
_FOLDER = _HERE / "generated"
_WIDTH = 24  # bytes in a line
_MODULE = '''\
"""Made of {source} by ``python riva/generate_messages.py``: do not edit."""

from ..descriptor_pool import define
{imports}
globals().update(
    define(
{data}
    )
)
'''
_STUB = "# Made of {source} by python riva/generate_messages.py: do not edit.\n\n"


def modules() -> dict[str, str]:
    """Return the contents of ``generated/`` by file name: modules, and stubs with their types.

    Raises:
        RuntimeError: a .proto file has errors; the compiler has printed them to stderr.
    """
    from grpc_tools import protoc

    protos = sorted(f"riva/proto/{path.name}" for path in (_HERE / "proto").glob("*.proto"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments = [f"-I{_HERE.parent}", f"--descriptor_set_out={folder / 'set'}"]
        if protoc.main(["protoc", *arguments, f"--pyi_out={folder}", *protos]):
            raise RuntimeError(f"protoc could not read {', '.join(protos)}")
        files = FileDescriptorSet.FromString((folder / "set").read_bytes()).file
        made = {}
        for file in files:
            stem = _stem(file.name)
            made[f"{stem}.py"] = _module(file)
            stub = (folder / "riva/proto" / f"{stem}.pyi").read_text(encoding="utf-8")
            made[f"{stem}.pyi"] = _STUB.format(source=file.name) + stub.replace(
                "from riva.proto import", "from . import"
            )
        return made


def main() -> None:
    """Write the generated files."""
    for name, text in modules().items():
        (_FOLDER / name).write_text(text, encoding="utf-8")


def _stem(proto: str) -> str:
    return Path(proto).stem + "_pb2"


def _module(file: FileDescriptorProto) -> str:
    # An imported file must be in the pool before this one.
    imports = [f"from . import {_stem(name)}  # noqa: F401" for name in file.dependency]
    serialized = file.SerializeToString(deterministic=True)
    lines = [serialized[i : i + _WIDTH] for i in range(0, len(serialized), _WIDTH)]
    return _MODULE.format(
        source=file.name,
        imports="".join(f"{line}\n" for line in imports),
        data="\n".join(f"        {line!r}" for line in lines),
    )


if __name__ == "__main__":
    main()
