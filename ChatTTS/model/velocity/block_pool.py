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
        # A stack: what was freed last is taken first, and memory that was never written last.
        self._warm: list[int] = []
        self._touched = 0
        # Both with the least recently used first.
        self._fading: OrderedDict[int, None] = OrderedDict()
        self._evictable: OrderedDict[int, None] = OrderedDict()

    @property
    def num_free(self) -> int:
        return self.size - self._touched + len(self._warm)

    @property
    def num_touched(self) -> int:
        """Blocks that were ever held; the system gives memory to no others."""
        return self._touched

    @property
    def num_cached(self) -> int:
        return len(self._evictable) + len(self._fading)

    @property
    def num_used(self) -> int:
        return self._touched - len(self._warm) - self.num_cached

    @property
    def available(self) -> int:
        """Blocks that can be allocated."""
        return self.num_free + self.num_cached

    def allocate(self) -> tuple[int, CachedBlock | None]:
        """A block that the caller holds from now on, and what had to leave it, if anything.

        Raises:
            IndexError: none is available; ask before.
        """
        evicted = None
        if self._warm:
            block = self._warm.pop()
        elif self._fading:
            block, _ = self._fading.popitem(last=False)
            evicted, self.cached[block] = self.cached[block], None
        elif self._touched < self.size:
            block = self._touched
            self._touched += 1
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
            self._unqueue(block)
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
            known = self.cached[block]
            if known is None:
                self._warm.append(block)
            else:
                (self._fading if known.fades else self._evictable)[block] = None

    def forget(self, block: int) -> None:
        """It is no longer remembered."""
        self.cached[block] = None
        if self.references[block] == 0:
            self._unqueue(block)
            self._warm.append(block)

    def _unqueue(self, block: int) -> None:
        """A cached block that nobody holds is not to be evicted any more."""
        self._fading.pop(block, None)
        self._evictable.pop(block, None)
