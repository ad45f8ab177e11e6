"""The addresses on which Ray's processes listen, and the folder that they share."""

from __future__ import annotations

import inspect
import stat
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="replicas need Ray: pip install 'chattts-velocity[serve,scale]'")

import ray
from ray.serve._private import replica

from ChatTTS.serving.replicas.on_ray.listening import listen_on_node_address
from ChatTTS.utils import ray_cluster


@pytest.mark.parametrize(
    ("node", "expected"), [("10.0.0.7", "10.0.0.7:0"), ("fd00::7", "[fd00::7]:0")]
)
def test_a_replica_listens_on_the_address_of_its_node(
    monkeypatch: pytest.MonkeyPatch, node: str, expected: str
) -> None:
    monkeypatch.setattr(replica, "add_port_to_grpc_server", lambda server, address: address)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: node)
    listen_on_node_address()
    # As Ray's replica does, once the constructor of its deployment has returned.
    assert 'add_port_to_grpc_server(self._server, "[::]:0")' in inspect.getsource(replica)
    assert replica.add_port_to_grpc_server(None, "[::]:0") == expected


def test_only_this_user_reaches_the_files_of_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray lets every user write in the folder that it makes."""
    given: list[Path] = []

    def init(_temp_dir: str, **_: object) -> None:
        folder = Path(_temp_dir)
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        given.append(folder)

    monkeypatch.setattr(ray, "init", init)
    with ray_cluster.private_cluster():
        (folder,) = given
        assert any(stat.S_IMODE(above.stat().st_mode) & 0o077 == 0 for above in folder.parents)
    assert not folder.parent.exists()
