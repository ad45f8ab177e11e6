"""The one folder that tools read and write: names of clients lead nowhere else."""

from __future__ import annotations

from pathlib import Path

from ....audio.files import write_file
from ....errors import AudioError, ChatTTSError, shown
from ...encoding import Format
from ...errors import BadRequestError
from ...live.messages import is_text

_FORMATS = ("mp3", "wav", "flac", "opus", "aac")
# A document is encoded in memory; a longer one is work for `chattts read`.
_MOST_CHARACTERS = 200_000
_MOST_BYTES = 200  # of a name, which becomes longer while its file is written


class ToolFolder:
    """A folder.

    Args:
        path: it exists, or is made with the first file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def format_of(self, name: str) -> Format:
        """Return the format of a sound file by its ending.

        Raises:
            BadRequestError: it is none of those that are written here.
        """
        ending = Path(name).suffix.lower().lstrip(".")
        if ending not in _FORMATS:
            known = ", ".join(f".{format}" for format in _FORMATS)
            raise BadRequestError(f"{shown(name)} must end with one of {known}", param="file")
        return Format.parse(ending)

    def new_file(self, name: str, *, overwrite: bool) -> Path:
        """Return the path of a file to write.

        Raises:
            BadRequestError: the name leads out of the folder, or the file exists already.
        """
        path = self._below(name)
        if path.exists() and not (overwrite and path.is_file()):
            raise BadRequestError(
                f"{shown(name)} already exists: choose another name", param="file"
            )
        return path

    def write(self, path: Path, data: bytes) -> None:
        """Write a file of :meth:`new_file`.

        Raises:
            BadRequestError: the system refuses it.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, data)
        except (OSError, AudioError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            # The message itself names folders of this machine.
            reason = getattr(cause, "strerror", None) or "the system refuses it"
            raise BadRequestError(f"the file cannot be written: {reason}", param="file") from error

    def paragraphs(self, name: str) -> list[str]:
        """Return what is spoken of a document: a text, Markdown, EPUB, subtitles or SSML.

        Raises:
            BadRequestError: there is no such document in the folder, or it cannot be read.
        """
        from ....longform.files import read_script

        path = self._below(name)
        if not path.is_file():
            raise BadRequestError(
                f"there is no document {shown(name)} in the folder of this server", param="document"
            )
        try:
            texts = [line.text for line in read_script(path).lines if line.text.strip()]
        except (ChatTTSError, ImportError) as error:
            raise BadRequestError(str(error).replace(str(path), name), param="document") from error
        count = sum(map(len, texts))
        if count > _MOST_CHARACTERS:
            raise BadRequestError(
                f"the document has {count} characters; the limit of this tool is "
                f"{_MOST_CHARACTERS}: use the command `chattts read`",
                param="document",
            )
        return texts

    def _below(self, name: str) -> Path:
        """Return a path in the folder; links in it that lead out are followed, and refused."""
        given = Path(name)
        is_plain = is_text(name) and name.strip() and "\0" not in name and not given.is_absolute()
        # Longer ones are no file of any system, and looking for them fails.
        is_plain = is_plain and all(len(part.encode()) <= _MOST_BYTES for part in given.parts)
        path = (self.path / given).resolve() if is_plain else self.path
        if path == self.path or not path.is_relative_to(self.path):
            raise BadRequestError(
                f"{shown(name)} is not a valid name for a file in the folder of this server, "
                "such as a.mp3",
                param="file",
            )
        return path
