"""The gRPC interface: Riva's speech synthesis, health and reflection."""

from .server import GrpcServer, serve_grpc

__all__ = ["GrpcServer", "serve_grpc"]
