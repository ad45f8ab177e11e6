"""The physical blocks that hold the keys and values of each sequence.

Sequences that begin with the same tokens share blocks. When a sequence ends, its blocks stay for
later sequences that begin with the same tokens. If the device's pool is short of blocks, some move
to a second pool in host memory.

This module only decides. The worker carries the decisions out as block moves, in their order,
before the step computes anything.
"""

from __future__ import annotations

from .block_pool import BlockPool
from .configs import CacheConfig
from .plan import BlockMove, MoveKind
from .prefix_cache import BlockKey, CachedBlock, PrefixCache
from .sequence import Sequence

# Blocks of prompts that came once. A text of a hundred letters has three.
_MAX_UNSHARED = 64


class BlockSpaceManager:
    """The block tables of all sequences, over a device pool and a host pool.

    A method that lacks blocks returns ``False`` and has changed nothing.

    Args:
        config: the KV cache's config, with ``num_blocks`` set.

    Attributes:
        device, host: the pools.
        prefixes: the full blocks that can be found again.
        hit_positions: positions that the prefix cache has saved so far.
        copies: shared blocks copied so far because a sequence was about to write into them.
    """

    def __init__(self, config: CacheConfig) -> None:
        if config.num_blocks is None:
            raise ValueError("num_blocks must be counted before blocks can be given out")
        self._config = config
        self._size = config.block_size
        self.hit_positions = 0
        self.copies = 0
        self.device = BlockPool(config.num_blocks, _MAX_UNSHARED)
        self.host = BlockPool(config.num_host_blocks)
        self.prefixes = PrefixCache()
        self._moves: list[BlockMove] = []

    @property
    def num_held(self) -> int:
        """Return the number of blocks that sequences hold, on the device and on the host."""
        return self.device.num_used + self.host.num_used

    def take_moves(self) -> tuple[BlockMove, ...]:
        """Return the moves decided since the last call, in order."""
        moves = tuple(self._moves)
        self._moves.clear()
        return moves

    # ------------------------------------------------------------ blocks for a sequence

    def allocate(self, seq: Sequence, spare: int) -> bool:
        """Give blocks for all its positions to a sequence that has none.

        The prefix cache may hold some of its positions already; they count as ``computed``. The
        last position always remains to be computed, since its hidden state draws the next id.

        Args:
            spare: blocks that must stay available.
        """
        hits = self._match(seq)
        on_device = [hit.device for hit in hits]
        if not self._fits(seq, on_device, spare):
            return False
        sources = [hit.host for hit in hits if hit.device is None and hit.host is not None]
        for block in sources:
            self.host.hold(block)  # blocks evicted below must not overwrite it
        self._build_table(seq, on_device, sources)
        for block in reversed(sources):
            self.host.release(block)
        for hit in hits:
            hit.is_short_lived = False
        seq.cached = hits
        seq.computed = len(hits) * self._size
        self.hit_positions += seq.computed
        return True

    def fork(self, donor: Sequence, seq: Sequence, spare: int) -> bool:
        """Share the prompt's blocks of ``donor`` with a sample of the same group without blocks.

        All positions of the prompt but the last are then computed. ``donor`` must have computed
        these.

        Args:
            donor: a running sample.
            spare: blocks that must stay available.
        """
        computed = seq.group.prompt_length - 1
        shared = self._count(computed)
        copied = computed % self._size > 0  # the next step writes into the last shared block
        wanted = self._count(len(seq)) - shared + copied
        if wanted > self.device.available - spare:
            seq.wanted = wanted
            return False
        seq.wanted = 0
        seq.block_table = donor.block_table[:shared]
        for block in seq.block_table:
            self.device.hold(block)
        seq.cached = donor.cached[: computed // self._size]
        seq.computed = computed
        return self.extend(seq)

    def extend(self, seq: Sequence, ahead: int = 0) -> bool:
        """Give a running sequence blocks for all its positions.

        A shared block that it is about to write into is replaced by a copy.

        Args:
            ahead: positions beyond those, which it has not drawn yet.
        """
        table = seq.block_table
        missing = max(0, self._count(len(seq) + ahead) - len(table))
        index = seq.computed // self._size
        shared = index < len(table) and (
            self.device.references[table[index]] > 1 or self.device.cached[table[index]] is not None
        )
        if not missing and not shared:
            return True
        if missing + shared > self.device.available:
            return False
        if shared:
            source = table[index]
            table[index] = self._new_block()
            self._move(MoveKind.COPY, source, table[index])
            self.device.release(source)
            self.copies += 1
        for _ in range(missing):
            table.append(self._new_block())
        return True

    def has_plenty(self, sequences: int, positions: int) -> bool:
        """Return whether :meth:`extend` succeeds for any running sequences that gain positions.

        At most, each needs blocks for its new positions, one more where these begin within a block,
        and a copy of a block that it shares.

        Args:
            positions: that each of them gains.
        """
        return sequences * (self._count(positions) + 2) <= self.device.available

    def commit(self, seq: Sequence, computed: int) -> None:
        """Note that ``computed`` positions of a running sequence are computed.

        Its full blocks enter the prefix cache. If the cache has an equal block already, the
        sequence takes that one and releases its own. So a sequence that holds a cached block also
        holds all cached blocks before it.
        """
        seq.computed = computed
        if not self._config.enable_prefix_caching:
            return
        for index in range(len(seq.cached), computed // self._size):
            key = self._key(seq, index, seq.cached)
            block = seq.block_table[index]
            known = self.prefixes.find(key) or self.prefixes.remember(key)
            if known.device is None:
                known.device = block
                self.device.cached[block] = known
            else:
                self.device.hold(known.device)
                seq.block_table[index] = known.device
                self.device.release(block)
            seq.cached.append(known)

    def free(self, seq: Sequence, *, keep: int | None = None, forget: bool = False) -> None:
        """Take all blocks from a sequence. None of its positions is computed afterwards.

        Args:
            keep: positions at its beginning that other sequences are likely to begin with; by
                default all that it computed. Blocks beyond them are reused first, before memory
                that was never used.
            forget: remove blocks that only this sequence holds from the prefix cache, since their
                contents are wrong.
        """
        for pool, table in ((self.device, seq.block_table), (self.host, seq.host_table)):
            # The last block is released first, so that it is evicted first: a block can be found
            # only through the block before it.
            for index, block in reversed(list(enumerate(table))):
                known = pool.cached[block]
                if known is not None and pool.references[block] == 1:
                    if forget:
                        self._forget(known)
                    known.is_short_lived = keep is not None and (index + 1) * self._size > keep
                pool.release(block)
        seq.block_table = []
        seq.host_table = []
        seq.cached = []
        seq.computed = 0

    # ------------------------------------------------------------ to the host and back

    def swap_out(self, seq: Sequence) -> bool:
        """Move what a running sequence has computed to host blocks."""
        table = seq.block_table[: self._count(seq.computed)]
        known = [self.device.cached[block] for block in table]
        in_host = [hit.host if hit else None for hit in known]
        held = sum(block is not None and self.host.references[block] > 0 for block in in_host)
        if len(table) - held > self.host.available:
            return False
        for block in in_host:
            if block is not None:
                self.host.hold(block)
        for source, target, hit in zip(table, in_host, known, strict=True):
            if target is None:
                target = self._new_host_block()
                self._move(MoveKind.OUT, source, target)
                if hit:
                    self._cache_in_host(hit, target)
            seq.host_table.append(target)
        for block in reversed(seq.block_table):
            self.device.release(block)
        seq.block_table = []
        return True

    def swap_in(self, seq: Sequence, spare: int) -> bool:
        """Move a sequence back to the device, with blocks for all its positions.

        Args:
            spare: blocks that must stay available.
        """
        known = [self.host.cached[block] for block in seq.host_table]
        on_device = [hit.device if hit else None for hit in known]
        if not self._fits(seq, on_device, spare):
            return False
        pairs = zip(on_device, seq.host_table, strict=True)
        self._build_table(seq, on_device, [host for device, host in pairs if device is None])
        for block in reversed(seq.host_table):
            self.host.release(block)
        seq.host_table = []
        return True

    # ------------------------------------------------------------ helpers

    def _count(self, positions: int) -> int:
        """Return the number of blocks that hold a number of positions."""
        return -(-positions // self._size)

    def _key(self, seq: Sequence, index: int, before: list[CachedBlock]) -> BlockKey:
        """Return the key of logical block ``index``, given the cached blocks before it."""
        parent = before[index - 1].identity if index else seq.group.root
        return BlockKey(parent, seq.tokens(index * self._size, (index + 1) * self._size))

    def _match(self, seq: Sequence) -> list[CachedBlock]:
        """Return the cached blocks of the longest known prefix, without the last position."""
        hits: list[CachedBlock] = []
        if self._config.enable_prefix_caching:
            for index in range((len(seq) - 1) // self._size):
                hit = self.prefixes.find(self._key(seq, index, hits))
                if hit is None:
                    break
                hits.append(hit)
        return hits

    def _fits(self, seq: Sequence, on_device: list[int | None], spare: int) -> bool:
        """Return whether there are blocks for all positions of ``seq``, and set ``seq.wanted``.

        Args:
            on_device: blocks of its beginning that are on the device already.
            spare: blocks that must stay available.
        """
        references = self.device.references
        held = sum(block is not None and references[block] > 0 for block in on_device)
        wanted = self._count(len(seq)) - held
        fits = wanted <= self.device.available - spare
        seq.wanted = 0 if fits else wanted
        return fits

    def _build_table(self, seq: Sequence, on_device: list[int | None], sources: list[int]) -> None:
        """Build the block table of a sequence for which there are enough blocks.

        Args:
            on_device: the device blocks of its beginning; ``None`` where only the host has one.
            sources: the host blocks of these, in order.
        """
        for block in on_device:
            if block is not None:
                self.device.hold(block)  # all of them, before any block is evicted
        host_blocks = iter(sources)
        for block in on_device:
            if block is None:
                source = next(host_blocks)
                block = self._new_block()
                self._move(MoveKind.IN, source, block)
                known = self.host.cached[source]
                if known:
                    known.device = block
                    self.device.cached[block] = known
            seq.block_table.append(block)
        for _ in range(self._count(len(seq)) - len(on_device)):
            seq.block_table.append(self._new_block())

    def _new_block(self) -> int:
        """Allocate a device block; an evicted one is copied to the host if there is room."""
        block, evicted = self.device.allocate()
        if evicted:
            evicted.device = None
            if evicted.host is None and self.host.available and not evicted.is_short_lived:
                target = self._new_host_block()
                self._move(MoveKind.OUT, block, target)
                self._cache_in_host(evicted, target)
                self.host.release(target)
            elif evicted.host is None:
                self.prefixes.forget(evicted)
        return block

    def _new_host_block(self) -> int:
        block, evicted = self.host.allocate()
        if evicted:
            evicted.host = None
            if evicted.device is None:
                self.prefixes.forget(evicted)
        return block

    def _cache_in_host(self, known: CachedBlock, block: int) -> None:
        known.host = block
        self.host.cached[block] = known

    def _forget(self, known: CachedBlock) -> None:
        self.prefixes.forget(known)
        if known.device is not None:
            self.device.forget(known.device)
        if known.host is not None:
            self.host.forget(known.host)
        known.device = known.host = None

    def _move(self, kind: MoveKind, source: int, target: int) -> None:
        self._moves.append(BlockMove(kind, source, target))
