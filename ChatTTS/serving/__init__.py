"""The server: REST, WebSocket and gRPC over one ``Chat`` on the velocity engine.

Its dependencies are the extra ``serve``. Nothing of the library depends on it.
"""
