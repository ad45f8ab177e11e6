"""The files in ``deploy/`` name ports, paths and options that exist."""

from __future__ import annotations

import argparse
import configparser
import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from ChatTTS.cli.commands import _parse
from ChatTTS.cli.serve import _KEYS_VARIABLE
from ChatTTS.serving.protocols.rest.operations import PUBLIC
from ChatTTS.serving.replicas.options import LoadOptions
from ChatTTS.serving.settings import Settings

from ..support import proxy_tools
from ..support.places import ROOT
from ..support.tls_tools import make_certificate

DEPLOY = ROOT / "deploy"
PORTS = [Settings().port, Settings().grpc_port]


def lines() -> list[str]:
    """Return the instructions of the Dockerfile, each in one line."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\\\n\s*", "", text).split("\n")


def instructions(name: str) -> list[str]:
    """Return the arguments of each instruction of this name."""
    return [line.partition(" ")[2] for line in lines() if line.startswith(f"{name} ")]


def variables() -> dict[str, str]:
    """Return the environment of the image."""
    return dict(word.split("=", 1) for word in shlex.split(" ".join(instructions("ENV"))))


def entry(*words: str) -> argparse.Namespace:
    """Return the parsed command line of the image, with further words, in its environment."""
    program, *arguments = json.loads(instructions("ENTRYPOINT")[-1])
    assert program == "chattts"
    options = {name: text for name, text in variables().items() if name.startswith("CHATTTS_")}
    with mock.patch.dict(os.environ, options):
        return _parse([*arguments, *words])


def compose() -> dict[str, Any]:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    service: dict[str, Any] = services["chattts"]
    return service


def unit() -> configparser.ConfigParser:
    """Return the systemd unit, in which every key is unique."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(DEPLOY / "chattts.service", encoding="utf-8")
    return parser


# ---------------------------------------------------------------- Docker


def test_the_image_listens_where_it_says() -> None:
    args = entry()
    assert [args.port, args.grpc_port] == PORTS
    assert instructions("EXPOSE") == [" ".join(map(str, PORTS))]
    assert args.host == "0.0.0.0"


def test_the_image_asks_for_keys_or_the_option_open() -> None:
    assert entry().needs_keys is True
    assert entry("--open").needs_keys is False
    # Compose refuses to start without keys.
    assert compose()["environment"][_KEYS_VARIABLE].startswith(f"${{{_KEYS_VARIABLE}:?")


def test_a_failed_server_is_restarted() -> None:
    assert unit()["Service"]["Restart"] == "on-failure"
    assert compose()["restart"] == "unless-stopped"


def test_the_image_keeps_voices_scripts_and_caches_in_volumes_of_its_user() -> None:
    volumes = json.loads(instructions("VOLUME")[-1])
    kept = [str(entry().voices), str(entry().scripts_folder)]
    assert volumes == [*kept, variables()["XDG_CACHE_HOME"]]
    assert variables()["HF_HOME"].startswith(volumes[-1])
    user = instructions("USER")[-1]
    made = next(line for line in instructions("RUN") if "useradd" in line)
    assert f"--owner={user}" in made
    assert all(volume in made for volume in volumes)
    assert lines().index(f"USER {user}") < lines().index(f"VOLUME {json.dumps(volumes)}")


def test_every_copied_file_exists_and_passes_dockerignore() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = {line[1:] for line in ignored if line.startswith("!")}
    assert ignored[1] == "*"
    copied = {
        source
        for copy in instructions("COPY")
        if not copy.startswith("--from")
        for source in copy.split()[:-1]
    }
    sources = {source.removeprefix("./") for source in copied}
    assert sources == let_through
    assert all((ROOT / source).exists() for source in sources)


def test_the_image_installs_the_pinned_torch() -> None:
    install = next(line for line in instructions("RUN") if "TORCH_INDEX" in line)
    pattern = re.search(r"grep '(.*?)'", install)
    assert pattern is not None
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert len([pin for pin in pins if re.match(pattern[1], pin)]) == 1
    assert any(line.startswith("TORCH_INDEX=https://") for line in instructions("ARG"))


@pytest.mark.slow
@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_image_is_healthy_when_the_server_is_ready(status: int, code: int) -> None:
    asked = []

    class Ready(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    check = instructions("HEALTHCHECK")[-1].partition("CMD ")[2]
    _, *arguments = json.loads(check)
    with http.server.HTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        here = [word.replace(str(PORTS[0]), str(server.server_port)) for word in arguments]
        done = subprocess.run([sys.executable, *here], check=False)
        server.shutdown()
        thread.join()
    assert here != arguments
    assert done.returncode == code
    assert set(asked) == {"/ready"} <= PUBLIC


def test_compose_adds_options_and_variables_that_there_are() -> None:
    service = compose()
    assert callable(entry(*service["command"]).run)
    assert list(service["environment"]) == [_KEYS_VARIABLE]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}" for port in PORTS]


def test_compose_builds_this_image() -> None:
    build = compose()["build"]
    context = (DEPLOY / build["context"]).resolve()
    assert context == ROOT
    assert (context / build["dockerfile"]).is_file()
    assert set(build["args"]) <= {line.partition("=")[0] for line in instructions("ARG")}


def test_compose_gives_the_volumes_of_the_image_and_time_to_finish() -> None:
    service = compose()
    mounted = [volume.split(":")[1] for volume in service["volumes"]]
    assert mounted == json.loads(instructions("VOLUME")[-1])
    seconds = int(service["stop_grace_period"].removesuffix("s"))
    assert seconds > entry().shutdown_seconds + 5


# ---------------------------------------------------------------- systemd


def test_the_unit_runs_a_command_that_there_is() -> None:
    service = unit()["Service"]
    command, *arguments = shlex.split(service["ExecStart"].replace("%S", "/var/lib"))
    assert Path(command).name == "chattts"
    args = _parse(arguments)
    assert args.host == "127.0.0.1"
    assert [args.port, args.grpc_port] == PORTS
    assert args.voices == Path("/var/lib", service["StateDirectory"], "voices")
    assert args.scripts_folder == Path("/var/lib", service["StateDirectory"], "scripts")
    assert int(service["TimeoutStopSec"]) > args.shutdown_seconds + 5


def test_the_unit_writes_only_where_it_may() -> None:
    service = unit()["Service"]
    assert (service["DynamicUser"], service["ProtectSystem"]) == ("yes", "strict")
    variables = dict(word.split("=", 1) for word in service["Environment"].split())
    assert "XDG_CACHE_HOME" in variables
    assert all(value.startswith(f"%C/{service['CacheDirectory']}") for value in variables.values())


def test_the_unit_may_open_a_file_for_each_connection() -> None:
    most = Settings().limits.connections
    assert int(unit()["Service"]["LimitNOFILE"]) > 2 * most + 1024  # HTTP and gRPC


def test_the_unit_takes_keys_from_a_file() -> None:
    text = (DEPLOY / "chattts.service").read_text(encoding="utf-8")
    assert unit()["Service"]["EnvironmentFile"] == "-/etc/chattts/environment"
    assert f"# {_KEYS_VARIABLE}=" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "chattts.service").read_text(encoding="utf-8")
    copy = tmp_path / "chattts.service"
    copy.write_text(re.sub(r"(?<=ExecStart=)\S+", "/bin/true", text), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# ---------------------------------------------------------------- nginx


@pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx")
def test_nginx_understands_the_snippet(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    document = (ROOT / "docs" / "serving" / "deployment.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```nginx\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)
    ports = set(re.findall(r"127\.0\.0\.1:(\d+)", snippet))
    assert ports == {str(port) for port in PORTS}
    snippet = snippet.replace("/etc/nginx/cert.pem", str(certificate))
    snippet = snippet.replace("/etc/nginx/key.pem", str(key))
    # nginx binds its sockets even if it only tests the configuration.
    snippet = re.sub(r"listen (\d+)", rf"listen unix:{tmp_path}/\1", snippet)
    folders = "".join(
        f"{name}_temp_path {tmp_path / name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    conf = tmp_path / "nginx.conf"
    head = f"pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}}"
    conf.write_text(f"{head}\nhttp {{ access_log off;\n{folders}{snippet}}}\n")
    command = ["nginx", "-t", "-c", str(conf)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Later versions only warn of the older syntax of HTTP/2.
    assert "emerg" not in done.stderr


def test_the_manifest_has_the_application_of_the_serve_config() -> None:
    config = yaml.safe_load((DEPLOY / "ray" / "serve.yaml").read_text(encoding="utf-8"))
    manifest = yaml.safe_load((DEPLOY / "ray" / "rayservice.yaml").read_text(encoding="utf-8"))
    assert yaml.safe_load(manifest["spec"]["serveConfigV2"]) == config
    [application] = config["applications"]
    assert set(application["args"]) <= {field.name for field in fields(LoadOptions)}
    module, _, name = application["import_path"].partition(":")
    source = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
    assert f"def {name}(" in source
    [deployment] = application["deployments"]
    assert f'NAME = "{deployment["name"]}"' in source
    groups = manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    containers = [c for group in groups for c in group["template"]["spec"]["containers"]]
    [front] = [container for container in containers if container["name"] == "front"]
    program, *arguments = front["command"]
    assert program == "chattts"
    assert _parse(arguments).ray_address == "chattts-head-svc:6379"
    assert [port["containerPort"] for port in front["ports"]] == PORTS


# ---------------------------------------------------------------- several servers


@pytest.mark.parametrize("kind", proxy_tools.KINDS)
def test_a_proxy_knows_both_ports_of_each_server(kind: str) -> None:
    text = proxy_tools.configuration(kind)
    servers = re.findall(r"^ +server .*?(10\.0\.0\.\d+):(\d+)", text, re.MULTILINE)
    found = {(host, int(port)) for host, port in servers}
    assert found == {(host, port) for host in ("10.0.0.11", "10.0.0.12") for port in PORTS}


@pytest.mark.parametrize("kind", proxy_tools.KINDS)
def test_a_proxy_waits_longer_than_the_servers(kind: str) -> None:
    text = proxy_tools.configuration(kind)
    times = re.findall(r"(?:_(?:read|send)_timeout|timeout (?:client|server|tunnel)) +(\d+)s", text)
    limits = Settings().limits
    assert len(times) >= 3
    assert min(map(int, times)) > max(limits.idle_seconds, limits.wait_seconds)


@pytest.mark.parametrize("kind", proxy_tools.KINDS)
def test_a_proxy_takes_what_a_server_takes(kind: str) -> None:
    """Texts fit into the buffers from which HAProxy repeats them, and recordings into bodies."""
    limits, text = Settings().limits, proxy_tools.configuration(kind)
    pattern = r"client_max_body_size (\d+)m;" if kind == "nginx" else r"tune\.bufsize (\d+)"
    size = int(re.findall(pattern, text)[0])
    if kind == "nginx":
        assert size << 20 > limits.upload_bytes * 4 / 3 + limits.message_bytes
    else:
        assert size > len(json.dumps("语" * limits.characters))


@pytest.mark.parametrize("kind", proxy_tools.KINDS)
def test_a_proxy_understands_its_file(kind: str, tmp_path: Path) -> None:
    if shutil.which(kind) is None:
        pytest.skip(f"{kind} is not installed")
    servers = [("http://127.0.0.1:1", "127.0.0.1:2"), ("http://127.0.0.1:3", "127.0.0.1:4")]
    file = proxy_tools.write_files(kind, tmp_path, servers, proxy_tools.free_ports(2))
    option = {"nginx": "-t", "haproxy": "-c"}[kind]
    command = [kind, option, "-c" if kind == "nginx" else "-f", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not re.search("emerg|warn|ALERT|WARNING", done.stderr), done.stderr
