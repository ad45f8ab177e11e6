"""``chattts mcp``: tools for programs with language models, by the Model Context Protocol."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EngineUnavailableError
from ..utils.garbage import share_free_memory
from .console import Console, UsageError
from .marks import add_mark_options, mark_of
from .model import choose_model, load_chat
from .options import Commands, add_command, add_engine_options

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from ..serving.protocols.mcp import Loading
    from ..serving.protocols.mcp.folder import ToolFolder
    from ..serving.settings import Settings
    from ..serving.speech.service import SpeechService

_PORT = 8765
# They are looked for and not imported, which would take longer than clients wait.
_PACKAGES = ("mcp", "mcp_types", "fastapi", "uvicorn", "av", "prometheus_client")
_DETAILS = f"""\
Offer speech to programs with language models, by the Model Context Protocol: the tools speak, save,
read_document and list_voices. A program starts it by itself, and talks over its standard input:

  {{"mcpServers": {{"chattts": {{"command": "chattts", "args": ["mcp", "--folder", "speech"]}}}}}}

  chattts mcp --folder speech              files and documents of tools are in this folder
  chattts mcp --http                       serve http://127.0.0.1:{_PORT}/mcp instead
  chattts mcp --http --host 0.0.0.0 --api-keys keys.txt

It needs the extras `serve` and `mcp`: pip install 'chattts-velocity[serve,mcp]'.
"""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "mcp", run, "offer speech as tools (MCP)", _DETAILS)
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="FOLDER",
        help="the only folder where tools read documents and write files; without it they cannot",
    )
    parser.add_argument(
        "--http",
        type=int,
        nargs="?",
        const=_PORT,
        metavar="PORT",
        help="serve HTTP in place of standard input and output (port %(const)s if none is given)",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address of --http (default %(default)s)"
    )
    parser.add_argument(
        "--api-keys", type=Path, metavar="FILE", help="file of API keys for --http, one per line"
    )
    parser.add_argument("--voice", metavar="NAME", help="voice of calls that name none")
    add_mark_options(parser, signs=False)
    add_engine_options(parser)
    parser.set_defaults(dtype="float32")


def run(args: argparse.Namespace, console: Console) -> int:
    """Serve until the client leaves, or until Ctrl-C; return the exit status."""
    if args.engine != "velocity":
        raise UsageError(
            "the server needs --engine velocity: the other engine runs one call at a time"
        )
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise EngineUnavailableError(
            f"the packages for MCP are not installed ({', '.join(missing)}): pip install "
            "'chattts-velocity[serve,mcp]'"
        )
    from ..serving.settings import Settings

    if args.http is None and args.api_keys is not None:
        raise UsageError("--api-keys is for --http: over standard input no key is sent")
    keys = _keys(args)
    settings = Settings(
        host=args.host,
        port=args.http or 0,
        grpc_port=None,
        default_voice=args.voice,
        api_keys=keys,
        mark=mark_of(args),
    )
    choice = choose_model(args.model)
    share_free_memory()
    asyncio.run(_serve(args, settings, lambda: load_chat(choice, args, console)))
    return 0


def _keys(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the keys of clients over HTTP.

    Raises:
        UsageError: other machines could speak without one.
    """
    if args.http is None:  # its modules take long to import
        return ()
    from ..serving.http.auth import read_keys
    from ..serving.http.connections import is_loopback

    keys = () if args.api_keys is None else read_keys(args.api_keys)
    if not keys and not is_loopback(args.host):
        raise UsageError(
            f"every machine that can reach {args.host} could use this server: give --api-keys"
        )
    return keys


async def _serve(args: argparse.Namespace, settings: Settings, load: Callable[[], Any]) -> None:
    from ..serving.protocols.mcp import Loading, make_server

    async def loaded() -> SpeechService:
        def modules_and_model() -> tuple[Callable[..., SpeechService], Any]:
            from ..serving.server import make_service

            return make_service, load()

        make, chat = await asyncio.to_thread(modules_and_model)
        service = make(chat, settings)
        await service.warm_up()
        return service

    loading = Loading(loaded)

    def folder() -> ToolFolder | None:
        from ..serving.protocols.mcp.folder import ToolFolder

        return None if args.folder is None else ToolFolder(args.folder)

    server = make_server(loading.service, folder, may_play=args.http is None)
    try:
        if args.http is None:
            server.middleware.append(loading.after_answer)
            await server.run_stdio_async()
        else:
            await _serve_http(server, settings, loading)
    finally:
        await loading.close()


async def _serve_http(server: MCPServer[Any], settings: Settings, loading: Loading) -> None:
    """Serve HTTP until a signal comes."""
    from ..serving.http.connections import Connections
    from ..serving.http.listener import bind, connection_limits
    from ..serving.http.uvicorn_server import serve_http
    from ..serving.protocols.mcp import guarded_app
    from ..serving.stop_signals import stop_event

    # Before the model is loaded, since the port may be taken.
    bound = bind(settings.host, settings.port, "--http")
    loading.begin()
    stop, app = stop_event(), server.streamable_http_app(host=settings.host)
    connections = Connections(settings, most=connection_limits(settings)[0])
    async with (
        app.router.lifespan_context(app),
        serve_http(guarded_app(app, settings), settings, bound, connections),
    ):
        await stop.wait()
