"""The interface of a streaming decoder: frames in pieces to samples, many utterances at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import Tensor

from ...errors import ChatTTSError


@dataclass(eq=False)
class DecoderState:
    """The state of decoding one utterance; its size does not grow with the utterance.

    Attributes:
        decoder: the state belongs to it.
        kept: float32 tensors or arrays of the inputs that later outputs need again, as the decoder
            lays them out; ``None`` in the place of one that is empty.
        seen: frames so far, where the decoder counts them.
        ended: whether the utterance has had its last frame.
    """

    decoder: StreamingDecoder
    kept: Sequence[Any] = ()
    seen: int = 0
    ended: bool = False

    def copy(self) -> DecoderState:
        """Return a state that continues from here independently.

        What is kept is shared: decoders replace it, and do not write into it.
        """
        return replace(self)

    @property
    def kept_bytes(self) -> int:
        """Memory of the inputs that are kept."""
        return sum(kept.nbytes for kept in self.kept if kept is not None)


@dataclass(frozen=True)
class DecoderInput:
    """The next frames of one utterance.

    Attributes:
        state: of this utterance, from the decoder's ``begin``. Decoding moves it past the frames.
        frames: codes [n, num_codebooks] or hidden states [n, hidden], or ``None`` for none.
        last: whether the utterance ends with these frames.
    """

    state: DecoderState
    frames: Tensor | None
    last: bool = False


class StreamingDecoder(Protocol):
    """All layers from frames to samples.

    A layer computes nothing twice. It gets zeros where the whole modules pad with zeros: at the
    true ends of the utterance and nowhere else. So the joined samples of all pieces are those of
    the whole utterance, later by the layers' reach.

    Attributes:
        exact: whether no bit of a sample depends on how an utterance is cut into pieces, or on the
            utterances that are decoded beside it. Otherwise samples differ by rounding.
        by_launches: whether some tens of frames cost about as much as one, as on a GPU, which has
            the most work with each launch.
    """

    exact: bool
    by_launches: bool

    def begin(self) -> DecoderState:
        """Return the state of an utterance that has had no frame yet."""
        ...

    def advance(self, inputs: Sequence[DecoderInput]) -> list[Tensor]:
        """Return for each input the samples [m] that became final, float32 on the CPU, often none.

        After ``n`` frames of an utterance ``max(0, 2 n - reach) * hop`` samples are out, after its
        last one ``max(0, 2 n - 1) * hop``. No state may be in two inputs.

        Raises:
            ChatTTSError: an utterance has ended already, a state is in two inputs or belongs to
                another decoder. No state has changed then.
        """
        ...

    def launch(self, inputs: Sequence[DecoderInput]) -> Callable[[], list[Tensor]]:
        """Begin to do as :meth:`advance`; return what waits for the samples and gives them.

        The states are past these inputs at once. All is done when this returns, unless the
        decoder's device works by itself.
        """
        samples = self.advance(inputs)
        return lambda: samples


def check_inputs(decoder: StreamingDecoder, inputs: Sequence[DecoderInput]) -> None:
    """Refuse inputs that their states cannot take.

    Raises:
        ChatTTSError: an utterance has ended, is in two inputs, or belongs to another decoder.
    """
    if any(given.state.ended for given in inputs):
        raise ChatTTSError("this utterance has ended: begin a new state for the next one")
    if len({id(given.state) for given in inputs}) < len(inputs):
        raise ChatTTSError("an utterance can be pushed once at a time: join its frames")
    if any(given.state.decoder is not decoder for given in inputs):
        raise ChatTTSError("this state belongs to another decoder: begin one here")
