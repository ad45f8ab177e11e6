"""A queue in which clients share by turns, however much each of them has waiting."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Queued(Protocol):
    """What may wait in a queue.

    Attributes:
        client: whose it is.
        number: of its arrival; no two are the same.
        cost: how much work it is, above 0.
    """

    @property
    def client(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def cost(self) -> float: ...


Q = TypeVar("Q", bound=Queued)


@dataclass
class _Flow(Generic[Q]):
    """One client's items, and the virtual time at which its first one is due."""

    due: float
    waiting: OrderedDict[int, Q] = field(default_factory=OrderedDict)
    cost: float = 0.0


class FairQueue(Generic[Q]):
    """Start-time fair queueing over clients; one client's items leave in the order they came.

    Each client has a virtual time at which its next item is due; an item that leaves moves it on
    by its cost. Whoever is due first goes first, and of those the one whose item arrived first. A
    client that comes newly is due at the queue's own virtual time, so nothing is saved up by being
    away. That time moves on with each item by the share of every client in it, which also bounds
    the wait of an old client where new ones never cease to come.

    What a client has had is remembered until :meth:`forget`.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._count = 0
        self._cost = 0.0
        self._flows: dict[str, _Flow[Q]] = {}
        # One for each client that waits: when it is due, its first item's number, its name.
        self._order: list[tuple[float, int, str]] = []

    def __len__(self) -> int:
        return self._count

    @property
    def cost(self) -> float:
        """Of all that waits."""
        return self._cost

    @property
    def clients(self) -> int:
        """How many clients are remembered."""
        return len(self._flows)

    def push(self, item: Q) -> None:
        """Let ``item`` wait, behind all others of its client."""
        flow = self._flows.setdefault(item.client, _Flow(self._now))
        if not flow.waiting:
            flow.due = max(flow.due, self._now)
            insort(self._order, (flow.due, item.number, item.client))
        flow.waiting[item.number] = item
        flow.cost += item.cost
        self._cost += item.cost
        self._count += 1

    def pop(self) -> Q:
        """Take out the item whose turn it is.

        Raises:
            IndexError: nothing waits.
        """
        due, number, client = self._order[0]
        flow = self._flows[client]
        item = flow.waiting[number]
        self._now = max(self._now, due) + item.cost / (len(self._order) + 1)
        self._take(flow, item, due + item.cost)
        return item

    def remove(self, item: Q) -> None:
        """Take out ``item``, whose client pays nothing for it.

        Raises:
            KeyError: it does not wait here.
        """
        flow = self._flows[item.client]
        flow.waiting[item.number]  # before anything changes
        self._take(flow, item, flow.due)

    def forget(self, client: str) -> None:
        """What ``client`` had does not count any more; nothing of it may wait here."""
        self._flows.pop(client, None)

    def ahead(self, client: str) -> float:
        """About how much work would go before a new item of ``client``."""
        flow = self._flows.get(client) or _Flow(self._now)
        own = flow.cost
        due = max(flow.due, self._now) + own
        total = own
        for start, _, name in self._order:
            if start > due:
                break
            if name != client:
                other = self._flows[name]
                # Its last item before ours begins by then, and ends an item later.
                usual = other.cost / len(other.waiting)
                total += min(other.cost, due - start + usual)
        return total

    def _take(self, flow: _Flow[Q], item: Q, due: float) -> None:
        """Take ``item`` out of ``flow``, which is due at ``due`` from now on."""
        first = next(iter(flow.waiting))
        del self._order[bisect_left(self._order, (flow.due, first, item.client))]
        del flow.waiting[item.number]
        self._count -= 1
        self._cost = self._cost - item.cost if self._count else 0.0  # nothing of rounding is left
        flow.due = due
        flow.cost = flow.cost - item.cost if flow.waiting else 0.0
        if flow.waiting:
            insort(self._order, (due, next(iter(flow.waiting)), item.client))
