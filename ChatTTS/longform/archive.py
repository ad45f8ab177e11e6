"""Read members of a zip archive of unknown origin, within bounds on their real sizes."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

from .script import ScriptError

# A long illustrated book has a thousand files and 100 MB. Of them only the text and the cover are
# read, a few MB; a tree of XML takes ten times as much memory as its text.
_MOST_MEMBERS = 20_000
_MOST_BYTES = 16 << 20
_MOST_IN_ALL = 64 << 20
_BLOCK = 1 << 16
# Python unpacks bzip2 and LZMA without a bound: gigabytes from a kilobyte.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Archive:
    """A zip archive; members are read into memory and never written.

    Args:
        source: the archive's file, or an open one.
        name: of the archive, for messages.
        most: bytes that the members which are read may have together; 512 MB by default.

    Raises:
        ScriptError: the file is no zip archive, is damaged, or has too many members.
    """

    def __init__(self, source: Path | BinaryIO, name: str, most: int | None = None) -> None:
        self.name = name
        self._left = _MOST_IN_ALL if most is None else most
        try:
            self._zip = zipfile.ZipFile(source)
        except OSError as error:
            raise ScriptError(f"{name} cannot be read: {error.strerror or error}") from error
        except (
            zipfile.BadZipFile,
            ValueError,
            NotImplementedError,
            OverflowError,
            struct.error,
        ) as error:
            raise ScriptError(f"{name}: the EPUB is damaged ({error})") from error
        if len(self._zip.namelist()) > _MOST_MEMBERS:
            self._zip.close()
            raise ScriptError(f"{name}: it has more than {_MOST_MEMBERS} files")

    def __contains__(self, member: str) -> bool:
        return member in self._zip.NameToInfo

    def read(self, member: str) -> bytes:
        """Return the bytes of a member.

        Raises:
            ScriptError: it is missing, damaged or encrypted, or unpacks to more than the bounds.
        """
        self._check_method(member)
        parts: list[bytes] = []
        size = 0
        most = min(_MOST_BYTES, self._left)
        try:
            with self._zip.open(member) as file:
                # The sizes in the archive may be false, so the bytes are counted.
                while block := file.read(_BLOCK):
                    size += len(block)
                    if size > most:
                        raise ScriptError(
                            f"{self.name}/{member}: it unpacks to more than {most >> 20} MB, "
                            "which is too much (a zip bomb?)"
                        )
                    parts.append(block)
        except ScriptError:
            raise
        except KeyError as error:
            raise ScriptError(f"{self.name}: the EPUB has no file {member}") from error
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            RuntimeError,  # an encrypted member
            NotImplementedError,
            ValueError,  # a place before the beginning of the file
            OverflowError,
            struct.error,
        ) as error:
            raise ScriptError(f"{self.name}/{member}: the EPUB is damaged ({error})") from error
        self._left -= size
        return b"".join(parts)

    def _check_method(self, member: str) -> None:
        """Raise ScriptError for a method that unpacks a block of any size before it is counted."""
        info = self._zip.NameToInfo.get(member)
        if info is not None and info.compress_type not in _METHODS:
            raise ScriptError(
                f"{self.name}/{member}: its compression is not supported: an EPUB may only have "
                "deflated and stored files"
            )

    def close(self) -> None:
        self._zip.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
