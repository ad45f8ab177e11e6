"""Calls that report success as scripts know it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ..errors import ChatTTSError


class _Logging(Protocol):
    logger: logging.Logger


P = ParamSpec("P")
L = TypeVar("L", bound=_Logging)


def succeeds(load: Callable[Concatenate[L, P], None]) -> Callable[Concatenate[L, P], bool]:
    """Return ``load`` as scripts know it: it logs an error and returns ``False``."""

    @functools.wraps(load)
    def logged(self: L, /, *args: P.args, **kwargs: P.kwargs) -> bool:
        try:
            load(self, *args, **kwargs)
        except ChatTTSError as error:
            self.logger.error("%s", error)
            return False
        return True

    return logged
