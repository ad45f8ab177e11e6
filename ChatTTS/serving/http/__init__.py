"""HTTP for all interfaces: connections, middleware of every app, bodies, keys and responses."""
