"""Blocks: held, shared, copied, moved and given back, and never lost."""

from __future__ import annotations

from typing import Any

import pytest

from ChatTTS.model.velocity import block_manager
from ChatTTS.model.velocity.block_manager import BlockSpaceManager
from ChatTTS.model.velocity.block_pool import BlockPool
from ChatTTS.model.velocity.configs import CacheConfig
from ChatTTS.model.velocity.plan import BlockMove, MoveKind
from ChatTTS.model.velocity.prefix_cache import BlockKey, CachedBlock
from ChatTTS.model.velocity.sequence import Sequence

from ...support.velocity_tools import Requests, check_pool, make_prompt

COPY, OUT, IN = MoveKind.COPY, MoveKind.OUT, MoveKind.IN


@pytest.fixture
def requests() -> Requests:
    return Requests()


def manager(num_blocks: int, num_host_blocks: int = 0, caching: bool = True) -> BlockSpaceManager:
    """Make a manager with blocks of four positions."""
    return BlockSpaceManager(
        CacheConfig(
            block_size=4,
            num_blocks=num_blocks,
            num_host_blocks=num_host_blocks,
            enable_prefix_caching=caching,
        )
    )


def begin(blocks: BlockSpaceManager, seq: Sequence) -> Sequence:
    """Give a sequence blocks and compute all of it."""
    assert blocks.allocate(seq, 0)
    blocks.commit(seq, len(seq))
    return seq


def state(blocks: BlockSpaceManager, *sequences: Sequence) -> Any:
    """The state that a failure must leave unchanged."""
    pools = [
        (
            list(p.references),
            list(p.cached),
            (list(p._freed), p.num_touched),
            list(p._evictable),
            list(p._unshared),
            list(p._short_lived),
        )
        for p in (blocks.device, blocks.host)
    ]
    books = [
        (list(s.block_table), list(s.host_table), list(s.cached), s.computed) for s in sequences
    ]
    return pools, books, list(blocks._moves), dict(blocks.prefixes._known), blocks.hit_positions


# ---------------------------------------------------------------- a pool


def test_the_block_freed_last_is_taken_first_and_the_untouched_last() -> None:
    pool = BlockPool(5)
    taken = [pool.allocate()[0] for _ in range(3)]
    for block in taken:
        pool.release(block)
    assert [pool.allocate()[0] for _ in range(5)] == [*reversed(taken), 3, 4]
    with pytest.raises(IndexError, match="no block"):
        pool.allocate()


def test_prompts_that_never_come_again_do_not_touch_the_whole_pool(
    requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_manager, "_MAX_UNSHARED", 6)
    blocks = manager(200)
    voice = make_prompt(range(9))
    for _ in range(2):  # the second time shares the blocks of the first
        blocks.free(begin(blocks, requests.make(voice).sequences[0]))
    hits = blocks.hit_positions
    assert hits == 8
    for _ in range(40):
        blocks.free(begin(blocks, requests.make(9).sequences[0]))
        check_pool(blocks.device, [])
    assert blocks.device.num_touched <= 12
    # The prompt that came again is still there.
    begin(blocks, requests.make(voice).sequences[0])
    assert blocks.hit_positions == 2 * hits


def test_blocks_count_as_touched_from_their_first_use_on() -> None:
    pool = BlockPool(5)
    assert pool.num_touched == 0
    for _ in range(3):
        pool.release(pool.allocate()[0])
    assert pool.num_touched == 1
    for _ in range(2):
        pool.allocate()
    assert pool.num_touched == 2


@pytest.mark.parametrize("caching", [True, False])
def test_requests_one_after_another_take_the_blocks_of_those_before(
    requests: Requests, caching: bool
) -> None:
    """Only the blocks of the prompts stay in the prefix cache."""
    blocks = manager(1000, caching=caching)
    rounds, prompt, drawn = 20, 9, 31
    for number in range(rounds):
        seq = begin(blocks, requests.make(prompt).sequences[0])
        for _ in range(drawn):
            seq.ids.append((number, 1, 2, 3))
            assert blocks.extend(seq)
            blocks.commit(seq, len(seq))
        blocks.free(seq, keep=prompt)
    kept = (rounds * (prompt // 4)) if caching else 0
    most = -(-(prompt + drawn) // 4)
    assert kept <= blocks.device.num_cached < kept + most
    assert blocks.device.num_touched <= kept + most
    check_pool(blocks.device, [])


def test_a_double_free_raises() -> None:
    pool = BlockPool(2)
    block, _ = pool.allocate()
    pool.hold(block)
    pool.release(block)
    pool.release(block)
    with pytest.raises(RuntimeError, match="freed twice"):
        pool.release(block)


def test_a_pool_that_grows_keeps_its_blocks() -> None:
    pool = BlockPool(2)
    assert [pool.allocate()[0] for _ in range(2)] == [0, 1]
    pool.release(0)
    pool.grow(4)
    assert (pool.num_free, pool.num_used) == (3, 1)
    assert [pool.allocate()[0] for _ in range(3)] == [0, 2, 3]
    for block in range(4):
        pool.release(block)
    with pytest.raises(RuntimeError, match="freed twice"):
        pool.release(3)
    with pytest.raises(IndexError, match="no block"):
        [pool.allocate() for _ in range(5)]


def test_every_block_is_free_cached_or_used() -> None:
    pool = BlockPool(4)
    used, cached, forgotten = (pool.allocate()[0] for _ in range(3))
    known = CachedBlock(0, BlockKey(b"", ()))
    for block in (cached, forgotten):
        pool.cached[block] = known
        pool.release(block)
    pool.forget(forgotten)
    assert (pool.num_free, pool.num_cached, pool.num_used) == (2, 1, 1)
    assert pool.available == 3
    check_pool(pool, [[used]])


def test_cached_blocks_are_evicted_oldest_first_and_only_when_none_is_free() -> None:
    pool = BlockPool(3)
    known = [CachedBlock(i, BlockKey(b"", ())) for i in range(2)]
    for i, block in enumerate(pool.allocate()[0] for _ in range(2)):
        pool.cached[block] = known[i]
    pool.release(1)
    pool.release(0)
    pool.hold(1)  # touched: now it is the more recently used one
    pool.release(1)
    assert [pool.allocate() for _ in range(3)] == [(2, None), (0, known[0]), (1, known[1])]
    assert pool.cached == [None] * 3


# ---------------------------------------------------------------- a sequence's blocks


def test_blocks_for_all_positions_and_one_more_when_they_are_full(requests: Requests) -> None:
    blocks = manager(8)
    seq = begin(blocks, requests.make(7).sequences[0])
    assert len(seq.block_table) == 2
    for length, count in ((8, 2), (9, 3), (12, 3), (13, 4)):
        seq.ids.extend([(0, 0, 0, 0)] * (length - len(seq)))
        assert blocks.extend(seq)
        assert len(seq.block_table) == count
        blocks.commit(seq, length)
    blocks.free(seq)
    assert blocks.device.num_used == 0
    assert (seq.block_table, seq.cached, seq.computed) == ([], [], 0)


def test_blocks_must_be_counted_before() -> None:
    with pytest.raises(ValueError, match="num_blocks"):
        BlockSpaceManager(CacheConfig())


def test_a_failed_allocation_changes_nothing(requests: Requests) -> None:
    blocks = manager(6)
    first = begin(blocks, requests.make(16).sequences[0])
    second = requests.make(first.group.request.prompt, seed=1).sequences[0]
    second.ids.extend([(0, 0, 0, 0)] * 9)  # 25 positions: 3 blocks are hits, 4 are wanted
    before = state(blocks, first, second)
    assert not blocks.allocate(second, 0)
    assert state(blocks, first, second) == before
    assert second.wanted == 3  # the first has four, all of which it would share
    del second.ids[4:]  # 20 positions: just what is there
    assert not blocks.allocate(second, 2)
    assert state(blocks, first, second) == before
    assert blocks.allocate(second, 1)
    assert second.wanted == 0


def test_a_failed_extension_changes_nothing(requests: Requests) -> None:
    blocks = manager(2)
    seq = begin(blocks, requests.make(8).sequences[0])
    seq.ids.append((0, 0, 0, 0))
    before = state(blocks, seq)
    assert not blocks.extend(seq)
    assert state(blocks, seq) == before


# ---------------------------------------------------------------- samples of one prompt


@pytest.mark.parametrize("caching", [True, False])
def test_a_fork_shares_the_prompt_and_copies_the_block_it_writes_into(
    requests: Requests, caching: bool
) -> None:
    blocks = manager(8, caching=caching)
    donor, follower = requests.make(11, n=2).sequences
    begin(blocks, donor)
    donor.ids += [(0, 0, 0, 0)] * 2
    assert blocks.extend(donor)
    blocks.commit(donor, 13)  # the block in which the samples diverge is full by now, and cached
    assert blocks.fork(donor, follower, 0)
    assert follower.computed == 10
    assert follower.block_table[:2] == donor.block_table[:2]
    own = follower.block_table[2]
    assert own not in donor.block_table
    assert blocks.take_moves() == (BlockMove(COPY, donor.block_table[2], own),)
    assert blocks.device.references[donor.block_table[2]] == 1
    assert blocks.device.cached[own] is None
    assert blocks.copies == 1
    check_pool(blocks.device, [donor.block_table, follower.block_table])


def test_nothing_is_copied_where_samples_part_between_blocks(requests: Requests) -> None:
    blocks = manager(8)
    donor, follower = requests.make(9, n=2).sequences
    begin(blocks, donor)
    assert blocks.fork(donor, follower, 0)
    assert follower.block_table[:2] == donor.block_table[:2]
    assert follower.block_table[2] != donor.block_table[2]
    assert blocks.take_moves() == ()


def test_a_failed_fork_changes_nothing(requests: Requests) -> None:
    blocks = manager(4)
    donor, follower = requests.make(11, n=2).sequences
    begin(blocks, donor)
    before = state(blocks, donor, follower)
    assert not blocks.fork(donor, follower, 1)
    assert state(blocks, donor, follower) == before
    assert follower.wanted == 1
    assert blocks.fork(donor, follower, 0)


# ---------------------------------------------------------------- to the host and back


@pytest.mark.parametrize("caching", [True, False])
def test_out_and_in_again(requests: Requests, caching: bool) -> None:
    blocks = manager(4, 3, caching)
    seq = begin(blocks, requests.make(10).sequences[0])
    table = list(seq.block_table)
    assert blocks.swap_out(seq)
    assert blocks.device.num_used == 0
    assert seq.computed == 10
    host = list(seq.host_table)
    moves = tuple(BlockMove(OUT, *pair) for pair in zip(table, host, strict=True))
    assert blocks.take_moves() == moves

    other = begin(blocks, requests.make(16).sequences[0])  # takes the whole device
    before = state(blocks, seq)
    assert not blocks.swap_in(seq, 0)
    assert state(blocks, seq) == before
    blocks.free(other)
    blocks.take_moves()

    assert blocks.swap_in(seq, 0)
    moves = tuple(BlockMove(IN, *pair) for pair in zip(host, seq.block_table, strict=True))
    assert blocks.take_moves() == moves
    assert blocks.host.num_used == 0
    blocks.free(seq)
    check_pool(blocks.device, [])
    check_pool(blocks.host, [])


def test_only_what_is_computed_goes_out(requests: Requests) -> None:
    blocks = manager(4, 4)
    seq = requests.make(16).sequences[0]
    assert blocks.allocate(seq, 0)
    blocks.commit(seq, 5)
    assert blocks.swap_out(seq)
    assert len(seq.host_table) == 2
    assert blocks.device.available == 4
    assert blocks.swap_in(seq, 0)
    assert len(seq.block_table) == 4


def test_blocks_that_others_hold_stay_and_are_found_again(requests: Requests) -> None:
    blocks = manager(8, 8)
    first = begin(blocks, requests.make(10).sequences[0])
    second = begin(blocks, requests.make(first.group.request.prompt, seed=1).sequences[0])
    shared = first.block_table[:2]
    assert second.block_table[:2] == shared
    assert blocks.swap_out(first)
    assert [blocks.device.references[block] for block in shared] == [1, 1]
    blocks.take_moves()
    assert blocks.swap_in(first, 0)
    assert first.block_table[:2] == shared
    assert [move.kind for move in blocks.take_moves()] == [IN]  # the partial one alone


def test_two_that_share_blocks_share_them_in_the_host(requests: Requests) -> None:
    blocks = manager(8, 4)
    first = begin(blocks, requests.make(10).sequences[0])
    second = begin(blocks, requests.make(first.group.request.prompt, seed=1).sequences[0])
    assert blocks.swap_out(first)
    assert blocks.swap_out(second)  # four host blocks are enough for six
    assert first.host_table[:2] == second.host_table[:2]
    assert len(blocks.take_moves()) == 4
    check_pool(blocks.host, [first.host_table, second.host_table])


def test_a_failed_swap_changes_nothing(requests: Requests) -> None:
    blocks = manager(4, 2)
    seq = begin(blocks, requests.make(10).sequences[0])
    before = state(blocks, seq)
    assert not blocks.swap_out(seq)
    assert state(blocks, seq) == before


def test_moves_come_in_the_order_in_which_blocks_are_used_again(requests: Requests) -> None:
    blocks = manager(2, 2, caching=False)
    first = begin(blocks, requests.make(8).sequences[0])
    assert blocks.swap_out(first)
    second = begin(blocks, requests.make(4).sequences[0])
    blocks.free(second)
    assert blocks.swap_in(first, 0)
    assert blocks.swap_out(first)
    kinds = [move.kind for move in blocks.take_moves()]
    assert kinds == [OUT, OUT, IN, IN, OUT, OUT]
    assert blocks.take_moves() == ()
