"""Names and calls of the published package, for scripts; no engine, server or command uses them."""
