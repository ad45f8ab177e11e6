"""The choice of a replica, without Ray."""

from __future__ import annotations

import random
from collections import Counter

from ChatTTS.serving.model import RefineJob, SpeechJob
from ChatTTS.serving.replicas.routing import SLACK, Affinity, sample_key

REPLICAS = ["a", "b", "c", "d"]


def affinity() -> Affinity[str]:
    return Affinity(draw=random.Random(1))


def test_two_replicas_are_drawn_for_a_request_without_a_sample() -> None:
    router = affinity()
    drawn: Counter[str] = Counter()
    for _ in range(2000):
        [pair] = router.ranks(None, REPLICAS, {})
        assert len(set(pair)) == 2
        drawn.update(pair)
    assert all(900 < drawn[name] < 1100 for name in REPLICAS)


def test_a_single_replica_and_none() -> None:
    assert affinity().ranks(None, ["a"], {}) == [["a"]]
    assert affinity().ranks("s", [], {}) == []


def test_a_sample_goes_where_it_was_last() -> None:
    router = affinity()
    assert len(router.ranks("s", REPLICAS, {})) == 1
    router.routed("s", "c")
    for _ in range(20):
        first, second = router.ranks("s", REPLICAS, {"c": 2})
        assert first == ["c"]
        assert len(second) == 2
    assert len(router.ranks("other", REPLICAS, {})) == 1


def test_the_load_of_the_preferred_replica_is_bounded() -> None:
    router = affinity()
    router.routed("s", "c")
    busy = {"a": 3, "b": 9, "c": 3 + SLACK, "d": 9}
    assert router.ranks("s", REPLICAS, busy)[0] == ["c"]
    assert len(router.ranks("s", REPLICAS, busy | {"c": 4 + SLACK})) == 1


def test_a_replica_that_is_gone_is_not_preferred() -> None:
    router = affinity()
    router.routed("s", "c")
    [pair] = router.ranks("s", ["a", "b"], {})
    assert "c" not in pair


def test_only_samples_are_remembered() -> None:
    job = SpeechJob("a text", {"spk_emb": "x"}, {}, 1)
    assert sample_key(job) is None
    assert sample_key(RefineJob("a text", {})) is None
    one, two = (sample_key(SpeechJob("t", {"spk_smp": s}, {}, 1)) for s in ("x", "y"))
    assert one is not None
    assert one != two
