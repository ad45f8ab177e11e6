"""Text: read out, put into the model's characters, split into utterances; control tags kept."""

from .characters import load_homophones
from .normalizer import Normalizer
from .prepare import prepare
from .splitter import split_utterances

__all__ = ["Normalizer", "load_homophones", "prepare", "split_utterances"]
