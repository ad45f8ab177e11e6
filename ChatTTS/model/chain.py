"""What decodes frames to samples in pieces, of many utterances at once, each with its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from ..errors import ChatTTSError


class State(Protocol):
    """What decoding one utterance has to remember; its size does not grow with the utterance."""

    ended: bool

    def copy(self) -> State:
        """A state that goes on from here by itself."""
        ...

    @property
    def kept_bytes(self) -> int:
        """Memory of the inputs that later outputs need again."""
        ...


@dataclass(frozen=True)
class Push:
    """The next frames of one utterance.

    Attributes:
        state: of this utterance, from the chain's ``begin``; it goes on by these frames.
        frames: codes [n, num_codebooks] or hidden states [n, hidden], or ``None`` for none.
        last: whether the utterance ends with these frames.
    """

    state: Any
    frames: Tensor | None
    last: bool = False


class Chain(Protocol):
    """All layers from frames to samples.

    A layer computes nothing twice and gives zeros where the whole modules pad with zeros, at the
    true ends and nowhere else. So the joined samples of the pushes are those of the whole
    utterance, later by the layers' reach.

    Attributes:
        exact: whether every bit is independent of the pieces and of what is pushed beside them;
            otherwise they differ by roundings.
    """

    exact: bool

    def begin(self) -> Any:
        """The state of an utterance of which nothing is known yet."""
        ...

    def advance(self, pushes: Sequence[Push]) -> list[Tensor]:
        """For each push the samples [m] that became final, float32 on the CPU, often none.

        After ``n`` frames of an utterance ``max(0, 2 n - reach) * hop`` samples are out, after its
        last ``max(0, 2 n - 1) * hop``. No state may be in two pushes.

        Raises:
            ChatTTSError: an utterance has ended already; no state has changed then.
        """
        ...


def check(pushes: Sequence[Push]) -> None:
    """Refuse pushes that the states cannot take.

    Raises:
        ChatTTSError: an utterance has ended, or is pushed twice.
    """
    if any(push.state.ended for push in pushes):
        raise ChatTTSError("this utterance has ended: begin a new state for the next one")
    if len({id(push.state) for push in pushes}) < len(pushes):
        raise ChatTTSError("an utterance can be pushed once at a time: join its frames")
