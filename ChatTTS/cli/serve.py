"""``chattts serve``: serve REST, WebSocket and gRPC, and a web page to try them."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ChatTTSError, EngineDeadError, EngineUnavailableError
from ..utils.garbage import leave_out_objects, unwatched
from .console import Console, UsageError
from .model import choose_model, load_chat
from .options import (
    Commands,
    Parser,
    add_command,
    add_engine_options,
    add_lexicon_option,
    read_lexicon,
)
from .replicas import add_replica_options, default_running, replicated, wants_replicas

if TYPE_CHECKING:
    from ..core import Chat
    from ..serving.model import SpeechModel
    from ..serving.settings import Settings

_KEYS_VARIABLE = "CHATTTS_API_KEYS"
# Exit statuses. The first is EX_SOFTWARE of sysexits.h.
_ENGINE_FAILED, _FAILED, _INTERRUPTED = 70, 1, 130
_DETAILS = f"""\
Serve speech to programs and browsers. Only this machine can connect, unless --host is given.

  chattts serve                             then open http://127.0.0.1:8000
  curl 'http://127.0.0.1:8000/tts?text=Hello' -o hello.wav
  chattts serve --host 0.0.0.0 --api-keys keys.txt
  chattts serve --model huggingface --dtype auto

The server offers OpenAI's speech API (/v1/audio/speech), a WebSocket for live text
(/v1/audio/speech/stream) and NVIDIA Riva's gRPC service. The environment variable
{_KEYS_VARIABLE} may also hold API keys, separated by commas. The default --dtype is float32: then
the sound of a seed does not depend on other requests. --dtype auto is faster.

Exit status: 0 after Ctrl-C or SIGTERM, 70 if the engine failed (restart the server), 1 if the
server could not start, 2 for a wrong command line, 130 after a second Ctrl-C.
"""
_GRPC_PORT = 50051
_GRPC_PACKAGES = ("grpc", "grpc_health", "grpc_reflection")
_WYOMING_PORT = 10200  # that of Piper
_log = logging.getLogger("ChatTTS.serving")
# Options that are limits: name of the field of Limits, metavar, help.
_SCRIPT_LIMITS = (
    ("scripts", "N", "most scripts that are kept, waiting or done"),
    ("scripts_per_client", "N", "most scripts of one client that are kept"),
    ("scripts_running", "N", "most scripts that are spoken at the same time"),
    (
        "script_lines",
        "N",
        "most lines of all scripts that are spoken at the same time; at most half of --max-running",
    ),
    ("script_characters", "N", "most characters of a script"),
    ("script_seconds", "S", "longest speech of a script, in seconds, as it is estimated before"),
    ("script_age_seconds", "S", "age in seconds after which a script that is done is deleted"),
)
# Options of scripts in MB: option, field of Limits, help.
_SCRIPT_SIZES = (
    ("--script-upload", "script_bytes", "largest file of a script"),
    (
        "--script-disk",
        "script_disk_bytes",
        "room on the disk for all scripts; an hour takes 350 MB while it is spoken, 30 MB as mp3",
    ),
)
_LIMITS = (
    ("running", "N", "most requests that run at the same time"),
    ("waiting", "N", "most requests that wait; further ones are refused at once"),
    ("wait_seconds", "S", "longest time that a request waits, in seconds"),
    ("characters", "N", "most characters of a text"),
    ("connections", "N", "most open connections of HTTP and WebSocket, and as many of gRPC"),
    (
        "connections_per_address",
        "N",
        "most open connections of one address; does not apply to --trust-proxy addresses",
    ),
)


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "serve", run, "serve speech over the network", _DETAILS)
    address = parser.add_argument_group("address")
    address.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0 for all networks (default %(default)s)",
    )
    address.add_argument(
        "--port",
        type=int,
        default=8000,
        help="port of HTTP and WebSocket; 0 for any free one (default %(default)s)",
    )
    address.add_argument(
        "--grpc-port",
        type=int,
        metavar="PORT",
        help=f"port of gRPC (default {_GRPC_PORT}, where the extra grpc is installed)",
    )
    address.add_argument("--no-grpc", action="store_true", help="do not serve gRPC")
    address.add_argument(
        "--protocols",
        metavar="LIST",
        help="protocols of other vendors that are served, separated by commas: elevenlabs, "
        "deepgram, cartesia, or none (default: all)",
    )
    address.add_argument(
        "--wyoming-port",
        type=int,
        nargs="?",
        const=_WYOMING_PORT,
        metavar="PORT",
        help="also serve the Wyoming protocol, for Home Assistant, which has no keys (port "
        "%(const)s if none is given)",
    )
    address.add_argument(
        "--wyoming-without-keys",
        action="store_true",
        help="serve Wyoming although the other interfaces need API keys",
    )
    address.add_argument(
        "--no-announce",
        action="store_true",
        help="do not announce Wyoming on the local network, by which Home Assistant finds it",
    )
    address.add_argument(
        "--tls-cert", type=Path, metavar="FILE", help="TLS certificate, a PEM file"
    )
    address.add_argument(
        "--tls-key", type=Path, metavar="FILE", help="the certificate's private key, a PEM file"
    )
    address.add_argument(
        "--cors",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="allow requests from web pages of this origin, such as https://example.org, or *; may "
        "be repeated",
    )
    address.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="host name by which a proxy reaches the server, such as speech.example.org; may be "
        "repeated",
    )
    address.add_argument(
        "--trust-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="trust the header X-Forwarded-For of the proxy at this address, such as 127.0.0.1; "
        "may be repeated",
    )
    keys = parser.add_argument_group("keys")
    keys.add_argument(
        "--api-keys", type=Path, metavar="FILE", help="file of API keys, one per line"
    )
    keys.add_argument(
        "--require-keys",
        dest="needs_keys",
        action="store_const",
        const=True,
        help="refuse to start without API keys",
    )
    keys.add_argument(
        "--open",
        dest="needs_keys",
        action="store_const",
        const=False,
        help="serve without API keys: do not warn about it, and ignore --require-keys",
    )
    voices = parser.add_argument_group("voices")
    voices.add_argument("--voice", metavar="NAME", help="voice of requests that name none")
    voices.add_argument(
        "--voices",
        type=Path,
        metavar="FOLDER",
        help="folder of saved and uploaded voices; that of `chattts voice` by default",
    )
    voices.add_argument(
        "--alias",
        action="append",
        default=[],
        metavar="NAME=VOICE",
        help="another name of a voice, such as alloy=anna or English-US.Female-1=edith; may be "
        "repeated",
    )
    voices.add_argument(
        "--unknown-voice",
        choices=("refuse", "default"),
        default="refuse",
        help="requests that name no voice of this server get an error, or the default voice, which "
        "the header x-voice tells (default %(default)s)",
    )
    voices.add_argument(
        "--allow-shadowing",
        action="store_true",
        help="let uploaded voices take names of the server, such as alloy; with API keys they "
        "always may",
    )
    speech = parser.add_argument_group("speech")
    add_lexicon_option(speech, "how words are said in all requests, which may add their own")
    speech.add_argument(
        "--guard",
        choices=("retry", "report", "none"),
        default="none",
        help="look for skipped and repeated words in requests that do not choose: `report` tells "
        "them, `retry` also speaks a faulty sentence again, unless the sound is sent while it is "
        "generated, and then reports (default %(default)s)",
    )
    _add_limits(parser)
    _add_script_options(parser)
    logs = parser.add_argument_group("logs")
    logs.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="format of the log (default %(default)s)",
    )
    logs.add_argument(
        "--log-texts", action="store_true", help="also log the beginning of each text"
    )
    add_engine_options(parser)
    add_replica_options(parser)
    parser.set_defaults(dtype="float32")


def _add_limits(parser: Parser) -> None:
    limits = parser.add_argument_group("limits")
    for name, metavar, what in _LIMITS:
        kind = float if name.endswith("seconds") else int
        limits.add_argument(
            f"--max-{name.replace('_', '-')}", dest=name, type=kind, metavar=metavar, help=what
        )
    limits.add_argument(
        "--result-cache",
        type=int,
        default=0,
        metavar="MB",
        help="size of the cache of results for identical requests with a seed (default: no cache)",
    )
    limits.add_argument(
        "--drain-delay",
        type=float,
        default=0.0,
        metavar="S",
        help="at shutdown, seconds in which /ready fails but requests are still accepted, so that "
        "load balancers notice (default %(default)g)",
    )
    limits.add_argument(
        "--shutdown-seconds",
        type=float,
        default=20.0,
        metavar="S",
        help="at shutdown, seconds that running requests may still take (default %(default)g)",
    )


def _add_script_options(parser: Parser) -> None:
    scripts = parser.add_argument_group("scripts")
    scripts.add_argument(
        "--scripts",
        dest="scripts_folder",
        type=Path,
        metavar="FOLDER",
        help="folder for the scripts of clients and their speech, for this server alone; in the "
        "user's data folder by default",
    )
    for name, metavar, what in _SCRIPT_LIMITS:
        kind = float if name.endswith("seconds") else int
        scripts.add_argument(
            f"--max-{name.replace('_', '-')}", dest=name, type=kind, metavar=metavar, help=what
        )
    for option, field, what in _SCRIPT_SIZES:
        scripts.add_argument(option, dest=field, type=float, metavar="MB", help=what)


def run(args: argparse.Namespace, console: Console) -> int:
    """Serve until Ctrl-C; return the exit status."""
    if args.engine != "velocity":
        raise UsageError("the server needs --engine velocity: the other runs one call at a time")
    if args.log_format == "json":
        # gRPC's core writes lines that are not JSON. Its failures are logged by this package, too.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from ..serving import server as _  # noqa: F401
    except ImportError as error:
        raise EngineUnavailableError(
            f"the server's packages are not here ({error}): pip install 'chattts-velocity[serve]'"
        ) from error
    with _logging(args.log_format, console) as note:
        if args.log_format != "json":
            return _run(args, console, note)
        try:
            return _run(args, replace(console, quiet=True), note)
        except KeyboardInterrupt:
            _log.warning("interrupted")
            return _INTERRUPTED
        except Exception as error:  # logged in JSON, too
            is_ours = isinstance(error, ChatTTSError)
            _log.error("%s", error, exc_info=None if is_ours else error)
            return 2 if isinstance(error, UsageError) else _FAILED


def _run(args: argparse.Namespace, console: Console, note: Callable[[str], None]) -> int:
    import asyncio

    from ..serving.listener import raised_file_limit
    from ..serving.loop_lag import quick_turns
    from ..serving.server import Server, serve
    from ..serving.startup import reserve

    settings = _settings(args)
    choice = choose_model(args.model)

    def announce(server: Server) -> None:
        leave_out_objects()  # the routes, and what the first speech has loaded
        note(f"ready: {server.url} (the page, REST, WebSocket)")
        if server.grpc_port is not None:
            note(f"       {settings.host}:{server.grpc_port} (gRPC). Ctrl-C ends it")
        elif not args.no_grpc:
            note("       no gRPC: pip install 'chattts-velocity[grpc]'. Ctrl-C ends it")
        if server.wyoming_port is not None:
            note(f"       {settings.host}:{server.wyoming_port} (Wyoming)")

    with ExitStack() as stack:
        stack.enter_context(raised_file_limit())
        bound = stack.enter_context(reserve(settings))
        if console.quiet:
            note(f"loading the model: {choice.label}")
        model: Chat | SpeechModel
        if wants_replicas(args):
            running = settings.limits.running
            model = stack.enter_context(replicated(args, running, choice, console))
        else:
            model = load_chat(choice, _with_memory(args, settings), console)
        stack.enter_context(unwatched())
        stack.enter_context(quick_turns())
        try:
            asyncio.run(serve(model, settings, announce, bound))
        except asyncio.CancelledError:  # a second signal
            raise KeyboardInterrupt from None
        except EngineDeadError as error:
            _log.error("%s", error)
            return _ENGINE_FAILED
    return 0


def _with_memory(args: argparse.Namespace, settings: Settings) -> argparse.Namespace:
    """Return ``args`` with a KV cache for all running requests, unless ``--memory`` sets one."""
    memory = args.memory or f"{settings.limits.running} sequences"
    return argparse.Namespace(**vars(args) | {"memory": memory})


def _settings(args: argparse.Namespace) -> Settings:
    from ..serving.auth import read_keys
    from ..serving.settings import MEBI, Limits, Settings

    named = {name: getattr(args, name) for name, _, _ in (*_LIMITS, *_SCRIPT_LIMITS)}
    for _, field, _ in _SCRIPT_SIZES:
        given = getattr(args, field)
        named[field] = None if given is None else int(given * MEBI)
    if named["running"] is None:
        named["running"] = default_running(args)
    limits: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    in_environment = os.environ.get(_KEYS_VARIABLE, "").split(",")
    keys = tuple(key.strip() for key in in_environment if key.strip())
    if args.api_keys is not None:
        keys += read_keys(args.api_keys)
    return Settings(
        host=args.host,
        port=args.port,
        grpc_port=_grpc_port(args),
        wyoming_port=args.wyoming_port,
        wyoming_without_keys=args.wyoming_without_keys,
        announces=not args.no_announce,
        default_voice=args.voice,
        voices=args.voices,
        aliases=_aliases(args.alias),
        unknown_voice=args.unknown_voice,
        may_shadow=True if args.allow_shadowing else None,
        scripts=args.scripts_folder,
        api_keys=keys,
        needs_keys=args.needs_keys,
        tls_certificate=args.tls_cert,
        tls_key=args.tls_key,
        cors_origins=tuple(args.cors),
        names=tuple(args.name),
        trusted_proxies=tuple(args.trust_proxy),
        result_cache_bytes=args.result_cache * MEBI,
        drain_seconds=args.drain_delay,
        shutdown_seconds=args.shutdown_seconds,
        log_texts=args.log_texts,
        guard=None if args.guard == "none" else args.guard,
        lexicon=read_lexicon(args.lexicon),
        protocols=_protocols(args.protocols),
        limits=Limits(**limits),
    )


def _grpc_port(args: argparse.Namespace) -> int | None:
    """Return the port that was asked for; without a word of it, gRPC is served where it can be."""
    if args.no_grpc:
        return None
    if args.grpc_port is None and not _has_grpc():
        return None
    return _GRPC_PORT if args.grpc_port is None else int(args.grpc_port)


def _has_grpc() -> bool:
    return all(find_spec(name) is not None for name in _GRPC_PACKAGES)


def _protocols(names: str | None) -> tuple[str, ...]:
    from ..serving.settings import PROTOCOLS

    if names is None:
        return PROTOCOLS
    given = tuple(name.strip().lower() for name in names.split(",") if name.strip())
    return () if given == ("none",) else given


def _aliases(given: list[str]) -> dict[str, str]:
    """Return the names of ``--alias`` and the voices that they stand for."""
    aliases = {}
    for alias in given:
        name, equals, voice = (part.strip() for part in alias.partition("="))
        if not (name and equals and voice):
            raise UsageError(f"--alias takes NAME=VOICE, such as alloy=anna, not {alias!r}")
        aliases[name] = voice
    return aliases


@contextmanager
def _logging(form: str, console: Console) -> Iterator[Callable[[str], None]]:
    """Log to standard error inside the context, with one line for each request.

    Yields:
        A function that writes an informational message.
    """
    from ..serving.logging_setup import log_to_stderr

    level = _log.level
    with log_to_stderr(form, console.level):
        if not console.quiet:
            _log.setLevel(min(logging.INFO, console.level))
        try:
            yield console.note if form == "text" else lambda words: _log.info("%s", words.strip())
        finally:
            _log.setLevel(level)
