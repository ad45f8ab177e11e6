"""Requests, their texts, and the interface of the model that speaks them."""
