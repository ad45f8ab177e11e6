"""The options of ``chattts serve``."""

from __future__ import annotations

from pathlib import Path

from ..config.request_fields import GUARDS
from ..serving.protocol_names import PROTOCOLS
from .marks import add_mark_options
from .model_process import add_model_process_option
from .options import Parser, add_engine_options, add_lexicon_option
from .replicas import add_replica_options

WYOMING_PORT = 10200  # that of Piper
GRPC_PORT = 50051
# Options that are limits: name of the field of Limits, metavar, help.
SCRIPT_LIMITS = (
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
SCRIPT_SIZES = (
    ("--script-upload", "script_bytes", "largest file of a script"),
    (
        "--script-disk",
        "script_disk_bytes",
        "room on the disk for all scripts; an hour takes 350 MB while it is spoken, 30 MB as mp3",
    ),
)
LIMITS = (
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


def add_options(parser: Parser) -> None:
    """Add all options of the server."""
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
        help=f"port of gRPC (default {GRPC_PORT}, where the extra grpc is installed)",
    )
    address.add_argument("--no-grpc", action="store_true", help="do not serve gRPC")
    address.add_argument(
        "--protocols",
        metavar="LIST",
        help="protocols of other vendors that are served, separated by commas: "
        f"{', '.join(PROTOCOLS)}, or none (default: all)",
    )
    address.add_argument(
        "--wyoming-port",
        type=int,
        nargs="?",
        const=WYOMING_PORT,
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
        choices=GUARDS,
        default="none",
        help="look for skipped and repeated words in requests that do not choose: `report` tells "
        "them, `retry` also speaks a faulty sentence again, unless the sound is sent while it is "
        "generated, and then reports (default %(default)s)",
    )
    add_mark_options(parser.add_argument_group("marks"))
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
    add_model_process_option(parser)
    add_replica_options(parser)
    parser.set_defaults(dtype="float32")


def _add_limits(parser: Parser) -> None:
    limits = parser.add_argument_group("limits")
    for name, metavar, what in LIMITS:
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
        "--idle-unload",
        type=float,
        metavar="S",
        help="seconds without a request after which the memory of the model goes back to the "
        "system; the next request loads it again (default: it stays)",
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
    for name, metavar, what in SCRIPT_LIMITS:
        kind = float if name.endswith("seconds") else int
        scripts.add_argument(
            f"--max-{name.replace('_', '-')}", dest=name, type=kind, metavar=metavar, help=what
        )
    for option, field, what in SCRIPT_SIZES:
        scripts.add_argument(option, dest=field, type=float, metavar="MB", help=what)
