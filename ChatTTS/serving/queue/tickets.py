"""Tickets: the place of a request in the queue, and then its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from types import TracebackType
from typing import Protocol

from ...config.request_fields import Priority
from ..errors import ServingError, UnavailableError


class _TicketState(Enum):
    WAITING = auto()
    TURN = auto()  # granted, though its owner may not have been scheduled yet
    OVER = auto()


class TicketIssuer(Protocol):
    """The issuer of tickets, which is called when they end."""

    def clock(self) -> float:
        """Return the time in seconds."""

    def withdraw(self, ticket: Ticket) -> None:
        """Called when ``ticket`` stops waiting without a turn."""

    def give_back(self, ticket: Ticket, *, finished: bool) -> None:
        """Called when the turn of ``ticket`` is over."""


class Ticket:
    """A place in the queue, then a turn: ``async with ticket:`` waits for the turn and ends it.

    The owner of a ticket must enter it or :meth:`release` it.

    Args:
        issuer: what issues it.
        number: its position in the order of arrival.
        client, priority, cost: of the request.
        entered: time of its arrival, by the issuer's clock.
    """

    def __init__(
        self,
        issuer: TicketIssuer,
        number: int,
        client: str,
        priority: Priority,
        cost: float,
        entered: float,
    ) -> None:
        self.number = number
        self.client = client
        self.priority = priority
        self.cost = cost
        self.entered = entered
        self._issuer = issuer
        self._state = _TicketState.WAITING
        self._is_taken = False
        self._settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._settled_at: float | None = None
        self._error: ServingError | None = None
        self._unread_since: float | None = None
        self._preempt: Callable[[], None] | None = None

    def allow_preemption(self, preempt: Callable[[], None]) -> None:
        """Allow the issuer to call ``preempt``, which releases it, while its work is not taken."""
        self._preempt = preempt

    def mark_taken(self, is_taken: bool) -> None:
        """Note whether the listener waits for more work, or still has to take what it was given."""
        self._unread_since = None if is_taken else self._issuer.clock()

    def is_stalled(self, seconds: float) -> bool:
        """Return whether its work was not taken for so many seconds, and it may be preempted."""
        since = self._unread_since
        is_old = since is not None and self._issuer.clock() - since >= seconds
        return is_old and self.has_turn and self._preempt is not None

    def preempt(self) -> None:
        """Have its owner release it; only if it is stalled."""
        assert self._preempt is not None
        self._preempt()

    @property
    def waited(self) -> float:
        """Seconds that it waited for its turn, or until it was rejected; up to now if it waits."""
        until = self._issuer.clock() if self._settled_at is None else self._settled_at
        return until - self.entered

    @property
    def has_turn(self) -> bool:
        """Return whether it has its turn now."""
        return self._state is _TicketState.TURN

    @property
    def is_waiting(self) -> bool:
        """Return whether it still waits for its turn."""
        return self._state is _TicketState.WAITING

    def release(self, *, finished: bool = False) -> None:
        """Leave the queue, or end the turn; a second call does nothing.

        Args:
            finished: whether the work was completed, so that the measured throughput may use it.
        """
        if self._state is _TicketState.OVER:
            return
        had_turn = self.has_turn
        self.reject(UnavailableError("the request was withdrawn before its turn"))
        if had_turn:
            self._issuer.give_back(self, finished=finished)
        else:
            self._issuer.withdraw(self)

    def grant(self) -> None:
        """Give it its turn; called by the issuer."""
        self._settle(_TicketState.TURN)

    def reject(self, error: ServingError) -> None:
        """End its waiting with ``error``, which entering raises; called by the issuer."""
        self._error = error
        self._settle(_TicketState.OVER)

    async def __aenter__(self) -> Ticket:
        """Wait for the turn.

        Raises:
            DeadlineError: the turn did not come in time.
            UnavailableError: the ticket was released, or all waiting was ended.
            RuntimeError: the ticket was entered before.
        """
        if self._is_taken:
            raise RuntimeError("a ticket is good for one turn: take another")
        self._is_taken = True
        try:
            await self._settled
        except BaseException:  # cancelled, possibly just when the turn was granted
            self.release()
            raise
        if self._error is not None:
            raise self._error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release(finished=kind is None)

    def _settle(self, state: _TicketState) -> None:
        if self.is_waiting:
            self._settled_at = self._issuer.clock()
        self._state = state
        if not self._settled.done():  # it is done if the waiting task was just cancelled
            self._settled.set_result(None)
