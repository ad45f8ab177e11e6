"""Admission: the order in which requests get their turn; released and cancelled tickets."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ChatTTS.config.request_fields import Priority
from ChatTTS.serving.errors import OverloadedError, UnavailableError
from ChatTTS.serving.queue.fair_queue import FairQueue

from ..support.admission_tools import Hall, JumpingLoop, play, spin

BATCH = Priority.BATCH


def test_free_places_are_given_at_once_and_then_in_order_of_arrival() -> None:
    async def scenario(hall: Hall) -> None:
        for name in "abcd":
            hall.ask(name)
        assert [t.has_turn for t in hall.tickets.values()] == [True, True, False, False]
        assert (hall.admission.running, hall.admission.waiting) == (2, 2)
        await spin()
        await asyncio.sleep(3)
        await hall.end("b")
        assert hall.begun == ["a", "b", "c"]
        assert (hall.tickets["a"].waited, hall.tickets["c"].waited) == (0, 3)
        await hall.end_all()
        assert hall.begun == ["a", "b", "c", "d"]

    play(scenario, running=2)


def test_interactive_goes_before_batch() -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("first")
        hall.ask("b1", priority=BATCH)
        hall.ask("i1")
        hall.ask("b2", priority=BATCH)
        hall.ask("i2", client="another")
        assert await hall.end_all() == ["first", "i1", "i2", "b1", "b2"]

    play(scenario)


@pytest.mark.parametrize(("age", "order"), [(9, ["x", "i", "b"]), (10, ["x", "b", "i"])])
@pytest.mark.parametrize("since", ["before it came", "while both waited"])
def test_batch_that_waited_long_counts_as_interactive(
    age: float, order: list[str], since: str
) -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("x")
        hall.ask("b", priority=BATCH)
        await asyncio.sleep(age if since == "before it came" else 5)
        hall.ask("i")
        await asyncio.sleep(0 if since == "before it came" else age - 5)
        assert await hall.end_all() == order

    play(scenario, ageing=10)


def test_a_batch_that_waited_long_goes_before_later_requests_of_its_client() -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("x")
        hall.ask("b", priority=BATCH, client="one")
        await asyncio.sleep(10)
        hall.ask("i", client="one")
        assert await hall.end_all() == ["x", "b", "i"]

    play(scenario, ageing=10)


def test_endless_interactive_work_does_not_keep_out_batch() -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("i0", client="one")
        hall.ask("b", priority=BATCH)
        for n in range(1, 100):
            hall.ask(f"i{n}", client="one")
            await asyncio.sleep(1)
            await hall.end(f"i{n - 1}")
            if "b" in hall.begun:
                break
        assert 10 <= hall.tickets["b"].waited <= 13

    play(scenario, ageing=10)


def test_a_client_with_a_hundred_does_not_keep_out_one_with_one() -> None:
    async def scenario(hall: Hall) -> None:
        for n in range(100):
            hall.ask(f"h{n}", client="h")
        hall.ask("one", client="o")
        order = await hall.end_all()
        assert order.index("one") == 1
        order.remove("one")
        assert order == [f"h{n}" for n in range(100)]

    play(scenario)


def test_clients_share_by_cost() -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("x")
        for n in range(60):
            hall.ask(f"l{n}", client="light", cost=10)
        for n in range(20):
            hall.ask(f"h{n}", client="heavy", cost=60)
        order = (await hall.end_all())[1:]
        light = sum(name.startswith("l") for name in order[:35])
        assert light == pytest.approx(30, abs=1)  # of 35: they cost as much as the 5 heavy ones

    play(scenario)


def test_shares_stay_fair_over_three_classes_of_clients_in_any_prefix() -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("x")
        for name in "abc":
            for n in range(30):
                hall.ask(f"{name}{n}")
        order = (await hall.end_all())[1:]
        for end in range(len(order)):
            counts = [sum(name[0] == c for name in order[:end]) for c in "abc"]
            assert max(counts) - min(counts) <= 1

    play(scenario)


def test_endless_new_clients_do_not_keep_out_a_client_that_was_served_much() -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("old1", client="old", cost=50)
        hall.ask("old2", client="old", cost=50)
        for n in range(300):
            hall.ask(f"n{n}", client=f"n{n}")
            await hall.end(hall.begun[-1] if hall.begun else "old1")
            if "old2" in hall.begun:
                break
        assert "old2" in hall.begun
        assert 10 < len(hall.begun) < 150

    play(scenario)


# Requests that leave the queue


def test_cancelling_leaves_the_queue() -> None:
    async def scenario(hall: Hall) -> None:
        for name in "abc":
            hall.ask(name)
        await spin()
        hall.cancel("b")
        await spin()
        assert hall.tasks["b"].cancelled()
        assert hall.admission.waiting == 1
        assert await hall.end_all() == ["a", "c"]

    play(scenario)


@pytest.mark.parametrize("cancel_first", [True, False])
def test_a_ticket_cancelled_at_the_moment_of_its_turn_passes_the_turn_on(
    cancel_first: bool,
) -> None:
    async def scenario(hall: Hall) -> None:
        for name in "abc":
            hall.ask(name)
        await spin()
        steps: list[Callable[[], None]] = [lambda: hall.cancel("b"), hall.tickets["a"].release]
        for step in steps if cancel_first else reversed(steps):
            step()
        assert hall.tickets["b"].has_turn or cancel_first
        await spin()
        assert hall.tasks["b"].cancelled()
        assert hall.tickets["c"].has_turn
        assert hall.admission.running == 1
        assert await hall.end_all() == ["a", "c"]

    play(scenario)


def test_a_ticket_can_be_cancelled_before_it_waits_or_while_it_runs() -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("a")
        await spin()
        hall.ask("b")
        ticket = hall.admission.enter(client="c", priority=BATCH, cost=1, deadline=None)
        hall.cancel("a")
        await spin()
        assert hall.begun == ["a", "b"]
        ticket.release()
        with pytest.raises(UnavailableError, match="withdrawn"):
            async with ticket:
                pytest.fail("its turn never came")

    play(scenario)


@pytest.mark.parametrize("had_turn", [True, False])
def test_a_released_ticket_has_no_turn_even_if_its_turn_had_come(had_turn: bool) -> None:
    async def scenario(hall: Hall) -> None:
        if not had_turn:
            hall.ask("a")
            await spin()
        ticket = hall.ask("b")
        assert ticket.has_turn == had_turn
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        loop.selector.now += 1
        ticket.release()
        ticket.release(finished=True)
        with pytest.raises(UnavailableError, match="withdrawn"):
            await hall.tasks["b"]
        assert hall.admission.snapshot().cost_per_second is None

    play(scenario)


def test_a_ticket_is_good_once() -> None:
    async def scenario(hall: Hall) -> None:
        ticket = hall.ask("a")
        await hall.end("a")
        with pytest.raises(RuntimeError, match="one turn"):
            async with ticket:
                pytest.fail("a second turn")

    play(scenario)


def test_draining_admits_no_request_and_serves_those_that_wait() -> None:
    async def scenario(hall: Hall) -> None:
        for name in "ab":
            hall.ask(name)
        hall.admission.drain()
        assert hall.admission.draining
        with pytest.raises(OverloadedError, match="shutting down") as caught:
            hall.ask("c")
        assert caught.value.draining
        assert (caught.value.status, caught.value.grpc) == (503, "UNAVAILABLE")
        assert await hall.end_all() == ["a", "b"]

    play(scenario)


def test_aborting_ends_all_waiting_and_no_running_request() -> None:
    async def scenario(hall: Hall) -> None:
        for name in "abc":
            hall.ask(name, priority=BATCH)
        await spin()
        assert hall.admission.abort_waiting("the engine stopped") == 2
        for name in "bc":
            with pytest.raises(UnavailableError, match="the engine stopped"):
                await hall.tasks[name]
        assert hall.tickets["a"].has_turn
        hall.ask("d")
        assert await hall.end_all() == ["a", "d"]

    play(scenario)


def test_snapshot() -> None:
    async def scenario(hall: Hall) -> None:
        hall.ask("a")
        hall.ask("b", priority=BATCH)
        await asyncio.sleep(2)
        hall.ask("c")
        shot = hall.admission.snapshot()
        assert (shot.running, shot.waiting, shot.clients) == (1, 2, 3)
        assert (shot.waiting_interactive, shot.waiting_batch) == (1, 1)
        assert (shot.longest_wait, shot.cost_per_second, hall.admission.draining) == (
            2,
            None,
            False,
        )

    play(scenario)


# Any sequence of events

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("ask"),
            st.sampled_from("abc"),
            st.sampled_from(Priority),
            st.sampled_from([1.0, 7.0, 40.0]),
            st.sampled_from([None, None, 0.0, 5.0]),
        ),
        st.tuples(st.sampled_from(["end", "cancel", "leave"]), st.integers(0, 30)),
        st.tuples(st.just("pass"), st.sampled_from([0.0, 0.0, 1.0, 6.0])),
    ),
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(STEPS, st.integers(1, 3), st.integers(0, 5))
def test_after_any_history_limits_hold_and_every_request_ends(
    steps: list[tuple[Any, ...]], running: int, waiting: int
) -> None:
    longest = 9.0

    async def scenario(hall: Hall) -> None:
        admission, asked = hall.admission, 0
        for step, *rest in steps:
            if step == "ask":
                client, priority, cost, within = rest
                try:
                    hall.ask(f"{asked}", client=client, priority=priority, cost=cost, within=within)
                    asked += 1
                except OverloadedError:
                    assert admission.running == running  # a free place is never refused
            elif step == "pass":
                await asyncio.sleep(rest[0])
            else:
                here = [n for n, t in hall.tickets.items() if t.has_turn or t.is_waiting]
                if here:
                    name = here[rest[0] % len(here)]
                    if step == "end":
                        hall.ends[name].set()
                    elif step == "cancel":
                        hall.cancel(name)
                    else:
                        hall.tickets[name].release()
            check(hall)

    def check(hall: Hall) -> None:
        admission, tickets = hall.admission, hall.tickets.values()
        turns = [t for t in tickets if t.has_turn]
        waits = [t for t in tickets if t.is_waiting]
        assert (admission.running, admission.waiting) == (len(turns), len(waits))
        assert len(turns) <= running
        assert len(waits) <= waiting
        assert not waits or len(turns) == running  # no place is free while a ticket waits
        assert all(t.waited <= longest + 1e-6 for t in waits)
        for ticket in waits:  # in order within a client and class
            for other in turns:
                if (other.client, other.priority) == (ticket.client, ticket.priority):
                    assert other.number < ticket.number

    play(scenario, running=running, waiting=waiting, seconds=longest, ageing=3)


@dataclass(frozen=True)
class Item:
    client: str
    number: int
    cost: float


def fill(queue: FairQueue[Item], *asked: tuple[str, float], first: int = 0) -> None:
    for number, (client, cost) in enumerate(asked, start=first):
        queue.push(Item(client, number, cost))


def queue_of(*asked: tuple[str, float]) -> FairQueue[Item]:
    queue: FairQueue[Item] = FairQueue()
    fill(queue, *asked)
    return queue


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["push", "push", "pop", "remove"]), st.integers(0, 3)),
        max_size=80,
    )
)
def test_a_fair_queue_counts_items_and_costs(steps: list[tuple[str, int]]) -> None:
    queue: FairQueue[Item] = FairQueue()
    inside: list[Item] = []
    for number, (step, which) in enumerate(steps):
        if step == "push":
            inside.append(Item("abcd"[which], number, 0.1 * (which + 1)))
            queue.push(inside[-1])
        elif inside:
            item = queue.pop() if step == "pop" else inside[which % len(inside)]
            if step == "remove":
                queue.remove(item)
            else:
                assert item == next(i for i in inside if i.client == item.client)
            inside.remove(item)
        assert len(queue) == len(inside)
        assert queue.cost == pytest.approx(sum(i.cost for i in inside))
        for client in "abcd":
            own = sum(i.cost for i in inside if i.client == client)
            assert own - 1e-9 <= queue.ahead(client) <= queue.cost + 1e-9


def test_an_idle_client_saves_up_no_share() -> None:
    queue = queue_of(("away", 5))
    queue.pop()  # so that the queue knows the client
    fill(queue, *[("busy", 5)] * 20, first=1)
    for _ in range(12):
        queue.pop()
    fill(queue, *[("away", 5)] * 8, first=21)
    assert 3 <= [queue.pop().client for _ in range(8)].count("away") <= 5


def test_a_removed_item_costs_its_client_nothing() -> None:
    queue = queue_of(("a", 1), ("a", 100), ("b", 10), ("b", 10), ("a", 1))
    queue.pop()
    queue.remove(Item("a", 1, 100))
    assert [queue.pop().client for _ in range(3)] == ["b", "a", "b"]


def test_the_cost_ahead_leaves_out_items_that_are_due_later() -> None:
    queue = queue_of(("old", 100), ("old", 10), ("old", 10))
    assert queue.ahead("new") == pytest.approx(40)  # one item of about that size: both are due now
    queue.pop()
    assert queue.ahead("new") == 0
    assert queue.ahead("old") == 20


def test_an_empty_fair_queue_gives_nothing() -> None:
    queue: FairQueue[Item] = FairQueue()
    with pytest.raises(IndexError):
        queue.pop()
    with pytest.raises(KeyError):
        queue.remove(Item("a", 0, 1.0))
