"""The choice of a replica, without Ray."""

from __future__ import annotations

import random
from collections import Counter

from ChatTTS.serving.replicas.routing import SLACK, Routes, sample_key
from ChatTTS.serving.requests.jobs import RefineJob, SpeechJob

REPLICAS = ["a", "b", "c", "d"]


class Clock:
    """A clock that tests move."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def routes(clock: Clock | None = None) -> Routes[str]:
    return Routes(draw=random.Random(1), clock=clock or Clock())


def test_two_replicas_are_drawn_for_a_request_without_a_sample() -> None:
    router = routes()
    drawn: Counter[str] = Counter()
    for _ in range(2000):
        pair = router.choose("one", None, REPLICAS, {})
        assert len(set(pair)) == len(pair) == 2
        drawn.update(pair)
    assert all(900 < drawn[name] < 1100 for name in REPLICAS)


def test_a_single_replica_and_none() -> None:
    for router in (routes(), Routes[str]()):
        assert router.choose("1", None, ["a"], {}) == ["a"]
    assert routes().choose("1", "s", [], {}) == []


def test_requests_that_come_together_are_spread() -> None:
    router = routes()
    chosen = Counter(router.choose(str(n), None, ["a", "b"], {})[0] for n in range(50))
    assert chosen == {"a": 25, "b": 25}


def test_what_replicas_tell_counts_too() -> None:
    router = routes()
    assert router.choose("1", None, ["a", "b"], {"a": 3})[0] == "b"
    router.routed("1", None, "b")
    assert router.choose("2", None, ["a", "b"], {"a": 1, "b": 1})[0] in "ab"
    for number in range(3, 6):
        router.routed(str(number), None, "b")
    assert router.choose("6", None, ["a", "b"], {"a": 2, "b": 1})[0] == "a"


def test_ended_requests_do_not_count_and_lost_choices_count_a_second() -> None:
    clock = Clock()
    router = routes(clock)
    router.routed("1", None, "a")
    assert router.choose("2", None, ["a", "b"], {})[0] == "b"
    router.routed("3", None, "b")
    router.routed("4", None, "b")
    clock.now = 1.5  # request 2 was never sent
    assert router.choose("5", None, ["a", "b"], {})[0] == "a"
    for request in "1345":
        router.done(request)
    assert {router.choose("6", None, ["a", "b"], {})[0] for _ in range(20)} == {"a", "b"}


def test_a_sample_goes_where_it_was_last() -> None:
    router = routes()
    router.routed("1", "s", "c")
    for _ in range(20):
        first, *others = router.choose("2", "s", REPLICAS, {"c": 2})
        assert first == "c"
        assert others
        assert "c" not in others
    drawn = {router.choose("3", "another sample", REPLICAS, {})[0] for _ in range(50)}
    assert drawn == {"a", "b", "d"}  # which have no request yet


def test_the_load_of_the_preferred_replica_is_bounded() -> None:
    router = routes()
    router.routed("1", "s", "c")
    busy = {"a": 3, "b": 9, "c": 3 + SLACK, "d": 9}
    assert router.choose("2", "s", REPLICAS, busy)[0] == "c"
    busy["c"] += 1
    assert {router.choose("2", "s", ["a", "c"], busy)[0] for _ in range(20)} == {"a"}


def test_a_replica_that_is_gone_is_not_preferred() -> None:
    router = routes()
    router.routed("1", "s", "c")
    assert "c" not in router.choose("2", "s", ["a", "b"], {})


def test_only_samples_are_remembered() -> None:
    job = SpeechJob("a text", {"spk_emb": "x"}, {}, 1)
    assert sample_key(job) is None
    assert sample_key(RefineJob("a text", {})) is None
    one, two = (sample_key(SpeechJob("t", {"spk_smp": s}, {}, 1)) for s in ("x", "y"))
    assert one is not None
    assert one != two
