"""Who may begin to be spoken, and when."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ConfigError
from .errors import DeadlineError, OverloadedError, UnavailableError
from .fair_queue import FairQueue
from .requests import Priority
from .tickets import Ticket

_LONGEST_RETRY = 60  # seconds; who is told to wait longer than this does not come back
_REMEMBERED = 0.95  # of the throughput's figures, at each ticket: about the last twenty count


@dataclass(frozen=True)
class AdmissionLimits:
    """How many run and wait.

    Attributes:
        max_running: tickets that have their turn at a time.
        max_waiting: tickets that wait, of all clients.
        max_waiting_per_client: of one client.
        max_wait_seconds: after which a ticket gives up.
        ageing_seconds: after which a waiting batch ticket counts as an interactive one.

    Raises:
        ConfigError: a value that makes no sense.
    """

    max_running: int
    max_waiting: int
    max_waiting_per_client: int
    max_wait_seconds: float
    ageing_seconds: float

    def __post_init__(self) -> None:
        if self.max_running < 1:
            raise ConfigError(f"max_running must be at least 1, not {self.max_running}")
        for name, value in vars(self).items():
            if not value >= 0:
                raise ConfigError(f"{name} must be 0 or more, not {value}")


@dataclass(frozen=True)
class AdmissionSnapshot:
    """How it stands.

    Attributes:
        running: tickets that have their turn.
        waiting: tickets that wait.
        waiting_interactive, waiting_batch: the same by what they asked for.
        clients: who has a ticket here.
        longest_wait: seconds that the oldest waiting ticket has waited.
        cost_per_second: what all that run get done; None before the first was done.
        is_draining: nobody is taken any more.
    """

    running: int
    waiting: int
    waiting_interactive: int
    waiting_batch: int
    clients: int
    longest_wait: float
    cost_per_second: float | None
    is_draining: bool


class _Throughput:
    """How much gets done, by the tickets that were done last."""

    def __init__(self) -> None:
        self._cost, self._seconds = 0.0, 0.0

    def learn(self, cost: float, seconds: float) -> None:
        """A ticket of ``cost`` was done and held its place for ``seconds``."""
        self._cost = self._cost * _REMEMBERED + cost
        self._seconds = self._seconds * _REMEMBERED + seconds

    @property
    def of_a_place(self) -> float | None:
        """Cost per second of one place; None before anything was done."""
        return self._cost / self._seconds if self._seconds > 0 else None


class Admission:
    """Lets so many run at a time, the others wait for their turn.

    First come interactive tickets and batch tickets that have waited long, then the other batch
    tickets. In each class clients share by turns (see :class:`FairQueue`). It belongs to one event
    loop and is used in its thread only.

    Args:
        limits: see there.
        clock: seconds; deadlines are points in its time. It must go as the loop's does.
    """

    def __init__(
        self, limits: AdmissionLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits
        self._clock = clock
        self._urgent: FairQueue[Ticket] = FairQueue()
        self._patient: FairQueue[Ticket] = FairQueue()
        self._waiting: OrderedDict[int, Ticket] = OrderedDict()
        self._young: OrderedDict[int, Ticket] = OrderedDict()  # in the patient queue, by arrival
        self._waiting_of: Counter[str] = Counter()
        self._running: dict[int, Ticket] = {}
        self._running_of: Counter[str] = Counter()
        self._arrivals = 0
        self._is_draining = False
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._throughput = _Throughput()

    @property
    def running(self) -> int:
        """How many have their turn."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def draining(self) -> bool:
        """Whether nobody is taken any more."""
        return self._is_draining

    def clock(self) -> float:
        """Seconds; deadlines are points in its time."""
        return self._clock()

    def enter(
        self,
        *,
        client: str,
        priority: Priority,
        cost: float,
        deadline: float | None,
        continues: bool = False,
    ) -> Ticket:
        """Take a place, in the queue or at once among those that run; call it in the event loop.

        Args:
            client: who asks; clients share by turns.
            priority: the class.
            cost: how much work it is, such as the characters of a text.
            deadline: when it must have begun, by the clock; None leaves ``max_wait_seconds``.
            continues: it belongs to what was taken before, and is taken while draining as well.

        Raises:
            OverloadedError: too many wait, or the turn would come too late, or no one is taken.
            DeadlineError: the deadline has passed.
            ValueError: a cost that is not above 0.
        """
        if not 0 < cost < math.inf:
            raise ValueError(f"the cost of a ticket must be above 0, not {cost}")
        now = self.clock()
        if self._is_draining and not continues:
            raise OverloadedError(
                "the server is shutting down and takes no more requests: ask another one",
                retry_after=self._retry_after(self._queued_cost()),
                draining=True,
            )
        if deadline is not None and deadline < now:
            raise DeadlineError("the request's deadline had passed when it came")
        until = now + self.limits.max_wait_seconds
        until = until if deadline is None else min(until, deadline)
        must_wait = len(self._running) >= self.limits.max_running
        if must_wait:
            self._make_due(now)
            self._check_limits(client)
            self._check_wait(client, priority, now, until)
        ticket = Ticket(self, self._arrivals, client, priority, cost, now)
        self._arrivals += 1
        self._waiting[ticket.number] = ticket
        self._waiting_of[client] += 1
        if priority is Priority.BATCH:
            self._young[ticket.number] = ticket
        self._queue_of(ticket).push(ticket)
        self._fill()
        if must_wait:
            loop = asyncio.get_running_loop()
            self._timers[ticket.number] = loop.call_later(until - now, self._expire, ticket)
        return ticket

    def expected_wait(self, client: str, priority: Priority) -> float | None:
        """About how many seconds a ticket would wait now; None before anything was done."""
        if len(self._running) < self.limits.max_running:
            return 0.0
        each = self._throughput.of_a_place
        if each is None:
            return None
        now = self.clock()
        # The next place is free when the first of those that run is done.
        first = min(t.cost / each - (now - t.entered - t.waited) for t in self._running.values())
        rate = each * self.limits.max_running
        return max(0.0, first) + self._ahead(client, priority) / rate

    def snapshot(self) -> AdmissionSnapshot:
        """How it stands."""
        oldest = next(iter(self._waiting.values()), None)
        batch = sum(t.priority is Priority.BATCH for t in self._waiting.values())
        return AdmissionSnapshot(
            running=len(self._running),
            waiting=len(self._waiting),
            waiting_interactive=len(self._waiting) - batch,
            waiting_batch=batch,
            clients=len(self._waiting_of.keys() | self._running_of.keys()),
            longest_wait=0.0 if oldest is None else oldest.waited,
            cost_per_second=self._cost_per_second(),
            is_draining=self._is_draining,
        )

    def drain(self) -> None:
        """Take nobody any more; those that wait still get their turns."""
        self._is_draining = True

    def abort_waiting(self, reason: str) -> int:
        """End the waiting of all, who get UnavailableError with ``reason``; gives how many."""
        tickets = list(self._waiting.values())
        for ticket in tickets:
            ticket.reject(UnavailableError(reason))
            self.withdraw(ticket)
        return len(tickets)

    def withdraw(self, ticket: Ticket) -> None:
        """For the ticket: it waits no more."""
        self._queue_of(ticket).remove(ticket)
        self._forget_waiting(ticket)
        self._forget_client(ticket.client)

    def give_back(self, ticket: Ticket, *, finished: bool) -> None:
        """For the ticket: its turn is over, and the next one's begins."""
        del self._running[ticket.number]
        _count_down(self._running_of, ticket.client)
        if finished:
            self._throughput.learn(ticket.cost, self.clock() - ticket.entered - ticket.waited)
        self._forget_client(ticket.client)
        self._fill()

    def _check_limits(self, client: str) -> None:
        limits = self.limits
        if self._waiting_of[client] >= limits.max_waiting_per_client:
            raise OverloadedError(
                f"{limits.max_waiting_per_client} requests of yours wait already, which is the "
                "limit: send the next when one of them is done",
                retry_after=self._retry_after(self._ahead(client, Priority.BATCH)),
                own_limit=True,
            )
        if len(self._waiting) >= limits.max_waiting:
            raise OverloadedError(
                f"{limits.max_waiting} requests wait already, which is the limit: try again later",
                retry_after=self._retry_after(self._queued_cost()),
            )

    def _check_wait(self, client: str, priority: Priority, now: float, until: float) -> None:
        """Refuse now what would give up later."""
        expected = self.expected_wait(client, priority)
        if expected is not None and now + expected > until:
            raise OverloadedError(
                f"the turn would come in about {math.ceil(expected)} s, which is too late: try "
                "again later, or allow a longer wait",
                retry_after=_whole(expected - (until - now)),
            )

    def _queue_of(self, ticket: Ticket) -> FairQueue[Ticket]:
        return self._patient if ticket.number in self._young else self._urgent

    def _make_due(self, now: float) -> None:
        """Batch tickets that have waited long count as interactive ones from now on."""
        while self._young:
            ticket = next(iter(self._young.values()))
            if now - ticket.entered < self.limits.ageing_seconds:
                break
            self._patient.remove(ticket)
            del self._young[ticket.number]
            self._urgent.push(ticket)

    def _fill(self) -> None:
        """Give turns while places are free."""
        self._make_due(self.clock())
        while self._waiting and len(self._running) < self.limits.max_running:
            ticket = (self._urgent or self._patient).pop()
            self._running[ticket.number] = ticket
            self._running_of[ticket.client] += 1
            self._forget_waiting(ticket)
            ticket.grant()

    def _expire(self, ticket: Ticket) -> None:
        ticket.reject(
            DeadlineError(
                f"the turn did not come within {ticket.waited:.3g} s: try again later, or allow a "
                "longer wait",
                retry_after=self._retry_after(self._ahead(ticket.client, ticket.priority)),
            )
        )
        self.withdraw(ticket)

    def _forget_waiting(self, ticket: Ticket) -> None:
        del self._waiting[ticket.number]
        self._young.pop(ticket.number, None)
        timer = self._timers.pop(ticket.number, None)
        if timer is not None:
            timer.cancel()
        _count_down(self._waiting_of, ticket.client)

    def _forget_client(self, client: str) -> None:
        if client not in self._waiting_of and client not in self._running_of:
            self._urgent.forget(client)
            self._patient.forget(client)

    def _queued_cost(self) -> float:
        return self._urgent.cost + self._patient.cost

    def _ahead(self, client: str, priority: Priority) -> float:
        """About how much work would go before a new ticket."""
        if priority is Priority.BATCH:
            return self._urgent.cost + self._patient.ahead(client)
        return self._urgent.ahead(client)

    def _cost_per_second(self) -> float | None:
        """Of all places together; None before anything was done."""
        each = self._throughput.of_a_place
        return None if each is None else each * self.limits.max_running

    def _retry_after(self, cost: float) -> int:
        """Whole seconds until so much work is done."""
        rate = self._cost_per_second()
        return 1 if rate is None else _whole(cost / rate)


def _whole(seconds: float) -> int:
    """As a client is told."""
    return min(max(1, math.ceil(seconds)), _LONGEST_RETRY)


def _count_down(counts: Counter[str], client: str) -> None:
    counts[client] -= 1
    if not counts[client]:
        del counts[client]
