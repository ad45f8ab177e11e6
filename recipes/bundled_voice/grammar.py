"""The grammar: patterns whose ``{slots}`` hold words, numbers or other patterns."""

from __future__ import annotations

import re
from collections.abc import Callable

from .counter_rng import CounterRng

_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\ba(?= (?!uni|use|usu|one|euro|uk)[aeiou])")

# Patterns, and what fills their slots. Numbers are written as digits: the package's own normaliser
# turns them into words, so training contains what users' texts become.
PATTERNS: dict[str, tuple[str, ...]] = {
    kind: tuple(lines.strip().splitlines())
    for kind, lines in {
        "np": """
the {thing}
the {adjective} {thing}
my {person}
her {person}
our {adjective} {person}
the {person}
{name}
{name} {surname}
the {animal}
this {thing}
a {adjective} {idea}
the {idea}
his {idea} of {ing} {things}
the {thing} in the {place}
the {person} from {city}
some {foods}
two {adjective} {animals}
the {food}
{name}'s {thing}
my {person}'s {adjective} {thing}
""",
        "who": """
i
you
we
they
{name}
{name} and {name}
my {person}
the {persons}
our {persons}
everybody in the {place}
""",
        "where": """
in the {place}
at the {place}
near the {place}
in {city}
next to the {thing}
under the {adjective} {thing}
behind the {place}
between the {place} and the {place}
on the way to {city}
at my {person}'s {place}
across the {place}
over there
on the {ordinal} floor
""",
        "when": """
today
tomorrow
yesterday {part}
last {day}
next {day}
this {part}
at {clock}
on {day}
on {date}
in {month}
in {year}
every {day}
before {clock}
after the {idea}
{small_number} days ago
for {small_number} hours
in {small_number} minutes
once a {unit}
since {year}
""",
        "amount": """
{number}
{small_number}
{money}
{percent}
{small_number} {unit}s
{decimal} kilometers
{decimal} degrees
about {number}
""",
        "clause": """
{who} {past} {np}
{who} {past} {np} {where}
{who} {past} {np} {when}
{who} never {past} {np}
{who} {past} {adverb} {where}
{who} will {base} {np} {when}
{who} would like to {base} {np}
{who} can {base} the {thing} {when}
{who} should {base} more {foods}
{who} had {participle} {np} before {clock}
i am {ing} {np} {when}
she is {ing} {where}
he is {ing} the {adjective} {thing}
they were {ing} {np} {where}
we have {participle} {np} {adverb}
i don't {base} {np}
i can't {base} the {thing} {where}
he didn't {base} {np} {when}
she {third} {np} {when}
he {third} the {things} {adverb}
my {person} {third} {where}
there is a {adjective} {thing} {where}
there are {small_number} {things} {where}
there were {number} {persons} {where}
{np} is {adjective}
{np} was {adjective} and {adjective}
{np} looks {adjective} {when}
{np} is too {adjective} for {np}
{np} is more {adjective} than {np}
{np} costs {money}
the {food} tastes {adjective}
the {food} and the {food} cost {money}
the {idea} begins at {clock}
the {idea} of the {idea} is {adjective}
the train to {city} leaves at {clock}
the bus from {city} arrives {when}
the flight to {city} takes {small_number} hours
it is {adjective} {where}
it is {clock}
it is {temperature} degrees {where}
it will be {adjective} {when}
it was {adjective} of {name} to {base} {np}
it rained {when}
the weather {where} is {adjective}
{name} was born on {date}
{name} lives {where}
{name} is {small_number} years old
{name} works as a {person} {where}
{name} paid {money} for {np}
my number is {phone}
the code is {digits}
the answer is {number}
{number} plus {number} is {number}
{percent} of the {persons} {past} {np}
the price went up by {percent}
we need {small_number} {foods} and {small_number} {foods}
put the {food} into the {thing}
please {base} the {thing} {where}
please don't {base} {np}
please call {name} {when}
let's {base} {np} {when}
bring {np} and {np} {when}
go {small_number} {unit_of_way} and turn left at the {place}
turn right {where}
""",
        "question": """
what is {np}
where is {np}
where are my {things}
when does the {idea} begin
when did {who} {base} {np}
why did {who} {base} {np}
who {past} {np}
who is the {person} {where}
how much is the {thing}
how many {things} did you {base}
how old is your {person}
how far is it from {city} to {city}
how do i get to the {place}
how was the {idea} {where}
which {thing} is {adjective}
whose {thing} is this
what time is it {where}
what did {name} {base} {when}
can you {base} {np}
can i {base} the {thing} {when}
could you please {base} the {thing}
could we {base} {where}
do you {base} {np}
do you have any {foods}
do you want {food} or {food}
did you {base} {np} {when}
does your {person} {base} {np}
is the {thing} {adjective}
is there a {place} {where}
are you {ing} {np}
are the {things} {where}
have you ever {participle} {np}
has {name} {participle} the {thing}
would you like some {food}
would you mind {ing} {np}
will you {base} {when}
shall we {base} {np} {where}
isn't the {thing} {adjective}
should i {base} {np}
was the {food} {adjective}
""",
        "short": """
yes
yes, please
no, thank you
of course
good morning
good night
good afternoon, {name}
hello
hello, {name}
goodbye, {name}
thank you
thank you very much
thanks
excuse me
i am sorry
sorry
well done
never mind
wait a minute
come here
come in
sit down
hurry up
be careful
be quiet
not now
not yet
why not
what
really
where
who
how
when
that's right
that's {adjective}
how {adjective}
i know
i see
i think so
i don't know
me too
it's {adjective}
the {thing}
{adjective}
{adverb}
{number}
{food}
{city}
{day}
see you {when}
happy birthday, {name}
take care
no problem
all right
nice to meet you
how are you
help
stop
look
listen
""",
        "opening": """
well
you know
i think
of course
by the way
to be honest
as far as i know
in the end
after that
last {day}
in {city}
in {year}
at {clock}
yesterday
tomorrow {part}
unfortunately
for example
first of all
listen
""",
        "joint": """
, and
, but
, so
because
when
while
if
, although
before
after
until
, and then
, which means that
since
""",
        "day": """
monday
tuesday
wednesday
thursday
friday
saturday
sunday
""",
        "part": """
morning
afternoon
evening
night
""",
        "unit": """
minute
hour
day
week
month
year
""",
        "unit_of_way": """
miles
steps
blocks
meters
""",
        "month": """
January
February
March
April
May
June
July
August
September
October
November
December
""",
        "date": """
{month} {of_month}
{month} {of_month}, {year}
the {ordinal} of {month}
""",
    }.items()
}

NUMBERS: dict[str, Callable[[CounterRng], str]] = {
    "clock": lambda rng: (
        f"{rng.integer(1, 12)}:{rng.pick((0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55)):02d}"
        + rng.pick(("", "", " a.m.", " p.m."))
    ),
    "money": lambda rng: (
        rng.pick("$$$€£")
        + rng.pick((f"{rng.integer(1, 99)}.{rng.integer(5, 99):02d}", f"{_large(rng)}"))
    ),
    "number": lambda rng: rng.pick((str(rng.below(100)), str(_large(rng)))),
    "small_number": lambda rng: str(rng.integer(2, 20)),
    "decimal": lambda rng: f"{rng.below(60)}.{rng.integer(1, 9)}",
    "percent": lambda rng: f"{rng.integer(1, 100)}%",
    "temperature": lambda rng: str(rng.integer(1, 99)),
    "year": lambda rng: str(rng.integer(1700, 2059)),
    "of_month": lambda rng: str(rng.integer(1, 31)),
    "ordinal": lambda rng: _ordinal(rng.integer(1, 31)),
    "phone": lambda rng: f"{rng.integer(200, 999)}-{rng.below(10000):04d}",
    "digits": lambda rng: " ".join(str(rng.below(10)) for _ in range(rng.integer(3, 6))),
}


def expand(pattern: str, rng: CounterRng, word: Callable[[str], str]) -> str:
    """Fill the slots of ``pattern``.

    Args:
        pattern: text with ``{slots}``.
        rng: chooses among patterns and numbers.
        word: returns a word of a kind that is neither a pattern nor a number ("thing", "past").
    """

    def fill(match: re.Match[str]) -> str:
        slot = match[1]
        if slot in PATTERNS:
            return expand(rng.pick(PATTERNS[slot]), rng, word)
        return NUMBERS[slot](rng) if slot in NUMBERS else word(slot)

    return _ARTICLE.sub("an", _SLOT.sub(fill, pattern))


def _large(rng: CounterRng) -> int:
    return rng.below(10 ** rng.integer(2, 5))


def _ordinal(number: int) -> str:
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
