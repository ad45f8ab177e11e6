"""Admission control: which requests run, which wait, and which are refused."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ...config.request_fields import Priority
from ...errors import ConfigError
from ..errors import DeadlineError, OverloadedError, UnavailableError
from .fair_queue import FairQueue
from .tickets import Ticket

_LONGEST_RETRY = 60  # seconds; clients that are told to wait longer would not come back
_DECAY = 0.95  # of the throughput's sums at each ticket: about the last twenty tickets count


@dataclass(frozen=True)
class AdmissionLimits:
    """Limits of the admission.

    Attributes:
        max_running: tickets that have their turn at a time.
        max_waiting: waiting tickets of all clients.
        max_waiting_per_client: waiting tickets of one client.
        max_wait_seconds: time after which a waiting ticket is rejected.
        ageing_seconds: time after which a waiting batch ticket counts as an interactive one.
        max_running_per_client: tickets of one client that have their turn at a time; ``None`` is no
            limit of its own.
        stalled_seconds: time after which a ticket whose work is not taken may be preempted.

    Raises:
        ConfigError: a value is out of range.
    """

    max_running: int
    max_waiting: int
    max_waiting_per_client: int
    max_wait_seconds: float
    ageing_seconds: float
    max_running_per_client: int | None = None
    stalled_seconds: float = 2.0

    def __post_init__(self) -> None:
        if self.max_running < 1:
            raise ConfigError(f"max_running must be at least 1, not {self.max_running}")
        if self.max_running_per_client == 0:
            raise ConfigError("max_running_per_client must be at least 1, not 0")
        for name, value in vars(self).items():
            if value is not None and not value >= 0:
                raise ConfigError(f"{name} must be 0 or more, not {value}")


@dataclass(frozen=True)
class AdmissionSnapshot:
    """State of the admission at one moment.

    Attributes:
        running: tickets that have their turn.
        waiting: tickets that wait.
        waiting_interactive, waiting_batch: waiting tickets by their priority.
        clients: clients that have a ticket.
        longest_wait: seconds that the oldest waiting ticket has waited.
        cost_per_second: throughput of all slots; ``None`` before the first ticket is done.
    """

    running: int
    waiting: int
    waiting_interactive: int
    waiting_batch: int
    clients: int
    longest_wait: float
    cost_per_second: float | None


class _Throughput:
    """Throughput, measured on the tickets that were done last."""

    def __init__(self) -> None:
        self._cost, self._seconds = 0.0, 0.0

    def learn(self, cost: float, seconds: float) -> None:
        """Count a ticket of ``cost`` that was done and held its slot for ``seconds``."""
        self._cost = self._cost * _DECAY + cost
        self._seconds = self._seconds * _DECAY + seconds

    @property
    def per_slot(self) -> float | None:
        """Cost per second of one slot; ``None`` before the first ticket is done."""
        return self._cost / self._seconds if self._seconds > 0 else None


class Admission:
    """Gives a limited number of tickets their turn at a time; the others wait.

    Interactive tickets and batch tickets that have waited long go first, then the other batch
    tickets. In each of these two classes clients take turns (see :class:`FairQueue`). An admission
    belongs to one event loop and is used in its thread only.

    Args:
        limits: its limits.
        clock: returns seconds, at the speed of the loop's clock. Deadlines are times of this clock.

    Attributes:
        draining: whether new tickets are refused.
    """

    def __init__(
        self, limits: AdmissionLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits
        self.clock = clock
        self._interactive: FairQueue[Ticket] = FairQueue()
        self._batch: FairQueue[Ticket] = FairQueue()
        self._waiting: OrderedDict[int, Ticket] = OrderedDict()
        self._not_aged: OrderedDict[int, Ticket] = OrderedDict()  # in the batch queue, by arrival
        self._waiting_of: Counter[str] = Counter()
        self._running: dict[int, Ticket] = {}
        self._running_of: Counter[str] = Counter()
        self._arrivals = 0
        self.draining = False
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._throughput = _Throughput()
        self._reclaiming: asyncio.TimerHandle | None = None

    @property
    def running(self) -> int:
        """Number of tickets that have their turn."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Number of tickets that wait."""
        return len(self._waiting)

    def enter(
        self,
        *,
        client: str,
        priority: Priority,
        cost: float,
        deadline: float | None,
        continues: bool = False,
        resumes: bool = False,
    ) -> Ticket:
        """Return a new ticket, which waits or has its turn at once; call it in the event loop.

        Args:
            client: name of the client; clients take turns.
            priority: the class.
            cost: amount of work, such as the number of characters of a text.
            deadline: time by which its turn must come; ``None`` means ``max_wait_seconds`` alone.
            continues: it belongs to an accepted request, and is accepted while draining too.
            resumes: it had its turn before and was preempted. It is never refused, and waits as
                long as it takes.

        Raises:
            OverloadedError: too many tickets wait, the turn would come too late, or the admission
                is draining.
            DeadlineError: the deadline has passed.
            ValueError: the cost is not above 0.
        """
        if not 0 < cost < math.inf:
            raise ValueError(f"the cost of a ticket must be above 0, not {cost}")
        now = self.clock()
        if self.draining and not continues:
            raise OverloadedError(
                "the server is shutting down and accepts no more requests: use another one",
                retry_after=self._retry_after(self._queued_cost()),
                draining=True,
            )
        if deadline is not None and deadline < now:
            raise DeadlineError("the request's deadline had already passed when it arrived")
        until = now + self.limits.max_wait_seconds
        until = until if deadline is None else min(until, deadline)
        must_wait = not (self._has_free_slot and self._may_run(client))
        if must_wait:
            self._age_tickets(now)
        if must_wait and not resumes:
            self._check_limits(client)
            self._check_wait(client, priority, now, until)
        ticket = Ticket(self, self._arrivals, client, priority, cost, now)
        self._arrivals += 1
        self._waiting[ticket.number] = ticket
        self._waiting_of[client] += 1
        if priority is Priority.BATCH:
            self._not_aged[ticket.number] = ticket
        self._queue_of(ticket).push(ticket)
        self._fill_slots()
        if must_wait and not resumes:
            loop = asyncio.get_running_loop()
            self._timers[ticket.number] = loop.call_later(until - now, self._expire, ticket)
        if ticket.is_waiting and self._reclaiming is None:
            self._reclaim()
        return ticket

    def expected_wait(self, client: str, priority: Priority) -> float | None:
        """Return an estimate of how many seconds a new ticket would wait.

        ``None`` if all slots are taken and no ticket has been done yet.
        """
        is_own = not self._may_run(client)
        if self._has_free_slot and not is_own:
            return 0.0
        each = self._throughput.per_slot
        if each is None:
            return None
        now = self.clock()
        # The next slot becomes free when the first of the running tickets is done.
        running = [t for t in self._running.values() if not is_own or t.client == client]
        first = min(t.cost / each - (now - t.entered - t.waited) for t in running)
        rate = each * len(running)
        return max(0.0, first) + self._ahead(client, priority) / rate

    def snapshot(self) -> AdmissionSnapshot:
        """Return the present state."""
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
        )

    def drain(self) -> None:
        """Refuse new tickets from now on; waiting tickets still get their turns."""
        self.draining = True

    def abort_waiting(self, reason: str) -> int:
        """Reject all waiting tickets with an UnavailableError; return how many."""
        tickets = list(self._waiting.values())
        for ticket in tickets:
            ticket.reject(UnavailableError(reason))
            self.withdraw(ticket)
        return len(tickets)

    def withdraw(self, ticket: Ticket) -> None:
        """Take a waiting ticket out of the queue; called by the ticket."""
        self._queue_of(ticket).remove(ticket)
        self._forget_waiting(ticket)
        self._forget_client(ticket.client)

    def give_back(self, ticket: Ticket, *, finished: bool) -> None:
        """End the turn of a ticket and give the next one its turn; called by the ticket."""
        del self._running[ticket.number]
        _count_down(self._running_of, ticket.client)
        if finished:
            self._throughput.learn(ticket.cost, self.clock() - ticket.entered - ticket.waited)
        self._forget_client(ticket.client)
        self._fill_slots()

    def _check_limits(self, client: str) -> None:
        limits = self.limits
        if self._waiting_of[client] >= limits.max_waiting_per_client:
            raise OverloadedError(
                f"you already have {limits.max_waiting_per_client} requests waiting, which is "
                "the limit: send the next one when one of them has finished",
                retry_after=self._retry_after(self._ahead(client, Priority.BATCH)),
                own_limit=True,
            )
        if len(self._waiting) >= limits.max_waiting:
            raise OverloadedError(
                f"{limits.max_waiting} requests are already waiting, which is the limit: try "
                "again later",
                retry_after=self._retry_after(self._queued_cost()),
            )

    def _check_wait(self, client: str, priority: Priority, now: float, until: float) -> None:
        """Raise OverloadedError if the turn is expected after ``until``."""
        expected = self.expected_wait(client, priority)
        if expected is not None and now + expected > until:
            raise OverloadedError(
                f"the request would wait about {math.ceil(expected)} s, which is longer than its "
                "limit: try again later, or allow a longer wait",
                retry_after=_retry_seconds(expected - (until - now)),
            )

    def _queue_of(self, ticket: Ticket) -> FairQueue[Ticket]:
        return self._batch if ticket.number in self._not_aged else self._interactive

    def _age_tickets(self, now: float) -> None:
        """Move batch tickets that have waited long to the interactive tickets."""
        while self._not_aged:
            ticket = next(iter(self._not_aged.values()))
            if now - ticket.entered < self.limits.ageing_seconds:
                break
            self._batch.remove(ticket)
            del self._not_aged[ticket.number]
            self._interactive.push(ticket)

    def _fill_slots(self) -> None:
        """Give waiting tickets their turns while slots are free."""
        self._age_tickets(self.clock())
        while self._waiting and self._has_free_slot:
            ticket = self._next_ticket()
            if ticket is None:
                return
            self._running[ticket.number] = ticket
            self._running_of[ticket.client] += 1
            self._forget_waiting(ticket)
            ticket.grant()

    def _next_ticket(self) -> Ticket | None:
        """Take the next ticket of a client that may have one more turn out of the queue."""
        for queue in (self._interactive, self._batch):
            with contextlib.suppress(IndexError):
                return queue.pop(self._may_run)
        return None

    @property
    def _has_free_slot(self) -> bool:
        return len(self._running) < self.limits.max_running

    def _may_run(self, client: str) -> bool:
        """Return whether a client may have one more turn."""
        most = self.limits.max_running_per_client
        return most is None or self._running_of[client] < most

    def _reclaim(self) -> None:
        """Preempt tickets whose work is not taken, while others wait for slots."""
        self._reclaiming = None
        if not self._waiting:
            return
        seconds = self.limits.stalled_seconds
        wanting = {ticket.client for ticket in self._waiting.values()}
        stalled = [
            ticket
            for ticket in self._running.values()
            if ticket.is_stalled(seconds) and (not self._has_free_slot or ticket.client in wanting)
        ]
        for ticket in stalled[: len(self._waiting)]:
            ticket.preempt()
        loop = asyncio.get_running_loop()
        self._reclaiming = loop.call_later(seconds / 4, self._reclaim)

    def _expire(self, ticket: Ticket) -> None:
        ticket.reject(
            DeadlineError(
                f"the request was not started within {ticket.waited:.3g} s: try again later, or "
                "allow a longer wait",
                retry_after=self._retry_after(self._ahead(ticket.client, ticket.priority)),
            )
        )
        self.withdraw(ticket)

    def _forget_waiting(self, ticket: Ticket) -> None:
        del self._waiting[ticket.number]
        self._not_aged.pop(ticket.number, None)
        timer = self._timers.pop(ticket.number, None)
        if timer is not None:
            timer.cancel()
        _count_down(self._waiting_of, ticket.client)

    def _forget_client(self, client: str) -> None:
        if client not in self._waiting_of and client not in self._running_of:
            self._interactive.forget(client)
            self._batch.forget(client)

    def _queued_cost(self) -> float:
        return self._interactive.cost + self._batch.cost

    def _ahead(self, client: str, priority: Priority) -> float:
        """Return an estimate of the work that would go before a new ticket."""
        if priority is Priority.BATCH:
            return self._interactive.cost + self._batch.ahead(client)
        return self._interactive.ahead(client)

    def _cost_per_second(self) -> float | None:
        """Return the throughput of all slots; ``None`` before the first ticket is done."""
        each = self._throughput.per_slot
        return None if each is None else each * self.limits.max_running

    def _retry_after(self, cost: float) -> int:
        """Return the whole seconds until so much work is done."""
        rate = self._cost_per_second()
        return 1 if rate is None else _retry_seconds(cost / rate)


def _retry_seconds(seconds: float) -> int:
    """Return the seconds as a client is told them: whole, at least 1, and bounded."""
    return min(max(1, math.ceil(seconds)), _LONGEST_RETRY)


def _count_down(counts: Counter[str], client: str) -> None:
    counts[client] -= 1
    if not counts[client]:
        del counts[client]
