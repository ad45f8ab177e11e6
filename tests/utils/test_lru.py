"""The bounded LRU cache."""

from __future__ import annotations

import pytest

from ChatTTS.utils.lru import LRU, CacheCounts


def test_what_was_used_last_stays() -> None:
    cache: LRU[str, int] = LRU(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert cache.get("b") is None
    assert (cache.get("a"), cache.get("c")) == (1, 3)
    assert cache.counts == CacheCounts(hits=3, misses=1, size=2, weight=2)


def test_weights_are_what_is_bounded() -> None:
    cache: LRU[str, bytes] = LRU(10, len)
    cache.put("a", b"12345")
    cache.put("a", b"123456")
    cache.put("b", b"1234")
    assert cache.counts.weight == 10
    cache.put("c", b"1")
    assert cache.get("a") is None
    cache.put("d", b"x" * 11)  # would evict all entries, and then itself
    assert cache.get("d") is None
    assert cache.get("b") == b"1234"
    cache.clear()
    assert cache.counts.weight == cache.counts.size == 0


def test_what_cannot_be_made_is_not_kept() -> None:
    cache: LRU[str, int] = LRU(2)

    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get_or_make("a", fail)
    assert cache.get_or_make("a", lambda: 5) == 5
    assert cache.get_or_make("a", fail) == 5


def test_without_room_nothing_is_kept() -> None:
    cache: LRU[str, int] = LRU(0)
    cache.put("a", 1)
    assert cache.get("a") is None
