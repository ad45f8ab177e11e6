"""English forms of dense text: what logs, law, recipes, tables and commands are full of."""

from __future__ import annotations

import random
from collections.abc import Iterator

from .form import Form
from .saying import MONTHS, cardinal, decimal, digits, ordinal, pairs, year


def recipes(rng: random.Random) -> Iterator[Form]:
    """Yield amounts of a kitchen."""
    n = rng.randint(2, 9)
    said = cardinal(n)
    yield Form("recipe", f"{n} c. flour", f"{said} cups( of)? flour")
    yield Form("recipe", "1/3-1/2 cup", "one third to (a|one) half cup")
    yield Form("recipe", f"{n}-9 1/2 cups", f"{said} to nine and a half cups")
    yield Form("recipe", "1/2 c. milk", "(a|one) half( a)? cup( of)? milk")
    yield Form("recipe", f"{n}-1/2 c. water", f"{said} and (a|one) half cups( of)? water")
    yield Form("recipe", f"{n} tsp. salt", f"{said} teaspoons( of)? salt")
    yield Form("recipe", f"a {n}x13-in. pan", f"an? {said} by thirteen inch pan")
    yield Form("recipe", f"a {n}-oz. can", f"an? {said} ounce can")
    yield Form("recipe", f"{n}-{n + 2} Tbsp. oil", f"{said} to {cardinal(n + 2)} tablespoons oil")
    yield Form("recipe", "bake at 375°F", "bake at three hundred seventy five degrees fahrenheit")


def commands(rng: random.Random) -> Iterator[Form]:
    """Yield paths, options and lines of logs."""
    n = rng.randint(2, 9)
    said = cardinal(n)
    yield Form("command", "the --verbose option", "the (dash dash )verbose option")
    yield Form("command", "use -v twice", "use (dash|minus) v twice")
    yield Form("command", "in ~/.bashrc", "in tilde slash dot bashrc")
    yield Form("command", "in /etc/hosts", "in slash etc slash hosts")
    yield Form("command", r"in C:\Users", "in c colon backslash users")
    yield Form("command", f"attempt {n}/10", f"attempt {said} (of|out of) ten")
    yield Form("command", f"exit code -{n}", f"exit code (minus|negative) {said}")
    yield Form("command", f"foo=={n}.1.2", f"foo equals {said} point one point two")
    yield Form("command", f"PR #{n}00", f"p r number {said} hundred")
    yield Form("command", f"0x{n}F", f"zero x {said} f")
    yield Form("command", "k % 2", "k modulo two")
    yield Form("command", "a.util.Map", "a dot util dot map")
    yield Form("command", "http.server", "http dot server")


def clocks(rng: random.Random) -> Iterator[Form]:
    """Yield times as timetables, soldiers and logs write them."""
    hour, minute = rng.randint(13, 23), rng.randint(10, 59)
    said = f"{cardinal(hour)} {cardinal(minute)}"
    yield Form("clock", f"{hour}{minute} hrs", f"{said} hours")
    yield Form("clock", "0800 hours", "(zero|o|oh) eight hundred hours")
    yield Form(
        "clock", f"@ {hour - 12}:{minute}p", f"at {cardinal(hour - 12)} {cardinal(minute)} p m"
    )
    yield Form(
        "clock",
        f"{hour}:{minute}:07.250",
        f"{said} and seven point two five zero seconds",
    )
    yield Form("clock", f"{hour}h{minute}m", f"{cardinal(hour)} hours {cardinal(minute)} minutes")
    yield Form("clock", "open M-F 9-5", "open monday to friday nine to five")
    yield Form("clock", f"wait {minute // 10 * 10}s", f"wait {cardinal(minute // 10 * 10)} seconds")


def days(rng: random.Random) -> Iterator[Form]:
    """Yield days and spans of time in numbers and short names."""
    m, d, y = rng.randint(1, 12), rng.randint(13, 28), rng.randint(1901, 2023)
    month = MONTHS[m - 1]
    day = f"(the {ordinal(d)} of {month}|{month} (the )?{ordinal(d)})"
    yield Form("day", f"on {m}/{d}", f"on {day}")
    yield Form("day", f"Wed. {m}/{d}", f"wednesday {day}")
    yield Form("day", f"due {m}/{d}", f"due {day}")
    yield Form("day", "Jan-Mar", "jan(uary)? to mar(ch)?")
    yield Form("day", "Sept. 30-Oct. 2", "september (the )?thirtieth to october (the )?second")
    yield Form("day", f"b. {y}", f"born( in)? {year(y)}")
    yield Form("day", f"d. {month} {d}, {y}", f"died( on)? {day} {year(y)}")
    yield Form("day", "the 8th-9th c.", "the eighth to ninth century")


def laws(rng: random.Random) -> Iterator[Form]:
    """Yield citations."""
    n, m = rng.randint(2, 49), rng.randint(101, 989)
    said, page = cardinal(n), pairs(m)
    yield Form("law", f"{n} U.S.C. § {m}(a)", f"{said} u s c section {page} a")
    yield Form("law", f"No. {n}-{m}", f"number {said} dash {page}")
    yield Form("law", f"¶ {n}", f"paragraph {said}")
    yield Form("law", f"¶¶ {n}-{n + 2}", f"paragraphs {said} to {cardinal(n + 2)}")
    yield Form("law", f"{m} F.3d {n}", f"{page} f third {said}")
    yield Form("law", f"{m} F. Supp. 2d {n}", f"{page} f supplement second {said}")
    yield Form("law", f"{n} Fed. Reg. {m}", f"{said} federal register {page}")
    yield Form("law", f"§ {n}-{m}(a)", f"section {said} dash {page} a")
    yield Form("law", "Art. IV", "article four")
    yield Form("law", f"§ {n}.{m}", f"section {said} point ({page}|{digits(str(m))})")
    yield Form("law", "pp. ix-xi", "pages nine to eleven")
    yield Form("law", "Dr. Ho et al. (1999)", "doctor ho et al nineteen ninety nine", True)


def sciences(rng: random.Random) -> Iterator[Form]:
    """Yield measures of the sciences."""
    n, power = rng.randint(2, 9), rng.randint(4, 12)
    said = cardinal(n)
    ten = f"ten to the (power of {cardinal(power)}|{ordinal(power)})"
    yield Form(
        "science", f"{n}.5 × 10^{power} m/s", f"{decimal(f'{n}.5')} times {ten} meters per second"
    )
    yield Form("science", f"{n} x 10^{power}/L", f"{said} times {ten} per liter")
    yield Form("science", f"{n} mg/kg/day", f"{said} milligrams per kilogram per day")
    yield Form("science", f"{n}±1 mg", f"{said} plus or minus one milligrams?")
    yield Form("science", "p < 0.05", "p (is )?less than zero point zero five")
    yield Form(
        "science", f"{n + 30}°41′N", f"{cardinal(n + 30)} degrees forty one minutes north", True
    )
    yield Form("science", "CO2-neutral", "c o two neutral")
    yield Form("science", f"pH {n}.4", f"p ?h {decimal(f'{n}.4')}")


def places(rng: random.Random) -> Iterator[Form]:
    """Yield roads, states and machines."""
    n = rng.randint(21, 99)
    said = cardinal(n)
    yield Form("place", f"I-{n} N", f"i {said} north")
    yield Form("place", f"US-1{n}", f"u s {pairs(int(f'1{n}'))}")
    yield Form("place", "Salem, Mass., too", "salem massachusetts too", True)
    yield Form("place", "Sen. Ray (D-Tex.) too", "senator ray d texas too", True)
    yield Form("place", f"Hwy. {n}", f"highway {said}")
    yield Form("place", f"Bldg. {n}", f"building {said}")
    yield Form("place", "fe80::1", "f e eight zero colon colon one")
    yield Form(
        "place",
        "00:1a:2b",
        "(zero zero colon one a colon two b)",
    )


def finances(rng: random.Random) -> Iterator[Form]:
    """Yield sums and their ranges as news and banks write them."""
    n = rng.randint(2, 8)
    low, high = decimal(f"{n}.4"), decimal(f"{n}.9")
    yield Form("finance", f"${n}.4 bln", f"{low} billion dollars")
    yield Form("finance", f"${n}.4-${n}.9B", f"{low} to {high} billion dollars")
    yield Form("finance", f"€{n}.4–{n}.9 mln", f"{low} to {high} million euros")
    yield Form("finance", f"-${n}", f"(minus|negative) {cardinal(n)} dollars")
    yield Form("finance", f"${n}5/ea", f"{cardinal(n * 10 + 5)} dollars each")
    yield Form(
        "finance",
        f"${n}.10-${n}.30",
        f"{cardinal(n)} dollars and ten cents to {cardinal(n)} dollars and thirty cents",
    )
    yield Form("finance", f"a ${n}-{n + 1} fee", f"a {cardinal(n)} to {cardinal(n + 1)} dollar fee")
    yield Form(
        "finance", f"${n}K-$90,000", f"{cardinal(n)} thousand dollars to ninety thousand dollars"
    )
    yield Form("finance", f"${n}0 pp", f"{cardinal(n * 10)} dollars per person")
    yield Form("finance", "a Jan. sale", "a january sale")
    yield Form("finance", "sales y/y", "sales year over year")
    yield Form("finance", f"{n} bn in all", f"{cardinal(n)} billion in all")
    yield Form("finance", "March fees 4/1-4/30", "march fees april first to april thirtieth")


def medicines(rng: random.Random) -> Iterator[Form]:
    """Yield doses and notes."""
    n = rng.randint(2, 9)
    said = cardinal(n)
    yield Form("medicine", f"{n}0 mg PO BID", f"{cardinal(n * 10)} milligrams by mouth twice a day")
    yield Form("medicine", f"rest q{n}h prn", f"rest every {said} hours as needed")
    yield Form("medicine", f"one tab x {n} days", f"one tab for {said} days")
    yield Form("medicine", f"a 4{n} y/o man", f"a forty {said} years? old man")
    yield Form("medicine", f"at 3{n}w4d", f"at thirty {said} weeks four days")
    yield Form("medicine", f"tabs x {n}d", f"tabs for {said} days")
    yield Form("medicine", "pain c/o John", "pain care of john")
    yield Form("medicine", "men w/ pain", "men with pain")
    yield Form("medicine", f"Hb {n}.8 -> 8.1", f"hb {decimal(f'{n}.8')} to eight point one")


def sheets(rng: random.Random) -> Iterator[Form]:
    """Yield what lists, tables, dockets and formulas are full of."""
    n = rng.randint(2, 9)
    said = cardinal(n)
    yield Form("sheet", f"Blk. {n}", f"block {said}")
    yield Form("sheet", f"mm. {n}-12", f"measures {said} to twelve")
    yield Form("sheet", f"{n} T. oil", f"{said} tablespoons oil")
    yield Form("sheet", f"{n} lg. eggs", f"{said} large eggs")
    yield Form("sheet", f"{n}BR/1BA", f"{said} bedroom one bath")
    yield Form("sheet", f"Case {n}:18-cv-0076-L", f"case {said} eighteen c v zero zero seven six l")
    yield Form("sheet", f"Figs. {n}A-C", f"figures {said} a to c")
    yield Form("sheet", f'{n}"W x 4"H', f"{said} inches wide by four inches high")
    yield Form("sheet", f"{n}-6(3)", f"{said} to six three", True)
    yield Form("sheet", f"Mt {n}:3-12", f"matthew {said} verses three to twelve")
    yield Form("sheet", f"fee: 1/{n}50 s", f"fee one {ordinal(n * 100 + 50)} of a second")
    yield Form("sheet", f"Re^0.{n}", f"re to the power of zero point {said}")
    yield Form("sheet", "½gt²", "(one|a)? half g t squared")
    yield Form("sheet", "O(n^2) steps", "o of n squared steps", True)
    yield Form("sheet", f"sum(w) - {n}", f"sum w minus {said}", True)
    yield Form("sheet", "y = -x", "y equals minus x")
    yield Form("sheet", f"1.{n}G->640M", f"one point {said} g to six hundred forty m")
    yield Form("sheet", f"{n}% per mo. on", f"{said} percent per month on")
    yield Form("sheet", "a lg. bowl", "a large bowl")
    yield Form("sheet", f"Fed. R. Evid. {n}", f"federal rule of evidence {said}")
    yield Form("sheet", f"App. No. {n}", f"application number {said}")
    yield Form("sheet", f"x-{n}", f"x minus {said}")
    yield Form("sheet", "AgCl(s)", "a g c l solid")
    yield Form("sheet", f'{n}"w x 4"d', f"{said} inches wide by four inches deep")
    yield Form("sheet", "it was sent. to him", "it was sent to him")
    yield Form("sheet", "an ins. card", "an ins(urance)? card")
    yield Form("sheet", "if a !== b", "if a (is not|does not equal) b")


def ratings(rng: random.Random) -> Iterator[Form]:
    """Yield what parts stand: two values of one part, and not so much for so much."""
    n, volts = rng.randint(2, 9), rng.randint(12, 99)
    said, high = cardinal(n), cardinal(volts)
    between = "(slash |at )?"
    yield Form(
        "rating", f"{n}0nF/{volts}V", f"{cardinal(n * 10)} nanofarads {between}{high} volts", True
    )
    yield Form("rating", f"{n}uF/{volts}V", f"{said} microfarads {between}{high} volts", True)
    yield Form("rating", f"{volts}V/{n}A", f"{high} volts {between}{said} amp(ere)?s", True)
    yield Form("rating", f"{n}A/{volts}V", f"{said} amp(ere)?s {between}{high} volts", True)
    yield Form("rating", f"{n} g/100 g", f"{said} grams per (one )?hundred grams")


def designations(rng: random.Random) -> Iterator[Form]:
    """Yield numbers that are names behind letters or a noun."""
    four, five, n = rng.randint(1011, 9989), rng.randint(10101, 98989), rng.randint(1, 5)
    yield Form("designation", f"LW {four} to Oslo", f"l w {pairs(four)} to oslo")
    yield Form("designation", f"BA {four}", f"b a {pairs(four)}")
    yield Form("designation", f"R{n} 3:34", f"(round|r) {cardinal(n)} three thirty four", True)
    yield Form("designation", f"ZIP {five}", f"zip {digits(str(five))}")
    yield Form("designation", f"Order {five} shipped", f"order {digits(str(five))} shipped")
    yield Form("designation", f"invoice {five}", f"invoice {digits(str(five))}")
    yield Form("designation", f"{five} people", f"{cardinal(five)} people")
    yield Form("designation", f"chip #98511{five}", f"chip number {digits(f'98511{five}')}")
    yield Form("designation", f"SpO2 9{n}% on", f"spo two ninety {cardinal(n)} percent on", True)
    yield Form(
        "designation",
        "ISO 9001:2015",
        "i s o (nine thousand one|ninety o one) twenty fifteen",
        True,
    )
    yield Form("designation", f"Hwy 10{n} N", f"highway {pairs(100 + n)} north")


def notices(rng: random.Random) -> Iterator[Form]:
    """Yield what classifieds, shops, subtitles and drawings write."""
    n = rng.randint(2, 9)
    said = cardinal(n)
    yield Form(
        "notice",
        f"Fri-Sat 11a-1{n % 3}p here",
        f"friday to saturday eleven a m to {cardinal(10 + n % 3)} p m here",
    )
    yield Form("notice", f"it ships w/in {n} hrs. too", f"it ships within {said} hours too")
    yield Form("notice", f"a {n}0lb. bag", f"an? {cardinal(n * 10)} pounds? bag")
    yield Form(
        "notice",
        f"00:0{n}:23,450",
        f"{said} minutes (and )?twenty three point four five zero seconds",
    )
    yield Form(
        "notice",
        f"Nov 21 - Mon, Dec {n}",
        f"november twenty first to monday december {ordinal(n)}",
        True,
    )
    yield Form("notice", f"{n}'-6\"", f"{said} (feet|foot) six( inches)?")
    yield Form("notice", f"Beds: {n} | Baths: 2", f"beds {said} baths two", True)


MAKERS = (
    recipes, commands, clocks, days, laws, sciences, places, finances, medicines, sheets, ratings,
    designations, notices,
)  # fmt: skip
