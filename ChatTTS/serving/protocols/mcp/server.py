"""The server of the official library, with its tools.

Clients wait some seconds for the first answer. So this module imports nothing of the engine: what
the tools do is imported with it, once the model is wanted.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import AudioContent, TextContent
from pydantic import ValidationError

from ....config.request_fields import RequestFields, fields_on
from ....errors import ChatTTSError
from ....version import __version__

if TYPE_CHECKING:
    from ...speech.service import SpeechService
    from .folder import ToolFolder

_ABOUT = (
    "Speaks texts. `voice` is a name of list_voices, or a blend such as clara:0.7,edith:0.3. The "
    "same seed and text give the same speech. Files are named relative to the folder of this "
    "server."
)
_TOLD_EVERY = 1.0  # seconds, while a call waits for the model
_LOADING = "the model is being loaded"

Tool = Callable[..., Awaitable[Any]]
Ready = Callable[[], Awaitable["SpeechService"]]
"""Returns the service, once its model is loaded."""
FindFolder = Callable[[], "ToolFolder | None"]
"""Returns the folder of documents and files; called once the model is loaded."""


def make_server(
    ready: Ready,
    folder: ToolFolder | FindFolder | None,
    *,
    may_play: bool,
    told_every: float = _TOLD_EVERY,
) -> MCPServer[Any]:
    """Return a server with the tools speak, save, read_document and list_voices.

    Args:
        ready: waits for the service, so that a client can list the tools before.
        folder: of documents and files, or how to find it; ``None`` makes the tools that need it
            fail.
        may_play: whether speech may be played on this machine.
        told_every: seconds between two messages of progress to a call that waits for the model.
    """
    server = _Server(
        "chattts", title="ChatTTS", version=__version__, instructions=_ABOUT, log_level="WARNING"
    )

    async def loaded(context: Context) -> SpeechService:
        return await _loaded(ready, context, told_every)

    def current_folder() -> ToolFolder | None:
        return folder() if callable(folder) else folder

    @server.tool(name="speak", structured_output=False)
    @_takes_fields
    async def speak_text(
        context: Context,
        text: str,
        *,
        wish: RequestFields,
        play: bool = False,
    ) -> list[AudioContent | TextContent]:
        """Speak a text: return it as mp3 or, with `play`, play it on the user's machine."""
        service = await loaded(context)
        from . import calls

        config = calls.config_of(wish)
        if play:
            return [TextContent(text=await calls.play(service, text, config, may_play=may_play))]
        return await calls.spoken_content(service, text, config)

    @server.tool(structured_output=False)
    @_takes_fields
    async def save(
        context: Context,
        text: str,
        file: str,
        *,
        wish: RequestFields,
        overwrite: bool = False,
    ) -> str:
        """Speak a text into a file, such as hello.mp3 (mp3, wav, flac, opus or aac)."""
        service = await loaded(context)
        from . import calls

        config = calls.config_of(wish)
        return await calls.save_text(
            service, current_folder(), text, file, config, overwrite=overwrite
        )

    @server.tool(structured_output=False)
    @_takes_fields
    async def read_document(
        context: Context,
        document: str,
        file: str,
        *,
        wish: RequestFields,
        overwrite: bool = False,
    ) -> str:
        """Read a document of the folder (txt, md, epub, srt, vtt, ssml) aloud into a file."""
        service = await loaded(context)
        from . import calls

        config = calls.config_of(wish)
        return await calls.save_document(
            service, current_folder(), document, file, config, overwrite=overwrite
        )

    @server.tool(structured_output=False)
    async def list_voices(context: Context) -> str:
        """List the names of the voices, a line for each; the first is the default."""
        service = await loaded(context)
        from . import calls

        return await calls.voice_names(service)

    return server


class _Server(MCPServer[Any]):
    """Tells what is wrong with an argument in the words of the other interfaces."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool; raise ToolError for arguments that it does not take."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            from ...http.bodies import bad_field

            raise ToolError(f"{name}: {bad_field(error.__cause__)}") from error.__cause__


def _takes_fields(tool: Tool) -> Tool:
    """Return the tool with the fields of requests as arguments, in place of its ``wish``."""
    own = inspect.signature(tool, eval_str=True).parameters
    fields = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=each.default,
            annotation=each.kind if each.default is not None else each.kind | None,
        )
        for each in fields_on("mcp")
    ]

    @functools.wraps(tool)
    async def called(**arguments: Any) -> Any:
        wish = RequestFields(**{each.name: arguments.pop(each.name) for each in fields})
        return await tool(**arguments, wish=wish)

    kept = [each for each in own.values() if each.name != "wish"]
    called.__signature__ = inspect.Signature(kept + fields)  # type: ignore[attr-defined]
    return called


async def _loaded(ready: Ready, context: Context, told_every: float) -> SpeechService:
    """Return the service, and report progress until it is there.

    Raises:
        ToolError: the model cannot be loaded.
    """
    waiting = asyncio.ensure_future(ready())
    seconds = 0.0
    try:
        while not (await asyncio.wait({waiting}, timeout=told_every))[0]:
            seconds += told_every
            await context.report_progress(seconds, message=_LOADING)
        return waiting.result()
    except ChatTTSError as error:
        raise ToolError(f"the model cannot be loaded: {error}") from error
    finally:
        waiting.cancel()
