"""The refine pass: what a checkpoint is asked to add to a text, and which answers are believed.

Some checkpoints put breaks, laughs and fillers between the words of a text, and copy these
(``refine_keeps_words``). Now and then a small model loses or repeats some; then the text is better
spoken as it was.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch

from ..config import VoiceDefaults
from ..model.generation import Cancellation, FinishReason
from ..model.random_numbers import DrawKey, Pass
from ..model.sampling_params import SamplingParams
from ..model.tokenizer import refine_prompt
from ..params import RefineTextParams
from .attempts import BatchGenerator
from .model import Model
from .requests import batches_of, request_of
from .routines import Routine, Tell
from .utterance import Utterance, UtteranceUpdate

logger = logging.getLogger(__name__)

_DEGREES = re.compile(r"\[(oral|laugh|break)_(\d+)\]")
_TAG = re.compile(r"\[[a-z_0-9]*\]")
# Scripts without blanks: a break may stand behind each character.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
# With [oral_n], about one filler comes for this number of words over n; the longest have two words.
_WORDS_OF_A_FILLER, _SPARE = 27, 2


def refine(
    model: Model,
    utterances: Sequence[Utterance],
    params: RefineTextParams,
    seed: int,
    *,
    batch_size: int,
    cancelled: Cancellation,
    tell: Tell[Utterance],
) -> Routine[None]:
    """Run the refine pass; tell of each utterance with its new text once that is complete.

    An utterance keeps its own text where the pass gives none, with a warning, and without one after
    an interrupt. It also keeps its text where a pass that shall keep the words has changed them,
    and where a voice can say it, but not spell it: this pass reads and writes letters.
    """
    if model.tokenizer.front_end is not None:
        unspelled = [u for u in utterances if not model.tokenizer.spells(u.text)]
        for utterance in unspelled:
            tell(utterance)
        utterances = [u for u in utterances if u not in unspelled]
    only_adds = model.config.defaults.refine_keeps_words
    sampling = SamplingParams.from_params(params, num_codebooks=1)
    requests = {
        u: request_of(
            model,
            u,
            refine_prompt(u.text, params.prompt),
            sampling,
            DrawKey(seed, Pass.REFINE, utterance=u.number),
        )
        for u in utterances
    }
    answers: dict[Utterance, list[torch.Tensor]] = {u: [] for u in utterances}

    def join(update: UtteranceUpdate) -> None:
        u = update.utterance
        answers[u].append(update.delta.ids)
        if update.delta.finish is None:
            return
        ids = torch.cat(answers.pop(u)).flatten().numpy()
        text = model.tokenizer.decode_refined(ids).strip()
        if update.delta.finish is FinishReason.ABORT:
            text = ""
        elif not text:
            logger.warning("refining gave nothing for %r; it stays as it is", u.shown[:40])
        elif only_adds and not keeps_words(u.text, text, params.prompt):
            logger.info("refining changed words of %r; it stays as it is", u.shown[:40])
            text = ""
        tell(replace(u, text=text or u.text))

    generator = BatchGenerator(model, params, cancelled)
    for batch in batches_of(utterances, batch_size):
        yield from generator.run({u: requests[u] for u in batch}, join)


def asks_for_nothing(prompt: str) -> bool:
    """Return whether a refine prompt gives degrees, and all of them are 0."""
    degrees = _DEGREES.findall(prompt)
    is_whole = not _DEGREES.sub("", prompt).strip()
    return is_whole and bool(degrees) and not any(int(degree) for _, degree in degrees)


def may_refine(defaults: VoiceDefaults, prompt: str) -> bool:
    """Return whether a checkpoint can refine, and is asked for something by a refine prompt."""
    is_idle = defaults.refine_keeps_words and asks_for_nothing(prompt)
    return defaults.refine_trained and not is_idle


def keeps_words(text: str, refined: str, prompt: str) -> bool:
    """Return whether a refined text has the words of ``text``, and only fillers between them.

    Args:
        text: what was refined.
        refined: the answer, with control tags.
        prompt: the refine prompt; the degree of ``[oral_n]`` says how many fillers there may be.
    """
    words, found = _words(text), _words(refined)
    oral = max((int(n) for kind, n in _DEGREES.findall(prompt) if kind == "oral"), default=0)
    if not oral:
        return words == found
    rest = iter(found)
    if not all(word in rest for word in words):  # in this order
        return False
    added = Counter(found) - Counter(words)
    max_added = _SPARE + 2 * oral * len(words) // _WORDS_OF_A_FILLER
    # A filler may be a word of the text; a repeated phrase has several.
    repeated = sum(count for word, count in added.items() if word in words)
    return added.total() <= max_added and repeated <= 1


def _words(text: str) -> list[str]:
    return _WORD.findall(_TAG.sub(" ", text).lower())
