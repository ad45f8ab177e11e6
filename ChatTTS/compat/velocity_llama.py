"""``ChatTTS.model.velocity.llama``: the interface of the engine's Llamas, and the one in torch."""

from ..model.velocity.layers import LayeredLlama as TorchLlama
from ..model.velocity.loaded_model import LlamaModel

__all__ = ["LlamaModel", "TorchLlama"]
