"""A loaded model: everything that a step computes with."""

from __future__ import annotations

from dataclasses import dataclass

from ...config import Config
from ..adapters import Adapter
from ..cuda import graphs
from ..draws import Pass
from ..embed import Embed
from ..llama_config import LlamaShape
from ..placement import Placement
from ..shard import Peers, Shard
from ..tokenizer import Tokenizer
from .llama import LlamaModel
from .sampler import Sampler


@dataclass(frozen=True)
class LoadedModel:
    """Everything that a step computes with.

    Attributes:
        how: a description of the kernels and the dtype, for logs and the system check.
        shard, peers: the rank, and how it reaches the others, if it is not the only one.
        recorder: records whole steps, if the model runs on Triton kernels.
        adapters: those that requests may name; batches number them in this order.
        compiles: whether the first launch of a kernel compiles it.
    """

    config: Config
    tokenizer: Tokenizer
    shape: LlamaShape
    embed: Embed
    llama: LlamaModel
    sampler: Sampler
    placement: Placement
    how: str
    shard: Shard
    peers: Peers | None = None
    recorder: graphs.Recorder | None = None
    adapters: tuple[Adapter, ...] = ()
    compiles: bool = False

    @property
    def ends(self) -> dict[Pass, int]:
        """The id that ends a sequence, by pass."""
        return {
            Pass.CODE: self.embed.num_audio_tokens - 1,
            Pass.REFINE: self.tokenizer.end_of_refine,
        }
