"""The attention heads of a loaded checkpoint whose configuration names none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...config import AlignmentHeads
from ...model.generation import Cancellation
from ..found_once import FoundOnce
from .head_scores import HeadChoice


class FoundHeads:
    """Heads that an earlier search found, or that the first call that wants them searches for.

    Args:
        heads: of an earlier search, if there was one.
        keep: stores a choice for later runs; returns the file, or ``None`` where it cannot.
    """

    def __init__(
        self,
        heads: AlignmentHeads = (),
        keep: Callable[[HeadChoice], Path | None] = lambda choice: None,
    ) -> None:
        self._found: FoundOnce[AlignmentHeads] = FoundOnce(heads or None)
        self._keep = keep

    @property
    def known(self) -> AlignmentHeads:
        """The heads, if they were found already."""
        return self._found.known or ()

    def get(
        self, search: Callable[[], HeadChoice | None], cancelled: Cancellation
    ) -> AlignmentHeads:
        """Return the heads, after a search if they are not known; see :meth:`FoundOnce.get`.

        Args:
            search: finds the heads and hands them to :meth:`put`; returns ``None`` if cancelled.

        Returns:
            The heads; none once ``cancelled`` is set before they are known.
        """

        def heads() -> AlignmentHeads | None:
            choice = search()
            return None if choice is None else choice.heads

        return self._found.get(heads, cancelled) or ()

    def put(self, choice: HeadChoice) -> Path | None:
        """Use a choice from now on, and store it; return its file, if there is one."""
        self._found.set(choice.heads)
        return self._keep(choice)
