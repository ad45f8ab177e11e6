"""``chattts serve``: serve REST, WebSocket and gRPC, and a web page to try them."""

from __future__ import annotations

import argparse
import logging
import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..errors import ChatTTSError, ConfigError, EngineDeadError, EngineUnavailableError, shown
from ..utils.garbage import leave_out_objects, share_free_memory, unwatched
from .configuration import make_configurable
from .console import Console, UsageError, counted
from .marks import credentials_of, mark_of
from .model import ModelChoice, check_engine_options, choose_model, load_chat, new_chat
from .model_process import check_model_process, has_model_process, model_process
from .options import Commands, add_command, read_lexicon
from .replicas import default_running, replicated, wants_replicas
from .serve_options import GRPC_PORT, LIMITS, SCRIPT_LIMITS, SCRIPT_SIZES, add_options

if TYPE_CHECKING:
    from ..core import Chat
    from ..serving.settings import Settings
    from ..serving.speech.speech_model import SpeechModel

_KEYS_VARIABLE = "CHATTTS_API_KEYS"
_PREFIX = "CHATTTS_SERVE_"
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

Options may also be environment variables ({_PREFIX}MAX_RUNNING=8) or lines of a TOML file,
which --config names (max_running = 8). Options go before variables, and these before the file.

Exit status: 0 after Ctrl-C or SIGTERM, 70 if the engine failed (restart the server), 1 if the
server could not start, 2 for a wrong command line, variable or file, 130 after a second Ctrl-C.
"""
_LAST_PORT = 65535
_GRPC_PACKAGES = ("grpc", "grpc_health", "grpc_reflection")
_log = logging.getLogger("ChatTTS.serving")


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "serve", run, "serve speech over the network", _DETAILS)
    add_options(parser)
    parser.configuration = make_configurable(parser, _PREFIX)


def run(args: argparse.Namespace, console: Console) -> int:
    """Serve until Ctrl-C; return the exit status."""
    if args.print_config:
        _print_settings(args, _checked(args))
        return 0
    share_free_memory()
    if args.log_format == "json":
        # gRPC's core writes lines that are not JSON. Its failures are logged by this package, too.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from ..serving import server as _  # noqa: F401
    except ImportError as error:
        raise EngineUnavailableError(
            f"the server's packages are not installed ({error}): pip install "
            "'chattts-velocity[serve]'"
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

    from ..serving.http.listener import raised_file_limit
    from ..serving.observe.loop_lag import quick_turns
    from ..serving.server import Server, serve
    from ..serving.startup import reserve

    settings = _checked(args)
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
            if args.idle_unload is not None:
                raise UsageError("--idle-unload is for a server without replicas: leave one out")
            running = settings.limits.running
            model = stack.enter_context(replicated(args, running, choice, console))
        elif has_model_process(args):
            running = settings.limits.running
            model = stack.enter_context(model_process(args, running, choice, console))
        else:
            model = _local_model(choice, _with_memory(args, settings), console)
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


def _local_model(
    choice: ModelChoice, args: argparse.Namespace, console: Console
) -> Chat | SpeechModel:
    """Return the model in this process, which is unloaded while it is idle if that is wanted."""
    chat = load_chat(choice, args, console)
    if args.idle_unload is None:
        return chat
    from ..serving.speech.idle_model import IdleModel
    from ..serving.speech.local_model import LocalModel

    def load() -> LocalModel:
        return LocalModel(new_chat(choice, args))

    return IdleModel(LocalModel(chat), load, args.idle_unload)


def _with_memory(args: argparse.Namespace, settings: Settings) -> argparse.Namespace:
    """Return ``args`` with a KV cache for all running requests, unless ``--memory`` sets one."""
    memory = args.memory or f"{settings.limits.running} sequences"
    return argparse.Namespace(**vars(args) | {"memory": memory})


def _checked(args: argparse.Namespace) -> Settings:
    """Return the server's settings; errors name the lines and variables that cause them."""
    try:
        return _settings(args)
    except (ConfigError, UsageError) as error:
        raise args.configuration.explained(error, args, _settings) from error.__cause__


def _print_settings(args: argparse.Namespace, settings: Settings) -> None:
    from ..serving.settings import MEBI

    in_force: dict[str, Any] = {"grpc_port": settings.grpc_port}
    for name, _, _ in (*LIMITS, *SCRIPT_LIMITS):
        in_force[name] = getattr(settings.limits, name)
    for _, field, _ in SCRIPT_SIZES:
        in_force[field] = getattr(settings.limits, field) / MEBI
    about = "Settings of `chattts serve`, for its option --config."
    if keys := _keys_in_environment():
        about += f"\n{_KEYS_VARIABLE} has {counted(len(keys), 'API key')}, which are not shown."
    print(args.configuration.text(args, in_force, about), end="")


def _keys_in_environment() -> tuple[str, ...]:
    keys = os.environ.get(_KEYS_VARIABLE, "").split(",")
    return tuple(key.strip() for key in keys if key.strip())


def _look_for_keys(path: str) -> None:
    """Raise UsageError where no file can be; its name may be a key, and is not shown."""
    try:
        os.stat(path)
    except PermissionError as error:
        raise UsageError(
            "this user may not access the file of API keys: change the permissions of its folders"
        ) from error
    except OSError as error:
        raise UsageError(
            "the file of API keys does not exist: give a file with one key per line"
        ) from error


def _settings(args: argparse.Namespace) -> Settings:
    from ..serving.http.auth import read_keys
    from ..serving.settings import MEBI, Limits, Settings

    if args.engine != "velocity":
        raise UsageError(
            "the server needs --engine velocity: the other engine runs one call at a time"
        )
    for name in ("port", "grpc_port", "wyoming_port"):
        port = getattr(args, name)
        if port is not None and not 0 <= port <= _LAST_PORT:
            raise ConfigError(f"{name} must be from 0 to {_LAST_PORT}, not {shown(port)}")
    named = {name: getattr(args, name) for name, _, _ in (*LIMITS, *SCRIPT_LIMITS)}
    for option, field, _ in SCRIPT_SIZES:
        given = getattr(args, field)
        if given is not None and not math.isfinite(given):
            raise ConfigError(f"{option[2:]} must be a number of MB, not {given}")
        named[field] = None if given is None else int(given * MEBI)
    if args.idle_unload is not None and not args.idle_unload > 0:
        raise ConfigError(f"idle-unload must be seconds, above 0, not {args.idle_unload}")
    check_engine_options(args)
    check_model_process(args)
    running = default_running(args)  # also checks the options for replicas
    if named["running"] is None:
        named["running"] = running
    limits: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    keys = _keys_in_environment()
    if args.api_keys is not None:
        if args.origins["api_keys"].kind != "option":
            _look_for_keys(args.api_keys)
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
        mark=mark_of(args),
        credentials=credentials_of(args),
        protocols=_protocols(args.protocols),
        limits=Limits(**limits),
    )


def _grpc_port(args: argparse.Namespace) -> int | None:
    """Return the port that was asked for; without a word of it, gRPC is served where it can be."""
    if args.no_grpc:
        return None
    if args.grpc_port is None and not _has_grpc():
        return None
    return GRPC_PORT if args.grpc_port is None else int(args.grpc_port)


def _has_grpc() -> bool:
    return all(find_spec(name) is not None for name in _GRPC_PACKAGES)


def _protocols(names: str | None) -> tuple[str, ...]:
    from ..serving.protocol_names import PROTOCOLS

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
    from ..serving.observe.logging_setup import log_to_stderr

    level = _log.level
    with log_to_stderr(form, console.level):
        if not console.quiet:
            _log.setLevel(min(logging.INFO, console.level))
        try:
            yield console.note if form == "text" else lambda words: _log.info("%s", words.strip())
        finally:
            _log.setLevel(level)
