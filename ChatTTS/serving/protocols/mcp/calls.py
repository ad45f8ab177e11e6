"""The work of the tools, once the model is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import AudioContent, TextContent

from ....config.request_fields import RequestFields
from ....errors import ChatTTSError
from ...encoding import Format
from ...encoding.base64_blocks import to_base64
from ...errors import BadRequestError, as_serving_error
from ...observe.request_logs import log_refusal
from ...speech.config import RunConfig
from ...speech.service import SpeechService
from .folder import ToolFolder
from .spoken import CLIENT, encoded, speak

_NO_FOLDER = "this server saves no files: its user must start it with --folder"


def config_of(given: RequestFields) -> RunConfig:
    """Return the settings of a tool's speech by the fields that its caller gave."""
    return RunConfig.of(given, voice=given.voice or None)


async def spoken_content(
    service: SpeechService, text: str, config: RunConfig
) -> list[AudioContent | TextContent]:
    """Return a text as mp3, and what the voice cannot speak of it; raises ToolError."""
    with _told(service):
        data, spoken = await encoded(service, [text], replace(config, response_format="mp3"))
        answer = AudioContent(data=to_base64(data), mime_type=Format.MP3.media_type)
        if not spoken.left_out:
            return [answer]
        return [answer, TextContent(text=spoken.with_left_out(f"{spoken.seconds:.1f} s of speech"))]


async def play(service: SpeechService, text: str, config: RunConfig, *, may_play: bool) -> str:
    """Play a text on this machine and return how long it was; raises ToolError."""
    with _told(service):
        if not may_play:
            raise BadRequestError("this server plays no audio, since it may run on another machine")
        if config.speed != 1:
            message = "the server plays speech at normal speed only: leave speed out"
            raise BadRequestError(message, param="speed")
        from ....audio.playback import Player

        with Player() as player:
            played = await speak(service, [text], config, player.write)
        return played.with_left_out(f"played {played.seconds:.1f} s")


async def save_text(
    service: SpeechService,
    folder: ToolFolder | None,
    text: str,
    name: str,
    config: RunConfig,
    *,
    overwrite: bool,
) -> str:
    """Speak a text into a file of the folder and return its place; raises ToolError."""
    with _told(service):
        return await _save(service, folder, [text], name, config, overwrite=overwrite)


async def save_document(
    service: SpeechService,
    folder: ToolFolder | None,
    document: str,
    name: str,
    config: RunConfig,
    *,
    overwrite: bool,
) -> str:
    """Speak a document of the folder into a file of it; raises ToolError."""
    with _told(service):
        texts = await service.in_reader_thread(lambda: _needed(folder).paragraphs(document))
        return await _save(
            service, folder, texts, name, config, overwrite=overwrite, reads_ssml=False
        )


async def voice_names(service: SpeechService) -> str:
    """Return the names of the voices, a line for each; raises ToolError."""
    with _told(service):
        infos = await service.in_thread(service.voices.without_aliases)
        return "\n".join(info.id for info in infos)


async def _save(
    service: SpeechService,
    folder: ToolFolder | None,
    texts: list[str],
    name: str,
    config: RunConfig,
    *,
    overwrite: bool,
    reads_ssml: bool = True,
) -> str:
    folder = _needed(folder)
    config = replace(config, response_format=folder.format_of(name).value)
    path = folder.new_file(name, overwrite=overwrite)
    data, spoken = await encoded(service, texts, config, reads_ssml=reads_ssml)
    await service.in_thread(lambda: folder.write(path, data))
    return spoken.with_left_out(f"{spoken.seconds:.1f} s of speech are in {path}")


def _needed(folder: ToolFolder | None) -> ToolFolder:
    if folder is None:
        raise BadRequestError(_NO_FOLDER, param="file")
    return folder


@contextmanager
def _told(service: SpeechService) -> Iterator[None]:
    """Turn this package's errors into those that the library tells the client."""
    try:
        yield
    except ChatTTSError as error:
        answer = as_serving_error(error)
        service.metrics.count_refusal(answer)
        log_refusal(answer, CLIENT, client=CLIENT)
        raise ToolError(str(answer)) from error
