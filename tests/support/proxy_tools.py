"""nginx or HAProxy, with the configuration in ``deploy/``, in front of servers for tests."""

from __future__ import annotations

import contextlib
import getpass
import grp
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import riva.client

from .places import ROOT
from .process_tools import Process
from .serving_tools import PATIENCE, RunningServer, eventually
from .tls_tools import make_certificate

KINDS = ("nginx", "haproxy")
# The addresses of the two servers in the files of deploy/.
_HOSTS = ("10.0.0.11", "10.0.0.12")


class Proxy:
    """A proxy in front of two servers, on free ports, as a process of this user.

    Args:
        kind: ``nginx`` or ``haproxy``; the test is skipped where it is not installed.
        folder: an empty folder for its files.
        servers: URL of REST and address of gRPC of each server.

    Attributes:
        certificate: the file of its self-signed certificate.
        url: URL of REST and WebSocket.
        grpc_address: host and port of gRPC.
    """

    def __init__(self, kind: str, folder: Path, servers: Sequence[tuple[str, str]]) -> None:
        if shutil.which(kind) is None:
            pytest.skip(f"{kind} is not installed (Debian has it: apt-get install {kind})")
        self._folder = folder
        ports = free_ports(2)
        self._file = write_files(kind, folder, servers, ports)
        self.certificate = folder / "certificate.pem"
        self.url, self.grpc_address = f"https://localhost:{ports[0]}", f"localhost:{ports[1]}"
        if kind == "nginx":
            command = ["nginx", "-g", "daemon off;", "-c", str(self._file)]
        else:
            command = ["haproxy", "-db", "-f", str(self._file)]
        self._log = (folder / "output").open("w")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

        def settled() -> bool:
            return self._process.poll() is not None or all(map(is_open, ports))

        assert eventually(settled), self.words()
        assert self._process.poll() is None, self.words()

    def words(self) -> str:
        """Return what it wrote."""
        return (self._folder / "output").read_text(encoding="utf-8", errors="replace")

    def take_out(self, server: tuple[str, str]) -> None:
        """Have nginx send nothing more to a server, as its operator does: `down`, and a reload."""
        text = self._file.read_text(encoding="utf-8")
        for address in (server[0].partition("://")[2], server[1]):
            text = text.replace(f"server {address} ", f"server {address} down ")
        self._file.write_text(text, encoding="utf-8")
        before = self._workers()
        self._process.send_signal(signal.SIGHUP)
        assert eventually(lambda: bool(self._workers() - before), PATIENCE), self.words()

    def close(self) -> None:
        """End it at once."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _workers(self) -> set[str]:
        """Return the ids of nginx's worker processes."""
        own = self._process.pid
        return set(Path(f"/proc/{own}/task/{own}/children").read_text().split())


class ProxiedServer(RunningServer):
    """A proxy that is used like a server.

    What the library itself says comes from a reference server, which nothing is sent to.
    """

    def __init__(self, proxy: Proxy, reference: RunningServer) -> None:
        super().__init__(
            proxy.url,
            reference.service,
            reference.scripts,
            reference.settings,
            reference.loop,
        )
        self.proxy = proxy

    @contextlib.contextmanager
    def riva_client(self) -> Iterator[riva.client.SpeechSynthesisService]:
        """Yield Riva's client within this context."""
        with riva_service(self.proxy) as client:
            yield client


@contextlib.contextmanager
def riva_service(
    proxy: Proxy, *options: tuple[str, str]
) -> Iterator[riva.client.SpeechSynthesisService]:
    """Yield Riva's client of a proxy, which trusts its certificate, within this context.

    Args:
        options: of gRPC's channel.
    """
    auth = riva.client.Auth(
        ssl_root_cert=proxy.certificate, uri=proxy.grpc_address, options=list(options)
    )
    try:
        yield riva.client.SpeechSynthesisService(auth)
    finally:
        auth.channel.close()


@contextlib.contextmanager
def two_servers(folder: Path, *options: str) -> Iterator[list[Process]]:
    """Run two servers within this context, with one folder of voices."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(Process(folder, *options))) for _ in range(2)]


def places(servers: Sequence[Process]) -> list[tuple[str, str]]:
    """Return the URL of REST and the address of gRPC of each server."""
    return [(server.url, server.grpc_address) for server in servers]


def free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [int(one.getsockname()[1]) for one in sockets]


def is_open(port: int) -> bool:
    """Return whether a program of this machine listens on the port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), PATIENCE):
        return True
    return False


# ------------------------------------------------------------------ the files of deploy/


def configuration(kind: str) -> str:
    """Return the text of the proxy's configuration in ``deploy/``."""
    name = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[kind]
    return (ROOT / "deploy" / name).read_text(encoding="utf-8")


def write_files(
    kind: str, folder: Path, servers: Sequence[tuple[str, str]], ports: Sequence[int]
) -> Path:
    """Write a proxy's configuration, and a certificate; return the file of the configuration."""
    certificate, key = make_certificate(folder)
    text = with_addresses(configuration(kind), servers, ports)
    complete = nginx_files if kind == "nginx" else haproxy_files
    file = folder / f"{kind}.conf"
    file.write_text(complete(text, folder, certificate, key), encoding="utf-8")
    return file


def with_addresses(text: str, servers: Sequence[tuple[str, str]], ports: Sequence[int]) -> str:
    """Return a configuration with other addresses of servers, and other ports to listen on."""
    for host, (url, grpc_address) in zip(_HOSTS, servers, strict=True):
        text = text.replace(f"{host}:8000", url.partition("://")[2])
        text = text.replace(f"{host}:50051", grpc_address)
    for old, new in zip(("443", "50052"), ports, strict=True):
        text, found = re.subn(rf"(listen |bind :){old}\b", rf"\g<1>{new}", text)
        assert found == 1
    return text


def nginx_files(text: str, folder: Path, certificate: Path, key: Path) -> str:
    """Return a whole configuration of nginx that writes into ``folder`` only."""
    text = text.replace("/etc/nginx/cert.pem", str(certificate))
    text = text.replace("/etc/nginx/key.pem", str(key))
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{name}_temp_path {folder / name};\n" for name in names)
    # Workers of root would become another user, to whom the folder is closed.
    user = f"user {getpass.getuser()} {group()};\n" if os.geteuid() == 0 else ""
    return (
        f"{user}pid {folder / 'pid'};\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{text}}}\n"
    )


def haproxy_files(text: str, folder: Path, certificate: Path, key: Path) -> str:
    """Return a configuration of HAProxy that reads its certificate from ``folder``."""
    pem = folder / "speech.pem"
    pem.write_text(certificate.read_text() + key.read_text(), encoding="utf-8")
    text = text.replace("/etc/haproxy/speech.pem", str(pem))
    text = text.replace("    user haproxy\n", f"    user {getpass.getuser()}\n")
    return text.replace("    group haproxy\n", f"    group {group()}\n")


def group() -> str:
    """Return the name of this process's group."""
    return grp.getgrgid(os.getegid()).gr_name
