"""Limits of the admission: refusals, deadlines, and when clients are told to retry."""

import asyncio
from typing import Any

import pytest

from ChatTTS.config.request_fields import Priority
from ChatTTS.errors import ConfigError
from ChatTTS.serving.errors import DeadlineError, OverloadedError
from ChatTTS.serving.queue.admission import AdmissionLimits
from ChatTTS.serving.queue.tickets import Ticket
from ChatTTS.serving.settings import Limits, Settings

from ..support.admission_tools import Hall, play, spin, teach

INTERACTIVE, BATCH = Priority.INTERACTIVE, Priority.BATCH


def test_a_full_queue_refuses_at_once() -> None:
    async def scenario(hall: Hall) -> None:
        for name in "abc":
            hall.ask(name)
        with pytest.raises(OverloadedError, match="2 requests are already waiting") as caught:
            hall.ask("d")
        error = caught.value
        assert (error.status, error.grpc, error.code) == (
            503,
            "RESOURCE_EXHAUSTED",
            "server_overloaded",
        )
        assert error.retry_after == 1  # no throughput is known yet
        await hall.end("a")
        hall.ask("e")

    play(scenario, waiting=2)


def test_a_client_has_a_limit_of_its_own() -> None:
    async def scenario(hall: Hall) -> None:
        for n in range(3):
            hall.ask(f"a{n}")
        with pytest.raises(OverloadedError, match="you already have") as caught:
            hall.ask("a3")
        assert (caught.value.status, caught.value.grpc) == (429, "RESOURCE_EXHAUSTED")
        assert caught.value.code == "rate_limit_exceeded"
        hall.ask("b")
        await hall.end("a0")
        await hall.end("b")  # the ticket has its turn at once
        hall.ask("a4")

    play(scenario, own=2)


def test_a_client_leaves_places_to_others() -> None:
    async def scenario(hall: Hall) -> None:
        for n in range(5):
            hall.ask(f"a{n}")
        await spin()
        assert hall.begun == ["a0", "a1"]
        hall.ask("b")
        await spin()
        assert hall.begun == ["a0", "a1", "b"]
        hall.ask("c0")
        hall.ask("c1")
        await hall.end("b")
        assert hall.begun == ["a0", "a1", "b", "c0"]
        await hall.end_all()

    play(scenario, running=3, share=2)


def test_a_ticket_whose_work_is_not_taken_gives_way_to_others() -> None:
    async def scenario(hall: Hall) -> None:
        stalled, read = hall.ask("a"), hall.ask("b")
        preempted: list[str] = []
        for ticket, name in ((stalled, "a"), (read, "b")):

            def preempt(ticket: Ticket = ticket, name: str = name) -> None:
                preempted.append(name)
                ticket.release()

            ticket.allow_preemption(preempt)
            ticket.mark_taken(False)
        await asyncio.sleep(60)
        assert preempted == []  # no other one waits
        read.mark_taken(True)
        hall.ask("c")
        await spin()
        assert preempted == ["a"]
        assert hall.begun == ["a", "b", "c"]
        hall.ask("d")
        await asyncio.sleep(20)
        assert hall.begun == ["a", "b", "c"]  # "b" waits for work, and "c" is not preempted
        await hall.end_all()

    play(scenario, running=2)


def test_no_waiting_at_all_where_the_limit_is_none() -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("a")
        with pytest.raises(OverloadedError):
            hall.ask("b")

    play(scenario, waiting=0)


@pytest.mark.parametrize(
    "wrong", [{"max_running": 0}, {"max_waiting": -1}, {"ageing_seconds": float("nan")}]
)
def test_limits_are_checked(wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = dict.fromkeys(AdmissionLimits.__dataclass_fields__, 1)
    AdmissionLimits(**right)
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        AdmissionLimits(**right | wrong)


@pytest.mark.parametrize("cost", [0, -1, float("inf"), float("nan")])
def test_a_cost_is_above_nothing(cost: float) -> None:
    async def scenario(hall: Hall) -> None:
        with pytest.raises(ValueError, match="cost"):
            hall.ask("a", cost=cost)

    play(scenario)


# Time


@pytest.mark.parametrize(("within", "after"), [(4.0, 4), (20.0, 8), (None, 8)])
def test_waiting_ends_with_the_deadline_or_the_longest_wait(
    within: float | None, after: int
) -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("a")
        ticket = hall.ask("b", within=within)
        hall.ask("c", within=7.5)
        await asyncio.sleep(after - 0.1)
        assert ticket.is_waiting
        await asyncio.sleep(0.2)
        with pytest.raises(DeadlineError, match=f"within {after} s") as caught:
            await hall.tasks["b"]
        assert (caught.value.status, caught.value.grpc) == (503, "DEADLINE_EXCEEDED")
        assert caught.value.retry_after == 1
        assert ticket.waited == pytest.approx(after)
        assert await hall.end_all() == (["a", "c"] if after < 7 else ["a"])

    play(scenario, seconds=8)


def test_a_turn_ends_the_deadline() -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("a")
        hall.ask("b", within=5)
        await asyncio.sleep(4)
        await hall.end("a")
        await asyncio.sleep(100)
        assert hall.tickets["b"].has_turn
        assert hall.tickets["b"].waited == 4

    play(scenario)


def test_a_deadline_that_has_passed_takes_no_place() -> None:
    async def scenario(hall: Hall) -> None:
        with pytest.raises(DeadlineError, match="had already passed"):
            hall.ask("a", within=-1)
        hall.ask("b", within=0)

    play(scenario)


def test_a_request_that_would_wait_too_long_is_refused_at_once() -> None:
    async def scenario(hall: Hall) -> None:
        await teach(hall, cost=100, seconds=10)  # 10 a second
        hall.ask("a", cost=30)
        hall.ask("b", cost=50)
        await asyncio.sleep(1)
        # 2 s until a is done, then 5 s of b, which came first
        assert hall.admission.expected_wait("c", INTERACTIVE) == pytest.approx(7)
        hall.ask("c", within=7.1).release()
        with pytest.raises(OverloadedError, match="wait about 7 s") as caught:
            hall.ask("c", within=3.5)
        assert caught.value.retry_after == 4
        with pytest.raises(OverloadedError, match="longer than its limit"):
            hall.ask("c", priority=BATCH, within=3)

    play(scenario)


def test_the_longest_wait_refuses_at_once_too() -> None:
    async def scenario(hall: Hall) -> None:
        await teach(hall, cost=100, seconds=10)
        hall.ask("a", cost=20)
        for n in range(7):
            hall.ask(f"b{n}", cost=20)
        with pytest.raises(OverloadedError, match="longer than its limit"):
            hall.ask("b7")
        hall.ask("c")  # this client takes turns with b, so it does not wait for all of b

    play(scenario, seconds=15)


def test_more_places_make_the_wait_shorter() -> None:
    async def scenario(hall: Hall) -> None:
        await teach(hall, cost=100, seconds=10)
        assert hall.admission.snapshot().cost_per_second == 20
        assert hall.admission.expected_wait("d", INTERACTIVE) == 0
        hall.ask("a", cost=50)
        hall.ask("b", cost=20)
        hall.ask("d", cost=40)
        assert hall.admission.expected_wait("d", INTERACTIVE) == pytest.approx(2 + 40 / 20)

    play(scenario, running=2)


def test_a_turn_that_takes_longer_than_expected_may_end_at_once() -> None:
    async def scenario(hall: Hall) -> None:
        await teach(hall, cost=100, seconds=10)
        hall.ask("a", cost=10)
        hall.ask("b", cost=40)
        await asyncio.sleep(5)
        assert hall.admission.expected_wait("new", BATCH) == pytest.approx(40 / 10)

    play(scenario)


def test_batch_waits_for_the_interactive_work_too() -> None:
    async def scenario(hall: Hall) -> None:
        await teach(hall, cost=10, seconds=10)
        hall.ask("a", cost=1)
        for n in range(5):
            hall.ask(f"i{n}", cost=2)
        hall.ask("b", cost=3, priority=BATCH)
        assert hall.admission.expected_wait("new", BATCH) == pytest.approx(1 + 10 + 3)
        assert hall.admission.expected_wait("new", INTERACTIVE) == pytest.approx(1 + 2)

    play(scenario)


@pytest.mark.parametrize(
    ("cost", "seconds", "told"), [(100, 10, 5), (7, 1, 8), (1000, 0.1, 1), (1, 30, 60)]
)
def test_retry_after_follows_from_the_throughput(cost: float, seconds: float, told: int) -> None:
    async def scenario(hall: Hall) -> None:
        await teach(hall, cost=cost, seconds=seconds)
        hall.ask("a")
        hall.ask("b", cost=50)
        with pytest.raises(OverloadedError) as caught:
            hall.ask("c")
        assert caught.value.retry_after == told
        assert isinstance(caught.value.retry_after, int)

    play(scenario, waiting=1)


def test_the_throughput_forgets_and_counts_finished_requests_only() -> None:
    async def scenario(hall: Hall) -> None:
        await teach(hall, cost=10, seconds=10)
        for n in range(200):
            ticket = hall.admission.enter(client="x", priority=BATCH, cost=6, deadline=None)
            async with ticket:
                await asyncio.sleep(2)
            broken = hall.admission.enter(client="x", priority=BATCH, cost=1e6, deadline=None)
            with pytest.raises(KeyError):
                async with broken:
                    raise KeyError(n)
        assert hall.admission.snapshot().cost_per_second == pytest.approx(3, rel=0.01)

    play(scenario)


@pytest.mark.parametrize(
    ("keys", "limits", "most"),
    [
        ((), Limits(running=16), 16),
        (("sesame",), Limits(running=16), 12),
        (("sesame",), Limits(running=1), 1),
        ((), Limits(running=16, running_per_client=3), 3),
        (("sesame",), Limits(running=16, running_per_client=16), 16),
    ],
)
def test_keys_leave_places_to_other_clients(
    keys: tuple[str, ...], limits: Limits, most: int
) -> None:
    assert Settings(api_keys=keys, limits=limits).running_per_client == most
