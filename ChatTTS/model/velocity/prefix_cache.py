"""Which prefixes are computed: full blocks, known by all that stands in and before them.

A full block's key is the identity of the block before it and what stands in the block itself.
Identities are given once and never again, so a key stands for one exact prefix. Keys are compared
in full: two that merely hash alike are two.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

# A text id, a frame of codes, or the place of a speaker vector (see `SequenceGroup.tokens`).
Token = int | tuple[int, ...]


class BlockKey(NamedTuple):
    """What a full block holds.

    Attributes:
        parent: identity of the block before, or the root of the prompt for the first block.
        tokens: what stands at its positions.
    """

    parent: int | bytes
    tokens: tuple[Token, ...]


class CachedBlock:
    """A full block that others may share.

    Attributes:
        identity: never given twice.
        key: what it holds.
        device, host: where it lies: in one of the pools, or in both.
        fades: it holds what was drawn, with which few prompts begin: its place is the first that
            is used again.
    """

    __slots__ = ("device", "fades", "host", "identity", "key")

    def __init__(self, identity: int, key: BlockKey) -> None:
        self.identity = identity
        self.key = key
        self.device: int | None = None
        self.host: int | None = None
        self.fades = False


class PrefixCache:
    """All the full blocks that can be found again."""

    def __init__(self) -> None:
        self._known: dict[BlockKey, CachedBlock] = {}
        self._identities = itertools.count()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: BlockKey) -> CachedBlock | None:
        """The block with exactly this key."""
        return self._known.get(key)

    def remember(self, key: BlockKey) -> CachedBlock:
        """A new block, which lies nowhere yet; the key must be unknown."""
        block = CachedBlock(next(self._identities), key)
        self._known[key] = block
        return block

    def forget(self, block: CachedBlock) -> None:
        """It will not be found any more, nor anything that follows it."""
        del self._known[block.key]
