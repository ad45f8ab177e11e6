"""A request's place in the queue, and then its turn."""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from types import TracebackType
from typing import Protocol

from .errors import ServingError, UnavailableError
from .requests import Priority


class _TicketState(Enum):
    WAITING = auto()
    TURN = auto()  # it has a place, whether or not its owner knows yet
    OVER = auto()


class TicketIssuer(Protocol):
    """Who gives tickets out and is told when they end."""

    def clock(self) -> float:
        """Seconds."""

    def withdraw(self, ticket: Ticket) -> None:
        """``ticket`` waits no more."""

    def give_back(self, ticket: Ticket, *, finished: bool) -> None:
        """The turn of ``ticket`` is over."""


class Ticket:
    """A place in the queue, then the turn: ``async with ticket:`` waits for it and gives it back.

    Whoever has a ticket and does not enter it must :meth:`release` it.

    Args:
        issuer: who gives it out.
        number: of its arrival.
        client, priority, cost: as they were asked for.
        entered: when, by the issuer's clock.
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

    @property
    def waited(self) -> float:
        """Seconds until its turn came, or it gave up; until now where it waits."""
        until = self._issuer.clock() if self._settled_at is None else self._settled_at
        return until - self.entered

    @property
    def has_turn(self) -> bool:
        """Whether it has its turn now."""
        return self._state is _TicketState.TURN

    @property
    def is_waiting(self) -> bool:
        """Whether its turn is to come."""
        return self._state is _TicketState.WAITING

    def release(self, *, finished: bool = False) -> None:
        """Give up the place or the turn; a second time does nothing.

        Args:
            finished: what was asked was done wholly, so that the throughput learns from it.
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
        """For the issuer: its turn has come."""
        self._settle(_TicketState.TURN)

    def reject(self, error: ServingError) -> None:
        """For the issuer: it has no turn, and ``error`` says why to whoever waits for it."""
        self._error = error
        self._settle(_TicketState.OVER)

    async def __aenter__(self) -> Ticket:
        """Wait for the turn.

        Raises:
            DeadlineError: it did not come in time.
            UnavailableError: the waiting was ended, by :meth:`release` or for all.
            RuntimeError: the ticket was entered before.
        """
        if self._is_taken:
            raise RuntimeError("a ticket is good for one turn: take another")
        self._is_taken = True
        try:
            await self._settled
        except BaseException:  # cancelled, maybe in the moment in which the turn came
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
        if not self._settled.done():  # it is where a task that waits was cancelled just now
            self._settled.set_result(None)
