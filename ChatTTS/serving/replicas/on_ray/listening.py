"""The address on which a replica of Ray Serve listens.

A replica opens a gRPC port for calls of other deployments. Its handlers unpickle what they get, and
Ray binds it to every address of the host, whatever address the node has.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.serve._private import replica

_EVERY_ADDRESS = "[::]:"


def listen_on_node_address() -> None:
    """Have the replica of this process listen on the address of its node alone.

    Call it in the constructor of a deployment: Ray opens the port when that has returned.
    """
    address = ray.util.get_node_ip_address()
    host = f"[{address}]" if ":" in address else address
    add_port = replica.add_port_to_grpc_server

    def add_port_of_node(server: Any, asked: str) -> Any:
        return add_port(server, asked.replace(_EVERY_ADDRESS, f"{host}:", 1))

    replica.add_port_to_grpc_server = add_port_of_node
