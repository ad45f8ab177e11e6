"""Words that are written alike and said in several ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .dictionary import Entry
from .part_of_speech import Place, is_adjective, is_noun, is_past, is_verb
from .word_sets import word_set


def reading(entry: Entry, place: Place) -> str:
    """Return the phonemes of ``entry`` that fit ``place``."""
    others = entry.others
    if not others:
        return entry.phonemes
    special = _SPECIAL.get(place.word)
    if special is not None:
        return others.get(special(place), entry.phonemes)
    if "end" in others and place.ends_phrase:
        return others["end"]
    if "adjective" in others and "verb" not in others and place.word.endswith("ate"):
        return entry.phonemes if is_verb(place) else others["adjective"]  # "deliberate"
    for part, fits in _TESTS.items():
        if part in others and fits(place):
            return others[part] or entry.phonemes
    return entry.phonemes


_TESTS: Mapping[str, Callable[[Place], bool]] = {
    "past": is_past,
    "verb": is_verb,
    "noun": is_noun,
    "adjective": is_adjective,
    "adverb": lambda place: place.ends_phrase,
}


def _any_near(place: Place, words: frozenset[str], reach: int = 4) -> bool:
    near = [*map(place.before, range(1, reach)), *map(place.behind, range(1, reach))]
    return not words.isdisjoint(near)


def _live(place: Place) -> str:
    if place.before() in _ON_AIR or place.behind() in _AT_CONCERTS:
        return ""
    if is_verb(place):
        return "verb"
    if place.behind() in _WHERE_PEOPLE_LIVE and place.before() not in _SAYS_WHAT_IT_IS:
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


def _lives(place: Place) -> str:
    if place.before() in _HAVE_LIVES or place.before().endswith("s'"):
        return ""
    wanted = place.behind() in _WHERE_PEOPLE_LIVE and place.before() not in ("many", "more")
    return "verb" if wanted or is_verb(place) else ""


_HAVE_LIVES = word_set(
    "our their your my his her its the of many save saved saves lost lose human people's these "
    "those other daily double past private personal whose few nine two three several"
)


def _lead(place: Place) -> str:
    if place.behind() in _OF_LEAD or place.before() in _BESIDE_LEAD:
        return "noun"
    of_metal = place.before() in ("of", "in", "as") and place.ends_phrase
    beside = place.behind() in ("and", "or") and place.behind(2) in _METALS
    return "noun" if of_metal or beside else ""


_METALS = word_set("zinc copper tin mercury arsenic cadmium iron silver gold asbestos")
_OF_LEAD = word_set(
    "pipe pipes paint poisoning pencil pencils acid bullet bullets weights weight ore mine mines "
    "mining shot levels exposure contamination oxide crystal based battery batteries glass"
)
_BESIDE_LEAD = word_set("contain contains containing molten liquid melted")


def _bass(place: Place) -> str:
    return "" if _any_near(place, _FISHING) else "adjective"


_FISHING = word_set(
    "fish fishing fished caught catch lake river sea striped largemouth smallmouth freshwater "
    "grilled fried fillet boat pond"
)


def _bow(place: Place) -> str:
    if place.behind() in ("and", "tie", "ties") or _any_near(place, _ARCHERY):
        return ""
    taken = place.before() == "a" and place.before(2) in ("take", "takes", "took", "taking", "make")
    if taken or is_verb(place) or place.before() in _BEFORE_BENDING:
        return "verb"
    of_ship = place.behind() == "of" and _any_near(place, frozenset(("ship", "boat", "vessel")))
    return "verb" if of_ship else ""


_BEFORE_BENDING = word_set("deep low slight polite ship's take final last")
_ARCHERY = word_set("arrow arrows violin string strings hair ribbon archer cello wooden")


def _wind(place: Place) -> str:
    if is_verb(place) or (place.behind() in ("up", "down") and place.before() in ("to", "", "and")):
        return "verb"
    return ""


def _wound(place: Place) -> str:
    behind = place.behind()
    if behind in ("up", "down", "around", "round", "through", "its", "the", "tightly"):
        return "past"
    return "past" if place.before() in ("he", "she", "it", "i", "they", "we", "you") else ""


def _minute(place: Place) -> str:
    behind = place.behind()
    in_detail = place.before() in _VERY and (behind in _SMALL_THINGS or place.ends_phrase)
    return "adjective" if in_detail or behind in _SMALL_THINGS - {"detail", "amount"} else ""


_VERY = word_set("very so extremely most such with in")
_SMALL_THINGS = word_set("detail details amount amounts quantities particles differences")


def _close(place: Place) -> str:
    before, behind = place.before(), place.behind()
    if behind in _BEHIND_NEAR:
        return "verb" if place.governor() == "to" and behind != "to" else ""
    if is_verb(place) or behind in _BEHIND_CLOSING or before in _BEFORE_CLOSING:
        return "verb"
    at_the_end = before in ("the", "a") and (place.ends_phrase or behind == "of")
    return "verb" if at_the_end else ""


_BEHIND_NEAR = word_set("to by behind together enough friend friends call")
_BEHIND_CLOSING = word_set("the your it of down out my this")
_BEFORE_CLOSING = word_set("will would to we they shops stores")


def _closer(place: Place) -> str:
    person = place.before() in ("the", "a") and (
        place.ends_phrase or place.behind() in _BEHIND_PEOPLE
    )
    return "noun" if person else ""


_BEHIND_PEOPLE = word_set("is was has had who will can for")


def _used(place: Place) -> str:
    return "past" if place.behind() == "to" and place.before() not in _WITH_TOOLS else ""


_WITH_TOOLS = word_set("is are was were be being been it's commonly often widely mainly")


def _that(place: Place) -> str:
    if place.before() == "" or place.ends_phrase or place.behind() in ("of", "one"):
        return "that"
    return "that" if place.before() in _BEFORE_POINTING else ""


_BEFORE_POINTING = word_set("in at on for with by from of like about after before is do did does")


def _read(place: Place) -> str:
    if place.before() in ("well", "widely", "be", "is", "are", "was", "were", "been"):
        return "past"
    return "past" if is_past(place) else ""


def _tear(place: Place) -> str:
    if place.behind() in _OF_EYES:
        return ""
    if place.behind() in _BEHIND_TEARING or is_verb(place) or place.before(2) == "wear":
        return "verb"
    # "a tear in the cloth", but "a tear in her eye"
    is_rip = place.behind() == "in" or _any_near(place, _TORN, 5)
    return "verb" if is_rip and not _any_near(place, _WEEPING, 5) else ""


_WEEPING = word_set("eye eyes cheek cheeks face cry cried crying shed wept wiped joy sorrow sad")
_TORN = word_set(
    "cloth fabric canvas sail paper page muscle tendon ligament cartilage rotator meniscus retinal "
    "jacket dress jeans shirt net tent seam screen sleeve"
)
_OF_EYES = word_set("gas drop drops duct ducts")
_BEHIND_TEARING = word_set("apart down up off out it them through open the")


def _content(place: Place) -> str:
    pleased = place.governor() in _BEFORE_PLEASED
    fits = place.ends_phrase or place.behind() in ("with", "to", "and", "in")
    return "" if pleased and fits else "noun"


_BEFORE_PLEASED = word_set("is are was were be am i'm feel feels felt seem seems seemed perfectly")


def _invalid(place: Place) -> str:
    person = place.before() in ("an", "the") and (
        place.ends_phrase or place.behind() in _BEHIND_PEOPLE
    )
    return "noun" if person else ""


def _row(place: Place) -> str:
    if place.before() in _OF_SEATS or is_verb(place) or _any_near(place, _OF_LINES, 5):
        return ""
    quarrel = place.behind() in _BEHIND_QUARREL or place.before() in _BEFORE_QUARREL
    had = place.before() == "a" and place.before(2) in ("had", "have", "having")
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


def _does(place: Place) -> str:
    """Tell deer from a verb: "two does", but "number two does it" and "two does not"."""
    before, behind = place.before(), place.behind()
    if behind in ("not", "n't", "it", "so", "this", "that", "the") or place.before(2) == "number":
        return ""
    beside_deer = before in ("and", "or") and place.before(2) in ("bucks", "stags", "fawns")
    return "noun" if beside_deer or before in _COUNTS_DEER else ""


_COUNTS_DEER = word_set("two three four five six seven eight nine ten several many few the young")


def _job(place: Place) -> str:
    of_bible = place.before() == "of" and place.before(2) in ("book", "patience", "trials", "story")
    return "noun" if of_bible or place.behind(2) in ("verse", "verses") else ""


def _house(place: Place) -> str:
    return "verb" if is_verb(place) and place.before() not in ("you", "it") else ""


_SPECIAL: Mapping[str, Callable[[Place], str]] = {
    "bass": _bass,
    "bow": _bow,
    "close": _close,
    "closer": _closer,
    "consist": lambda place: "",
    "consists": lambda place: "",
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
