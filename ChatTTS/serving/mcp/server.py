"""The server of the official library, with its tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import AudioContent, TextContent
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from ...errors import ChatTTSError
from ...version import __version__
from ..auth import Authenticator
from ..base64_blocks import to_base64
from ..encoding import Format
from ..errors import BadRequestError, ServingError, as_serving_error
from ..http_layers import AuthMiddleware, BodyMiddleware, ErrorMiddleware
from ..metrics import ServerMetrics
from ..origins import OriginPolicy
from ..request_logs import log_refusal
from ..service import SpeechService
from ..settings import Settings
from .folder import ToolFolder
from .spoken import CLIENT, Spoken, Wish, encoded, speak

_ABOUT = (
    "Speaks texts. `voice` is a name of list_voices, or a blend such as clara:0.7,edith:0.3. The "
    "same seed and text give the same speech. Files are named relative to the folder of this "
    "server."
)
_MOST_PARTS = 10_000  # values of a message, besides the commas of its text
_NO_FOLDER = "this server keeps no files: its user has to start it with --folder"

Ready = Callable[[], Awaitable[SpeechService]]
"""Returns the service, once its model is loaded."""


def make_server(ready: Ready, folder: ToolFolder | None, *, may_play: bool) -> MCPServer[Any]:
    """Return a server with the tools speak, save, read_document and list_voices.

    Args:
        ready: waits for the service, so that a client can list the tools before.
        folder: of documents and files; ``None`` makes the tools that need it fail.
        may_play: whether speech may be played on this machine.
    """
    server: MCPServer[Any] = MCPServer(
        "chattts", title="ChatTTS", version=__version__, instructions=_ABOUT, log_level="WARNING"
    )

    @server.tool(name="speak", structured_output=False)
    async def speak_text(
        text: str,
        voice: str | None = None,
        seed: int | None = None,
        speed: float = 1.0,
        play: bool = False,
    ) -> list[AudioContent | TextContent]:
        """Speak a text: return it as mp3 or, with `play`, play it on the user's machine."""
        service, wish = await ready(), Wish(voice, seed, speed)
        with _told(service):
            if play:
                played = await _play(service, text, wish, may_play)
                return [TextContent(text=played.told(f"played {played.seconds:.1f} s"))]
            data, spoken = await encoded(service, [text], wish, Format.MP3)
            audio = to_base64(data)
            answer = AudioContent(data=audio, mime_type=Format.MP3.media_type)
            if not spoken.left_out:
                return [answer]
            return [answer, TextContent(text=spoken.told(f"{spoken.seconds:.1f} s of speech"))]

    @server.tool(structured_output=False)
    async def save(
        text: str,
        file: str,
        voice: str | None = None,
        seed: int | None = None,
        speed: float = 1.0,
        overwrite: bool = False,
    ) -> str:
        """Speak a text into a file, such as hello.mp3 (mp3, wav, flac, opus or aac)."""
        service = await ready()
        with _told(service):
            return await _save(service, [text], file, Wish(voice, seed, speed), overwrite)

    @server.tool(structured_output=False)
    async def read_document(
        document: str,
        file: str,
        voice: str | None = None,
        seed: int | None = None,
        speed: float = 1.0,
        overwrite: bool = False,
    ) -> str:
        """Read a document of the folder (txt, md, epub, srt, vtt, ssml) aloud into a file."""
        service = await ready()
        with _told(service):
            texts = await service.in_reader_thread(lambda: _needed(folder).paragraphs(document))
            wish = Wish(voice, seed, speed)
            return await _save(service, texts, file, wish, overwrite, reads_ssml=False)

    @server.tool(structured_output=False)
    async def list_voices() -> str:
        """List the names of the voices, a line for each; the first is the default."""
        service = await ready()
        with _told(service):
            infos = await service.in_thread(service.voices.without_aliases)
            return "\n".join(info.id for info in infos)

    async def _save(
        service: SpeechService,
        texts: list[str],
        name: str,
        wish: Wish,
        overwrite: bool,
        *,
        reads_ssml: bool = True,
    ) -> str:
        place = _needed(folder)
        format = place.format_of(name)
        path = place.new_file(name, overwrite=overwrite)
        data, spoken = await encoded(service, texts, wish, format, reads_ssml=reads_ssml)
        await service.in_thread(lambda: place.write(path, data))
        return spoken.told(f"{spoken.seconds:.1f} s of speech are in {path}")

    return server


def guarded_app(app: ASGIApp, settings: Settings) -> ASGIApp:
    """Return an ASGI app that has the keys, the origins and the limits of the server's own routes.

    Args:
        app: the library's.
        settings: keys, allowed origins and limits.
    """
    limits = settings.limits
    app = BodyMiddleware(
        app,
        most=lambda path: limits.message_bytes,
        parts=lambda path: _MOST_PARTS + limits.characters,
        seconds=limits.body_seconds,
        patience=limits.stalled_seconds,
    )
    authenticator, origins = Authenticator(settings.api_keys), OriginPolicy(settings)
    app = AuthMiddleware(app, authenticator, lambda path: False, origins)
    return ErrorMiddleware(
        app,
        ServerMetrics(),
        interface=CLIENT,
        error_response=_error_response,
        with_text=settings.log_texts,
    )


def _error_response(error: ServingError) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
    return JSONResponse({"error": error.as_json()}, error.status, headers)


def _needed(folder: ToolFolder | None) -> ToolFolder:
    if folder is None:
        raise BadRequestError(_NO_FOLDER, param="file")
    return folder


async def _play(service: SpeechService, text: str, wish: Wish, may_play: bool) -> Spoken:
    if not may_play:
        raise BadRequestError("this server plays nothing: it may run on another machine")
    if wish.speed != 1:
        raise BadRequestError("speech is played at its own tempo: leave speed out", param="speed")
    from ...audio.playback import Player

    with Player() as player:
        return await speak(service, [text], wish, player.write)


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
