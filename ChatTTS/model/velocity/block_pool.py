"""The physical blocks of one memory: who holds them, which are free, which can be evicted."""

from __future__ import annotations

from collections import OrderedDict

from .prefix_cache import CachedBlock


class BlockPool:
    """Blocks 0 to ``size - 1``, each in one of three states.

    Used: somebody holds it. Cached: nobody does, but the prefix cache remembers what it holds.
    Free: neither.

    Attributes:
        references: how many hold each block.
        cached: what the prefix cache knows each block as, or ``None``.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.references = [0] * size
        self.cached: list[CachedBlock | None] = [None] * size
        # A stack: what was freed last is taken first, so untouched memory stays untouched.
        self._free = list(range(size - 1, -1, -1))
        self._evictable: OrderedDict[int, None] = OrderedDict()  # the least recently used first

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_cached(self) -> int:
        return len(self._evictable)

    @property
    def num_used(self) -> int:
        return self.size - len(self._free) - len(self._evictable)

    @property
    def available(self) -> int:
        """Blocks that can be allocated."""
        return len(self._free) + len(self._evictable)

    def allocate(self) -> tuple[int, CachedBlock | None]:
        """A block that the caller holds from now on, and what had to leave it, if anything.

        Raises:
            IndexError: none is available; ask before.
        """
        evicted = None
        if self._free:
            block = self._free.pop()
        elif self._evictable:
            block, _ = self._evictable.popitem(last=False)
            evicted, self.cached[block] = self.cached[block], None
        else:
            raise IndexError("no block is available")
        self.references[block] = 1
        return block, evicted

    def hold(self, block: int) -> None:
        """One more holds a block that is used or cached."""
        if self.references[block] == 0:
            del self._evictable[block]
        self.references[block] += 1

    def release(self, block: int) -> None:
        """One less holds it. The last one leaves it cached, if it is remembered, or else free.

        Raises:
            RuntimeError: nobody holds it.
        """
        if self.references[block] == 0:
            raise RuntimeError(f"block {block} is freed twice")
        self.references[block] -= 1
        if self.references[block] == 0:
            if self.cached[block] is None:
                self._free.append(block)
            else:
                self._evictable[block] = None

    def forget(self, block: int) -> None:
        """It is no longer remembered."""
        self.cached[block] = None
        if self.references[block] == 0:
            del self._evictable[block]
            self._free.append(block)
