"""The prefix cache: which full blocks are computed, found by their tokens and all tokens before.

The key of a full block is the identity of the block before it, and its own tokens. An identity is
never used twice, so a key stands for exactly one prefix. Keys are compared in full, so equal hashes
of different keys do no harm.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

# A text id, a frame of codes, or a position with the speaker vector (see `SequenceGroup.tokens`).
Token = int | tuple[int, ...]


class BlockKey(NamedTuple):
    """The content of a full block.

    Attributes:
        parent: identity of the block before it, or the root of the prompt for the first block.
        tokens: the tokens at its positions.
    """

    parent: int | bytes
    tokens: tuple[Token, ...]


@dataclass(slots=True, eq=False)
class CachedBlock:
    """The prefix cache's entry for a full block.

    Attributes:
        identity: a number that is never used twice.
        key: what the block holds.
        device, host: its block in each of the pools; in at least one of them.
        is_short_lived: whether it is evicted first, because it holds generated ids, with which
            few prompts begin.
    """

    identity: int
    key: BlockKey
    device: int | None = None
    host: int | None = None
    is_short_lived: bool = False


class PrefixCache:
    """All full blocks that can be found again."""

    def __init__(self) -> None:
        self._known: dict[BlockKey, CachedBlock] = {}
        self._identities = itertools.count()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: BlockKey) -> CachedBlock | None:
        """Return the block with exactly this key, or ``None``."""
        return self._known.get(key)

    def remember(self, key: BlockKey) -> CachedBlock:
        """Add an entry for a new key; it is in no pool yet."""
        block = CachedBlock(next(self._identities), key)
        self._known[key] = block
        return block

    def forget(self, block: CachedBlock) -> None:
        """Remove an entry, so that neither it nor any block after it is found again."""
        del self._known[block.key]
