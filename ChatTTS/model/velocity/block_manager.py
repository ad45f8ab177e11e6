"""Which physical blocks hold the keys and values of which sequence.

Blocks are shared between sequences that begin alike, kept after their end for others that will
begin alike, and moved to a second pool in host memory when the device's pool is short.

The device lags behind the books: what is decided here is carried out as block moves, in the order
in which they were decided, before the step's work writes anything.
"""

from __future__ import annotations

from .block_pool import BlockPool
from .configs import CacheConfig
from .plan import BlockMove, MoveKind
from .prefix_cache import BlockKey, CachedBlock, PrefixCache
from .sequence import Sequence


class BlockSpaceManager:
    """The block tables of all sequences, over a device pool and a host pool.

    Whatever can fail says so by returning ``False``, and has changed nothing then.

    Args:
        config: with ``num_blocks`` set.

    Attributes:
        device, host: the pools.
        prefixes: the full blocks that can be found again.
        hit_positions: positions that the prefix cache saved, so far.
        copies: blocks copied since somebody was to write into a shared one, so far.
    """

    def __init__(self, config: CacheConfig) -> None:
        if config.num_blocks is None:
            raise ValueError("num_blocks must be counted before blocks can be given out")
        self._config = config
        self._size = config.block_size
        self.hit_positions = 0
        self.copies = 0
        self.device = BlockPool(config.num_blocks)
        self.host = BlockPool(config.num_host_blocks)
        self.prefixes = PrefixCache()
        self._moves: list[BlockMove] = []

    @property
    def capacity(self) -> int:
        """Positions that the whole device pool holds."""
        return self.device.size * self._size

    def take_moves(self) -> tuple[BlockMove, ...]:
        """The moves decided since the last call, in order."""
        moves = tuple(self._moves)
        self._moves.clear()
        return moves

    # ------------------------------------------------------------ blocks for a sequence

    def allocate(self, seq: Sequence, spare: int) -> bool:
        """Give blocks to a sequence that has none, for all its positions; ``computed`` becomes
        what the prefix cache has of it.

        At least its last position stays to be computed, since that is what draws.

        Args:
            spare: blocks that must stay available.
        """
        hits = self._match(seq)
        lying = [hit.device for hit in hits]
        if not self._fits(seq, lying, spare):
            return False
        back = [hit.host for hit in hits if hit.device is None and hit.host is not None]
        for block in back:
            self.host.hold(block)  # what is evicted below must not take its place
        self._take(seq, lying, back)
        for block in reversed(back):
            self.host.release(block)
        for hit in hits:
            hit.fades = False
        seq.cached = hits
        seq.computed = len(hits) * self._size
        self.hit_positions += seq.computed
        return True

    def fork(self, donor: Sequence, seq: Sequence, spare: int) -> bool:
        """Give a sequence that has no blocks those that hold the prompt of its running sibling.

        All but the last position of the prompt are computed then. ``donor`` must have computed
        as many.
        """
        computed = seq.group.prompt_length - 1
        shared = self._count(computed)
        copied = computed % self._size > 0  # the last one is written into at once
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
        """Give a running sequence blocks for all its positions, and make sure that no block that
        it is to write into is anybody else's.

        Args:
            ahead: positions beyond those, which it has not drawn yet.
        """
        table = seq.block_table
        missing = max(0, self._count(len(seq) + ahead) - len(table))
        index = seq.computed // self._size
        shared = index < len(table) and (
            self.device.references[table[index]] > 1 or self.device.cached[table[index]] is not None
        )
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

    def commit(self, seq: Sequence, computed: int) -> None:
        """A step has returned: ``computed`` positions of a running sequence are computed.

        Full blocks can be found from now on. A sequence that computed what is known already takes
        the known block instead of its own, so whoever holds a block holds all before it.
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
        """Take all blocks from a sequence; nothing of it is computed then.

        Args:
            keep: positions at its beginning that others may well begin with, too; by default all
                that it computed. Blocks beyond them are the first that the next sequences take,
                before memory that was never used.
            forget: what only it held can't be trusted, so nobody is to find it again.
        """
        for pool, table in ((self.device, seq.block_table), (self.host, seq.host_table)):
            # Tails go before heads, so that they are evicted before: a tail is found only by way
            # of its head.
            for index, block in reversed(list(enumerate(table))):
                known = pool.cached[block]
                if known is not None and pool.references[block] == 1:
                    if forget:
                        self._forget(known)
                    known.fades = keep is not None and (index + 1) * self._size > keep
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
        lying = [hit.host if hit else None for hit in known]
        held = sum(block is not None and self.host.references[block] > 0 for block in lying)
        if len(table) - held > self.host.available:
            return False
        for block in lying:
            if block is not None:
                self.host.hold(block)
        for source, target, hit in zip(table, lying, known, strict=True):
            if target is None:
                target = self._new_host_block()
                self._move(MoveKind.OUT, source, target)
                if hit:
                    self._lay_in_host(hit, target)
            seq.host_table.append(target)
        for block in reversed(seq.block_table):
            self.device.release(block)
        seq.block_table = []
        return True

    def swap_in(self, seq: Sequence, spare: int) -> bool:
        """Move a sequence back to device blocks, with blocks for all its positions.

        Args:
            spare: blocks that must stay available.
        """
        known = [self.host.cached[block] for block in seq.host_table]
        lying = [hit.device if hit else None for hit in known]
        if not self._fits(seq, lying, spare):
            return False
        pairs = zip(lying, seq.host_table, strict=True)
        self._take(seq, lying, [host for device, host in pairs if device is None])
        for block in reversed(seq.host_table):
            self.host.release(block)
        seq.host_table = []
        return True

    # ------------------------------------------------------------ parts of these

    def _count(self, positions: int) -> int:
        """Blocks that hold so many positions."""
        return -(-positions // self._size)

    def _key(self, seq: Sequence, index: int, before: list[CachedBlock]) -> BlockKey:
        """Of logical block ``index``, where those before it are known."""
        parent = before[index - 1].identity if index else seq.group.root
        return BlockKey(parent, seq.tokens(index * self._size, (index + 1) * self._size))

    def _match(self, seq: Sequence) -> list[CachedBlock]:
        """The longest known prefix of a sequence, short of its last position."""
        hits: list[CachedBlock] = []
        if self._config.enable_prefix_caching:
            for index in range((len(seq) - 1) // self._size):
                hit = self.prefixes.find(self._key(seq, index, hits))
                if hit is None:
                    break
                hits.append(hit)
        return hits

    def _fits(self, seq: Sequence, lying: list[int | None], spare: int) -> bool:
        """Whether blocks for all positions of ``seq`` can be had, where some lie on the device."""
        references = self.device.references
        held = sum(block is not None and references[block] > 0 for block in lying)
        wanted = self._count(len(seq)) - held
        fits = wanted <= self.device.available - spare
        seq.wanted = 0 if fits else wanted
        return fits

    def _take(self, seq: Sequence, lying: list[int | None], back: list[int]) -> None:
        """Build a block table, once it is sure to fit.

        Args:
            lying: the device blocks of its beginning; ``None`` where it lies in the host alone.
            back: the host blocks of these, in order.
        """
        for block in lying:
            if block is not None:
                self.device.hold(block)  # all of them, before anything is evicted
        sources = iter(back)
        for block in lying:
            if block is None:
                source = next(sources)
                block = self._new_block()
                self._move(MoveKind.IN, source, block)
                known = self.host.cached[source]
                if known:
                    known.device = block
                    self.device.cached[block] = known
            seq.block_table.append(block)
        for _ in range(self._count(len(seq)) - len(lying)):
            seq.block_table.append(self._new_block())

    def _new_block(self) -> int:
        """A device block; what is evicted goes to the host, if there is room."""
        block, evicted = self.device.allocate()
        if evicted:
            evicted.device = None
            if evicted.host is None and self.host.available and not evicted.fades:
                target = self._new_host_block()
                self._move(MoveKind.OUT, block, target)
                self._lay_in_host(evicted, target)
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

    def _lay_in_host(self, known: CachedBlock, block: int) -> None:
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
