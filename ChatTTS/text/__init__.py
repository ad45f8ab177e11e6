"""Text: read out, put into the model's characters, split into utterances; control tags kept."""

from .characters import load_homophones
from .lexicon import Lexicon, LexiconEntry, LexiconUse
from .normalizer import Normalizer
from .prepare import prepare
from .splitter import split_utterances

__all__ = [
    "Lexicon",
    "LexiconEntry",
    "LexiconUse",
    "Normalizer",
    "load_homophones",
    "prepare",
    "split_utterances",
]
