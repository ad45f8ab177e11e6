"""``ChatTTS.model.velocity.llama``: the interface of the engine's Llamas, and one of them."""

from ..model.velocity.layers import Llama as TorchLlama
from ..model.velocity.loaded_model import LlamaModel

__all__ = ["LlamaModel", "TorchLlama"]
