"""The stage ``data``: the teacher speaks the corpus before the training."""

from __future__ import annotations

from .data import Corpus
from .run import Run


def main(run: Run) -> None:
    """Make the shards of the corpus that are missing.

    Raises:
        EngineUnavailableError: the teacher is not installed.
    """
    # Other kinds of utterances, such as a list, exist already.
    if isinstance(run.corpus, Corpus):
        run.corpus.prepare()
