"""Words that are written alike and said in several ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .dictionary import Entry
from .part_of_speech import WordContext, is_adjective, is_noun, is_past, is_verb
from .word_sets import word_set


def reading(entry: Entry, context: WordContext) -> str:
    """Return the phonemes of ``entry`` that fit ``context``."""
    others = entry.others
    if not others:
        return entry.phonemes
    special = _SPECIAL.get(context.word)
    if special is not None:
        return others.get(special(context), entry.phonemes)
    if "end" in others and context.ends_phrase:
        return others["end"]
    if "adjective" in others and "verb" not in others and context.word.endswith("ate"):
        return entry.phonemes if is_verb(context) else others["adjective"]  # "deliberate"
    for part, fits in _TESTS.items():
        if part in others and fits(context):
            return others[part] or entry.phonemes
    return entry.phonemes


_TESTS: Mapping[str, Callable[[WordContext], bool]] = {
    "past": is_past,
    "verb": is_verb,
    "noun": is_noun,
    "adjective": is_adjective,
    "adverb": lambda context: context.ends_phrase,
}


def _any_near(context: WordContext, words: frozenset[str], reach: int = 4) -> bool:
    near = [*map(context.before, range(1, reach)), *map(context.behind, range(1, reach))]
    return not words.isdisjoint(near)


def _live(context: WordContext) -> str:
    if context.before() in _ON_AIR or context.behind() in _AT_CONCERTS:
        return ""
    if is_verb(context):
        return "verb"
    if context.behind() in _WHERE_PEOPLE_LIVE and context.before() not in _SAYS_WHAT_IT_IS:
        return "verb"
    return ""


_ON_AIR = word_set(
    "go goes going gone went broadcast streamed stream streaming perform performed performing "
    "played playing recorded watch watched sing sang a the is are was were"
)
_AT_CONCERTS = word_set(
    "music concert concerts show shows broadcast broadcasts audience band bands stream streams "
    "event events album wire wires animals animal ammunition version performance television "
    "tv feed updates coverage chat recording performances bait"
)
_WHERE_PEOPLE_LIVE = word_set(
    "in at on with near here there by together alone long longer forever under through as up "
    "off for without happily next outside across a close"
)
_SAYS_WHAT_IT_IS = word_set("is are was were be been it's a the")


def _lives(context: WordContext) -> str:
    if context.before() in _HAVE_LIVES or context.before().endswith("s'"):
        return ""
    wanted = context.behind() in _WHERE_PEOPLE_LIVE and context.before() not in ("many", "more")
    return "verb" if wanted or is_verb(context) else ""


_HAVE_LIVES = word_set(
    "our their your my his her its the of many save saved saves lost lose human people's these "
    "those other daily double past private personal whose few nine two three several"
)


def _lead(context: WordContext) -> str:
    if context.behind() in _OF_LEAD or context.before() in _BESIDE_LEAD:
        return "noun"
    of_metal = context.before() in ("of", "in", "as") and context.ends_phrase
    beside = context.behind() in ("and", "or") and context.behind(2) in _METALS
    return "noun" if of_metal or beside else ""


_METALS = word_set("zinc copper tin mercury arsenic cadmium iron silver gold asbestos")
_OF_LEAD = word_set(
    "pipe pipes paint poisoning pencil pencils acid bullet bullets weights weight ore mine mines "
    "mining shot levels exposure contamination oxide crystal based battery batteries glass"
)
_BESIDE_LEAD = word_set("contain contains containing molten liquid melted")


def _bass(context: WordContext) -> str:
    return "" if _any_near(context, _FISHING) else "adjective"


_FISHING = word_set(
    "fish fishing fished caught catch lake river sea striped largemouth smallmouth freshwater "
    "grilled fried fillet boat pond"
)


def _bow(context: WordContext) -> str:
    if context.behind() in ("and", "tie", "ties") or _any_near(context, _ARCHERY):
        return ""
    taken = context.before() == "a" and context.before(2) in (
        "take",
        "takes",
        "took",
        "taking",
        "make",
    )
    if taken or is_verb(context) or context.before() in _BEFORE_BENDING:
        return "verb"
    of_ship = context.behind() == "of" and _any_near(context, frozenset(("ship", "boat", "vessel")))
    return "verb" if of_ship else ""


_BEFORE_BENDING = word_set("deep low slight polite ship's take final last")
_ARCHERY = word_set("arrow arrows violin string strings hair ribbon archer cello wooden")


def _wind(context: WordContext) -> str:
    if is_verb(context) or (
        context.behind() in ("up", "down") and context.before() in ("to", "", "and")
    ):
        return "verb"
    return ""


def _wound(context: WordContext) -> str:
    behind = context.behind()
    if behind in ("up", "down", "around", "round", "through", "its", "the", "tightly"):
        return "past"
    return "past" if context.before() in ("he", "she", "it", "i", "they", "we", "you") else ""


def _minute(context: WordContext) -> str:
    behind = context.behind()
    in_detail = context.before() in _VERY and (behind in _SMALL_THINGS or context.ends_phrase)
    return "adjective" if in_detail or behind in _SMALL_THINGS - {"detail", "amount"} else ""


_VERY = word_set("very so extremely most such with in")
_SMALL_THINGS = word_set("detail details amount amounts quantities particles differences")


def _close(context: WordContext) -> str:
    before, behind = context.before(), context.behind()
    if behind in _BEHIND_NEAR:
        return "verb" if context.governor() == "to" and behind != "to" else ""
    if is_verb(context) or behind in _BEHIND_CLOSING or before in _BEFORE_CLOSING:
        return "verb"
    at_the_end = before in ("the", "a") and (context.ends_phrase or behind == "of")
    return "verb" if at_the_end else ""


_BEHIND_NEAR = word_set("to by behind together enough friend friends call")
_BEHIND_CLOSING = word_set("the your it of down out my this")
_BEFORE_CLOSING = word_set("will would to we they shops stores")


def _closer(context: WordContext) -> str:
    person = context.before() in ("the", "a") and (
        context.ends_phrase or context.behind() in _BEHIND_PEOPLE
    )
    return "noun" if person else ""


_BEHIND_PEOPLE = word_set("is was has had who will can for")


def _used(context: WordContext) -> str:
    return "past" if context.behind() == "to" and context.before() not in _WITH_TOOLS else ""


_WITH_TOOLS = word_set("is are was were be being been it's commonly often widely mainly")


def _that(context: WordContext) -> str:
    if context.before() == "" or context.ends_phrase or context.behind() in ("of", "one"):
        return "that"
    return "that" if context.before() in _BEFORE_POINTING else ""


_BEFORE_POINTING = word_set("in at on for with by from of like about after before is do did does")


def _read(context: WordContext) -> str:
    if context.before() in ("well", "widely", "be", "is", "are", "was", "were", "been"):
        return "past"
    return "past" if is_past(context) else ""


def _tear(context: WordContext) -> str:
    if context.behind() in _OF_EYES:
        return ""
    if context.behind() in _BEHIND_TEARING or is_verb(context) or context.before(2) == "wear":
        return "verb"
    # "a tear in the cloth", but "a tear in her eye"
    is_rip = context.behind() == "in" or _any_near(context, _TORN, 5)
    return "verb" if is_rip and not _any_near(context, _WEEPING, 5) else ""


_WEEPING = word_set("eye eyes cheek cheeks face cry cried crying shed wept wiped joy sorrow sad")
_TORN = word_set(
    "cloth fabric canvas sail paper page muscle tendon ligament cartilage rotator meniscus retinal "
    "jacket dress jeans shirt net tent seam screen sleeve"
)
_OF_EYES = word_set("gas drop drops duct ducts")
_BEHIND_TEARING = word_set("apart down up off out it them through open the")


def _content(context: WordContext) -> str:
    pleased = context.governor() in _BEFORE_PLEASED
    fits = context.ends_phrase or context.behind() in ("with", "to", "and", "in")
    return "" if pleased and fits else "noun"


_BEFORE_PLEASED = word_set("is are was were be am i'm feel feels felt seem seems seemed perfectly")


def _invalid(context: WordContext) -> str:
    person = context.before() in ("an", "the") and (
        context.ends_phrase or context.behind() in _BEHIND_PEOPLE
    )
    return "noun" if person else ""


def _row(context: WordContext) -> str:
    if context.before() in _OF_SEATS or is_verb(context) or _any_near(context, _OF_LINES, 5):
        return ""
    quarrel = context.behind() in _BEHIND_QUARREL or context.before() in _BEFORE_QUARREL
    had = context.before() == "a" and context.before(2) in ("had", "have", "having")
    return "noun" if quarrel or had else ""


_OF_SEATS = word_set("front back first second third fourth last top bottom each every this next")
_OF_LINES = word_set(
    "houses trees seats chairs boat boats column columns table beans desks corn knit stitches data "
    "cell cells plants wins times days"
)
_BEHIND_QUARREL = word_set(
    "over about erupted broke kept escalated continues continued rumbles rumbled intensified "
    "deepened ended"
)
_BEFORE_QUARREL = word_set(
    "blazing diplomatic political angry furious bitter heated terrible huge public"
)


def _does(context: WordContext) -> str:
    """Tell deer from a verb: "two does", but "number two does it" and "two does not"."""
    before, behind = context.before(), context.behind()
    if behind in ("not", "n't", "it", "so", "this", "that", "the") or context.before(2) == "number":
        return ""
    beside_deer = before in ("and", "or") and context.before(2) in ("bucks", "stags", "fawns")
    return "noun" if beside_deer or before in _COUNTS_DEER else ""


_COUNTS_DEER = word_set("two three four five six seven eight nine ten several many few the young")


def _job(context: WordContext) -> str:
    of_bible = context.before() == "of" and context.before(2) in (
        "book",
        "patience",
        "trials",
        "story",
    )
    return "noun" if of_bible or context.behind(2) in ("verse", "verses") else ""


def _house(context: WordContext) -> str:
    return "verb" if is_verb(context) and context.before() not in ("you", "it") else ""


_SPECIAL: Mapping[str, Callable[[WordContext], str]] = {
    "bass": _bass,
    "bow": _bow,
    "close": _close,
    "closer": _closer,
    "consist": lambda context: "",
    "consists": lambda context: "",
    "content": _content,
    "does": _does,
    "house": _house,
    "invalid": _invalid,
    "job": _job,
    "lead": _lead,
    "live": _live,
    "lives": _lives,
    "minute": _minute,
    "read": _read,
    "row": _row,
    "tear": _tear,
    "that": _that,
    "used": _used,
    "wind": _wind,
    "wound": _wound,
}
