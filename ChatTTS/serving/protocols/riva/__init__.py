"""The gRPC interface: Riva's speech synthesis, health and reflection.

Its names are imported at first use, since gRPC's packages are an extra. Riva's realtime API, in
``realtime``, is a WebSocket and needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....utils.lazy_names import lazy_names

if TYPE_CHECKING:
    from .server import GrpcServer, serve_grpc

__all__ = ["GrpcServer", "serve_grpc"]

__getattr__, __dir__ = lazy_names(__name__, {"server": ("GrpcServer", "serve_grpc")})
