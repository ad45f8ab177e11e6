"""HTTP for all interfaces: connections, layers around every app, bodies, keys and responses."""
