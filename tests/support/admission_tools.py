"""An admission with named clients, in an asyncio loop whose clock jumps instead of sleeping."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ChatTTS.config.request_fields import Priority
from ChatTTS.serving.queue.admission import Admission, AdmissionLimits
from ChatTTS.serving.queue.tickets import Ticket


class JumpingSelector(selectors.SelectSelector):
    """Advances the clock by the time that a loop would sleep."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("all tasks wait, and nothing will ever happen")
        self.now += timeout
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = JumpingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


async def spin() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


@dataclass
class Hall:
    """An admission with named tickets; each turn lasts until :meth:`end`."""

    admission: Admission
    came: set[str] = field(default_factory=set)
    begun: list[str] = field(default_factory=list)
    tickets: dict[str, Ticket] = field(default_factory=dict)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    ends: dict[str, asyncio.Event] = field(default_factory=dict)

    def ask(
        self,
        name: str,
        *,
        client: str = "",
        priority: Priority = Priority.INTERACTIVE,
        cost: float = 1.0,
        within: float | None = None,
    ) -> Ticket:
        deadline = None if within is None else self.admission.clock() + within
        ticket = self.admission.enter(
            client=client or name[0], priority=priority, cost=cost, deadline=deadline
        )
        self.tickets[name], self.ends[name] = ticket, asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._stay(name))
        return ticket

    def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        if name not in self.came:  # its task never takes a step, so it never enters its ticket
            self.tickets[name].release()

    async def _stay(self, name: str) -> None:
        self.came.add(name)
        async with self.tickets[name]:
            self.begun.append(name)
            await self.ends[name].wait()

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await spin()

    async def end_all(self) -> list[str]:
        """End the turns one after the other; return the names in order of their turns."""
        await spin()
        ended = 0
        while ended < len(self.begun):
            await self.end(self.begun[ended])
            ended += 1
        return self.begun

    def check_empty(self) -> None:
        admission = self.admission
        assert (admission.running, admission.waiting) == (0, 0)
        assert admission.snapshot().clients == 0
        assert admission._interactive.clients == admission._batch.clients == 0
        assert admission._interactive.cost == admission._batch.cost == 0
        assert not admission._timers
        assert not admission._not_aged


def play(
    scenario: Callable[[Hall], Awaitable[None]],
    *,
    running: int = 1,
    waiting: int = 1000,
    own: int = 1000,
    seconds: float = 1e6,
    ageing: float = 1e6,
    share: int | None = None,
) -> None:
    """Run a scenario, and check that nothing is left of it."""
    loop = JumpingLoop()
    try:
        limits = AdmissionLimits(running, waiting, own, seconds, ageing, share)
        hall = Hall(Admission(limits, clock=loop.time))

        async def all_of_it() -> None:
            await scenario(hall)
            await hall.end_all()
            await asyncio.gather(*hall.tasks.values(), return_exceptions=True)
            hall.check_empty()

        loop.run_until_complete(all_of_it())
    finally:
        for task in asyncio.all_tasks(loop):  # left by a test that failed
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


async def teach(hall: Hall, *, cost: float, seconds: float) -> None:
    """Finish one ticket, from which the admission learns its throughput."""
    hall.ask("teacher", cost=cost)
    await asyncio.sleep(seconds)
    await hall.end("teacher")
    hall.begun.clear()
