"""A word's part of speech, from the words around it.

Only as much as homographs need: whether "record" is a noun or a verb. The closest word before it
that says something decides; where none does, the word behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .word_sets import word_set

_DETERMINERS = word_set(
    "a an the this that these those my your his her its our their whose some any no every each "
    "another either neither both all many few several much more most less such what which "
    "one two three four five six seven eight nine ten first second third last next own other same "
    "old new good bad big small long short great high low little young early final full whole best "
    "better main major public private personal special free real true wrong right"
)
_PREPOSITIONS = word_set(
    "of in on at by for with from into onto about under over between among through during before "
    "after against without within across behind near per as than like via upon off"
)
_MODALS = word_set(
    "will would can could shall should may might must cannot won't can't couldn't wouldn't "
    "shouldn't mustn't do does did don't doesn't didn't let's please i'll you'll he'll she'll "
    "we'll they'll it'll i'd you'd he'd we'd they'd who'll help helps helped needn't"
)
_SUBJECTS = word_set("i you we they he she it who")
_HAVE = word_set("have has had having i've you've we've they've haven't hasn't hadn't he'd she'd")
_BE = word_set(
    "is are was were be been being am isn't aren't wasn't weren't it's he's she's i'm you're we're "
    "they're that's there's get gets got getting"
)
_ADVERBS = word_set(
    "not never always also just only even still already often usually sometimes soon now then "
    "ever almost nearly hardly rarely quickly again first"
)
_DEGREES = word_set("very so too quite rather more most extremely less really as fairly")
_LINKING = word_set(
    "look looks looked seem seems seemed feel feels felt become became sound sounds"
)
_OBJECTS = word_set(
    "the a an it them him me us this my your his her its our their everything "
    "something anything yourself himself herself themselves itself"
)
_BEHIND_VERBS = word_set("with to from into as all both information")
_BEHIND_COMMANDS = word_set("with for between against")
_SINGULAR_DETERMINERS = word_set("this that a an each every another")
_PEOPLE = word_set("men women people children police")
_NOT_BEHIND_VERBS = word_set("of is are was were has had will would can could and or")
_CONJUNCTIONS = word_set("and or but nor")
_NEAR = 10  # words
_ENDS = frozenset(".?!;:—…")


@dataclass(frozen=True)
class WordContext:
    """A word in its sentence.

    Attributes:
        words: the words and marks of the text, in lower case.
        at: its index in them.
    """

    words: Sequence[str]
    at: int

    @property
    def word(self) -> str:
        return self.words[self.at]

    def before(self, count: int = 1) -> str:
        """Return the ``count``-th word before; "" beyond the beginning of the sentence."""
        index = self.at - count
        if index < 0 or any(mark in _ENDS for mark in self.words[index : self.at]):
            return ""
        return self.words[index]

    def behind(self, count: int = 1) -> str:
        """Return the ``count``-th word behind; "" beyond the end of the sentence."""
        index = self.at + count
        if index >= len(self.words):
            return ""
        return "" if any(m in _ENDS for m in self.words[self.at : index + 1]) else self.words[index]

    def near(self) -> frozenset[str]:
        """Return the words around it, also of neighbouring sentences."""
        return frozenset(self.words[max(0, self.at - _NEAR) : self.at + _NEAR])

    @property
    def ends_phrase(self) -> bool:
        """Return whether a mark or nothing is behind the word."""
        return self.behind() in ("", ",")

    def governor(self) -> str:
        """Return the closest word before that is no adverb."""
        for count in (1, 2, 3):
            word = self.before(count)
            if word not in _ADVERBS and not (word.endswith("ly") and len(word) > 4):
                return word
        return ""


def is_verb(context: WordContext) -> bool:
    """Tell whether the word, a noun or adjective otherwise, is a verb."""
    before, behind = context.governor(), context.behind()
    plural = _is_plural(context.word)
    clear = _after_clear_word(context, plural)
    if clear is not None:
        return clear
    if before == "" and context.word.endswith("ate") and behind in _BEHIND_COMMANDS:
        return True  # "Alternate with red."
    if before in ("", ",") or before in _CONJUNCTIONS:
        return not plural and (behind in _OBJECTS or (before == "" and behind == "your"))
    if before != context.before():  # an adverb between: "the cost never decreases"
        return True
    if behind in _NOT_BEHIND_VERBS or context.ends_phrase:
        return False
    # Behind a noun: "the artists record it", "the device permits it", but "the record sales".
    followed = behind in _OBJECTS or behind in _BEHIND_VERBS or behind.endswith("ly")
    return followed and plural != _is_plural(before)


def is_noun(context: WordContext) -> bool:
    """Tell whether the word, a verb otherwise, is a noun."""
    before, behind = context.before(), context.behind()
    plural = _is_plural(context.word)
    clear = _after_clear_word(context, plural)
    if clear is not None:
        return not clear
    if before == "":
        return behind in _NOT_BEHIND_VERBS or context.ends_phrase
    if behind in _OBJECTS or behind in _BEHIND_VERBS or context.governor() != before:
        return False
    if not plural and _is_plural(before):
        return False
    if before == "," or before in _CONJUNCTIONS:
        return behind in _NOT_BEHIND_VERBS or context.ends_phrase
    described = context.before(2) in _DETERMINERS
    return described or behind in _NOT_BEHIND_VERBS or context.ends_phrase


def _after_clear_word(context: WordContext, plural: bool) -> bool | None:
    """Tell whether the word is a verb by the word before it; None if that says nothing."""
    before = context.governor()
    if before == "to" or before in _MODALS:
        return not plural
    if before in _SUBJECTS:
        return plural if before in ("he", "she", "it") else True
    if plural and context.before() in _SINGULAR_DETERMINERS:
        return True  # "this permits"
    if before in ("that", "which") and plural:
        return context.behind() in _OBJECTS or context.behind() in _BEHIND_VERBS
    if before in _DETERMINERS or before in _PREPOSITIONS or before.endswith("'s"):
        return False
    if before in _BE or before in _HAVE or before.endswith(("ing", "ed")):
        return False
    return None


def _is_plural(word: str) -> bool:
    return (word.endswith("s") and not word.endswith(("ss", "us", "is", "'s"))) or word in _PEOPLE


def is_adjective(context: WordContext) -> bool:
    """Tell whether the word stands before a noun or says what something is."""
    before, behind = context.before(), context.behind()
    nothing_behind = context.ends_phrase or behind in _NOT_BEHIND_VERBS or behind in _PREPOSITIONS
    if before in _DEGREES:
        return True
    if context.governor() in _BE:
        return nothing_behind or behind in ("to", "that", "enough")
    if before in _LINKING and nothing_behind:
        return True
    described = before in _DETERMINERS or before in _PREPOSITIONS or before.endswith("'s")
    return described and not nothing_behind


def is_past(context: WordContext) -> bool:
    """Tell whether a verb that is written alike in present and past, such as "read", is past."""
    before = context.governor()
    if before in _HAVE or before in _BE or context.before(2) in _HAVE:
        return True
    if before in ("to", "", ",") or before in _MODALS or before in _DETERMINERS:
        return False
    if before in _PREPOSITIONS:
        return False
    if before in _SUBJECTS or before in _CONJUNCTIONS:
        return not _USUALLY & context.near() or before in ("he", "she", "it")
    return not before.endswith("s") or bool(_LONG_AGO & context.near())


_USUALLY = word_set("every always often usually sometimes never when if can will may daily")
_LONG_AGO = word_set("yesterday ago last once before had was were")
