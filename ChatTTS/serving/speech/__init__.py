"""The service that speaks requests, for all interfaces."""
