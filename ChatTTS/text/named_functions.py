"""Functions that read a language, by the names that a command line or a file has for them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from ..errors import ConfigError, shown
from .normalizer import Normalizer, TextFunction


def register_named(normalizer: Normalizer, places: Mapping[str, str]) -> None:
    """Register functions with a normalizer.

    Args:
        places: by the name of the language, ``MODULE:FUNCTION``, as Python imports it.

    Raises:
        ConfigError: a function is not there, or does not turn a text into a text.
    """
    for language, place in places.items():
        if not normalizer.register(language, _function(place)):
            raise ConfigError(
                f"the function {shown(place)} cannot read {language}: it must take a text and "
                "return a text; the log says why it was refused"
            )


def _function(place: str) -> TextFunction:
    module, _, name = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # a module may raise anything while it is imported
        raise ConfigError(
            f"the function {shown(place)} cannot be imported: {type(error).__name__}: {error}; "
            "install its module, or name its folder in PYTHONPATH"
        ) from error
    if not callable(found):
        raise ConfigError(f"{shown(place)} is not a function")
    function: TextFunction = found
    return function
