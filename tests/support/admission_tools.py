"""An admission with people in it, in a loop whose clock jumps, so that nothing sleeps."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ChatTTS.serving.admission import Admission, AdmissionLimits
from ChatTTS.serving.requests import Priority
from ChatTTS.serving.tickets import Ticket


class JumpingSelector(selectors.SelectSelector):
    """Where a loop would sleep, the clock goes on."""

    now = 0.0

    def select(self, timeout=None):
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        self.now += timeout
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = JumpingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


async def spin() -> None:
    """Let every task do what it can do now."""
    for _ in range(10):
        await asyncio.sleep(0)


@dataclass
class Hall:
    """An admission with people in it; each has a name, and ends when he is told."""

    admission: Admission
    came: set[str] = field(default_factory=set)
    begun: list[str] = field(default_factory=list)
    tickets: dict[str, Ticket] = field(default_factory=dict)
    tasks: dict[str, asyncio.Task] = field(default_factory=dict)
    ends: dict[str, asyncio.Event] = field(default_factory=dict)

    def ask(
        self, name: str, *, client: str = "", priority=Priority.INTERACTIVE, cost=1.0, within=None
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
        """One after the other as they begin; gives who began, in order."""
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
    running=1,
    waiting=1000,
    own=1000,
    seconds=1e6,
    ageing=1e6,
) -> None:
    """Run a scenario, and see that nothing stays behind."""
    loop = JumpingLoop()
    try:
        limits = AdmissionLimits(running, waiting, own, seconds, ageing)
        hall = Hall(Admission(limits, clock=loop.time))

        async def all_of_it() -> None:
            await scenario(hall)
            await hall.end_all()
            await asyncio.gather(*hall.tasks.values(), return_exceptions=True)
            hall.check_empty()

        loop.run_until_complete(all_of_it())
    finally:
        for task in asyncio.all_tasks(loop):  # of a test that failed
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


async def teach(hall: Hall, *, cost: float, seconds: float) -> None:
    """Let one ticket show how much gets done."""
    hall.ask("teacher", cost=cost)
    await asyncio.sleep(seconds)
    await hall.end("teacher")
    hall.begun.clear()
