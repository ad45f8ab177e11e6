"""Jobs of a model, as plain data that may travel, and the stream of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...config.request_fields import Manner
from ...pipeline.results import Piece
from ...text.lexicon import Lexicon


@dataclass(frozen=True)
class SpeechJob(Manner):
    """Everything that the samples of a request depend on; plain data that may travel.

    ``request_fields`` describes the fields that are not listed here.

    Attributes:
        text: what to speak.
        voice: fields of ``InferCodeParams`` of the voice, such as ``spk_emb`` or ``spk_smp``. The
            voice itself travels, not its name.
        sampling: fields of the request parameters that the request sets, the seed among them.
        seed: of all random draws.
        refine_tags: control tags of the refine pass; empty means the defaults of the voice.
        first_utterance: index of the text's first utterance.
    """

    text: str
    voice: Mapping[str, str]
    sampling: Mapping[str, Any]
    seed: int
    refine_tags: str = ""
    first_utterance: int = 0


@dataclass(frozen=True)
class RefineJob:
    """A text for the refine pass alone.

    Attributes:
        text: what to refine.
        sampling: fields of ``RefineTextParams``, the seed among them.
        language: a code; ``None`` detects it from the text.
        lexicon: words and their sayings.
    """

    text: str
    sampling: Mapping[str, Any]
    language: str | None = None
    lexicon: Lexicon = field(default_factory=Lexicon)


class PieceStream(Protocol):
    """The pieces of one job while they are generated; one task iterates over them."""

    @property
    def utterances(self) -> Sequence[object]:
        """The utterances of the text, as far as they are known."""

    @property
    def finish_reason(self) -> str | None:
        """The ending of the text: ``stop``, ``length`` or ``abort``; ``None`` while it goes on."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """The parts that the voice cannot speak, as far as they are known; see ``SpokenText``."""

    async def __anext__(self) -> Piece:
        """Return the next piece; raise StopAsyncIteration at the end."""

    def close(self) -> None:
        """End the generation and wait for that; called in a thread beside the asyncio loop."""
