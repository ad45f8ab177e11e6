"""A queue in which clients take turns, however many items each of them has waiting."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Queued(Protocol):
    """An item of the queue.

    Attributes:
        client: name of its client.
        number: its position in the order of arrival; unique.
        cost: its amount of work, above 0.
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
    """The items of one client, and the virtual time at which the first of them is due."""

    due: float
    waiting: OrderedDict[int, Q] = field(default_factory=OrderedDict)
    cost: float = 0.0


class FairQueue(Generic[Q]):
    """Start-time fair queueing over clients; the items of one client leave in order of arrival.

    Each client has a virtual time at which its next item is due. An item that leaves advances it by
    the item's cost. The client that is due first goes first; if several are due at one time, the
    one whose item arrived first. A new client is due at the queue's own virtual time, so a client
    cannot save up turns by staying away. The queue's time advances with each item by the item's
    cost divided among the clients. So the wait of a client is bounded, even if new clients keep
    coming.

    The virtual time of a client is kept until :meth:`forget`.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._count = 0
        self._cost = 0.0
        self._flows: dict[str, _Flow[Q]] = {}
        # For each client with waiting items: when it is due, its first item's number, its name.
        self._order: list[tuple[float, int, str]] = []

    def __len__(self) -> int:
        return self._count

    @property
    def cost(self) -> float:
        """Total cost of the waiting items."""
        return self._cost

    @property
    def clients(self) -> int:
        """Number of clients whose virtual times are kept."""
        return len(self._flows)

    def push(self, item: Q) -> None:
        """Append ``item`` to the items of its client."""
        flow = self._flows.setdefault(item.client, _Flow(self._now))
        if not flow.waiting:
            flow.due = max(flow.due, self._now)
            insort(self._order, (flow.due, item.number, item.client))
        flow.waiting[item.number] = item
        flow.cost += item.cost
        self._cost += item.cost
        self._count += 1

    def pop(self, may_go: Callable[[str], bool] = lambda client: True) -> Q:
        """Remove and return the next item of the clients that may go.

        Raises:
            IndexError: they have none.
        """
        first = next((each for each in self._order if may_go(each[2])), None)
        if first is None:
            raise IndexError("no client that may go has an item")
        due, number, client = first
        flow = self._flows[client]
        item = flow.waiting[number]
        self._now = max(self._now, due) + item.cost / (len(self._order) + 1)
        self._take(flow, item, due + item.cost)
        return item

    def remove(self, item: Q) -> None:
        """Remove ``item`` without advancing the virtual time of its client.

        Raises:
            KeyError: it is not in the queue.
        """
        flow = self._flows[item.client]
        flow.waiting[item.number]  # raises before anything changes
        self._take(flow, item, flow.due)

    def forget(self, client: str) -> None:
        """Forget the virtual time of ``client``, which must have no items in the queue."""
        self._flows.pop(client, None)

    def ahead(self, client: str) -> float:
        """Return an estimate of the work that would go before a new item of ``client``."""
        flow = self._flows.get(client) or _Flow(self._now)
        own = flow.cost
        due = max(flow.due, self._now) + own
        total = own
        for start, _, name in self._order:
            if start > due:
                break
            if name != client:
                other = self._flows[name]
                # Its last item before the new one starts by ``due``, and ends one item later.
                usual = other.cost / len(other.waiting)
                total += min(other.cost, due - start + usual)
        return total

    def _take(self, flow: _Flow[Q], item: Q, due: float) -> None:
        """Remove ``item`` from ``flow``, whose next item is then due at ``due``."""
        first = next(iter(flow.waiting))
        del self._order[bisect_left(self._order, (flow.due, first, item.client))]
        del flow.waiting[item.number]
        self._count -= 1
        self._cost = self._cost - item.cost if self._count else 0.0  # no rounding errors stay
        flow.due = due
        flow.cost = flow.cost - item.cost if flow.waiting else 0.0
        if flow.waiting:
            insort(self._order, (due, next(iter(flow.waiting)), item.client))
