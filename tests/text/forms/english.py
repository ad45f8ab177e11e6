"""English forms: by class, how people write a value, and every way to say it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from . import english_dense
from .form import Form
from .saying import MONTHS, cardinal, decimal, digits, ordinal, pairs, plural, year

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")


def forms(seed: int = 0) -> list[Form]:
    """Return forms of all classes, with values drawn by ``seed``."""
    rng = random.Random(seed)
    return [form for make in _MAKERS for _ in range(2) for form in make(rng)]


def _numbers(rng: random.Random) -> Iterator[Form]:
    value = rng.randint(3_000, 900_000)
    yield Form("number", f"{value:,} people", f"{cardinal(value)} people")
    small = rng.randint(2, 99)
    yield Form("number", f"{small} cats", f"{cardinal(small)} cats")
    part = f"{rng.randint(2, 40)}.{rng.randint(1, 9)}{rng.randint(1, 9)}"
    yield Form("number", f"a mean of {part}", f"a mean of {decimal(part)}")
    yield Form(
        "number", f"a share of .{small:02}", f"a share of (zero )?point {digits(f'{small:02}')}"
    )
    yield (
        Form("number", f"the {small}th", f"the {ordinal(small)}")
        if small % 10 > 3
        else Form("number", "the 21st", "the twenty first")
    )
    yield Form(
        "number",
        f"minus signs as in -{small}",
        f"minus signs as in (minus|negative) {cardinal(small)}",
    )


def _versions(rng: random.Random) -> Iterator[Form]:
    a, b, c, n = rng.randint(1, 9), rng.randint(1, 19), rng.randint(2, 18), rng.randint(1, 9)
    dot = "(point|dot)"
    core = f"{cardinal(a)} {dot} {cardinal(b)} {dot} {cardinal(c)}"
    two = f"{cardinal(a)} {dot} {cardinal(b)}"
    yield Form("version", f"Python {a}.{b}.{c}", f"python {core}")
    yield Form("version", f"pip {a}.{b}.{c}rc{n}", f"pip {core} rc {cardinal(n)}")
    yield Form("version", f"version {a}.{b}b{n}", f"version {two} b {cardinal(n)}")
    yield Form("version", f"{a}.{b}.{c}-rc.{n}", f"{core} rc {dot}? {cardinal(n)}")
    yield Form("version", f"v{a}.{b}.{c}-beta.{n}", f"(version|v) {core} beta {dot}? {cardinal(n)}")
    yield Form("version", f"v{a}.{b}", f"(version|v) {two}")
    yield Form(
        "version", f"alpha-{a}.beta.{n}", f"alpha {cardinal(a)} {dot} beta {dot}? {cardinal(n)}"
    )


def _dates(rng: random.Random) -> Iterator[Form]:
    y, m, d = rng.randint(1901, 2029), rng.randint(1, 12), rng.randint(13, 28)
    month, nth, said = MONTHS[m - 1], ordinal(d), year(y)
    day = f"(the {nth} of {month}|{month} (the )?{nth})"
    full = f"(the {nth} of {month}|{month} (the )?{nth}) {said}"
    yield Form("date", f"{y}-{m:02}-{d:02}", full)
    yield Form("date", f"{m}/{d}/{y}", full)
    yield Form("date", f"{y}.{m}.{d}", full)
    yield Form("date", f"{d} {month} {y}", full)
    yield Form("date", f"{month} {d}, {y}", full)
    yield (
        Form("date", f"{month[:3]}. {d}", day) if month != "May" else Form("date", f"May {d}", day)
    )
    yield Form("date", f"Tue {m:02}/{d:02}", f"tuesday {day}")
    yield Form("date", f"the {y // 10 * 10}s", f"the {plural(year(y // 10 * 10))}")
    hour, minute = rng.randint(1, 12), rng.randint(10, 59)
    clock = f"{cardinal(hour)} {cardinal(minute)}( (and )?zero seconds)?"
    zone = "(plus|u t c plus) two( hours)?"
    yield Form(
        "timestamp",
        f"{y}-{m:02}-{d:02}T{hour:02}:{minute}:00+02:00",
        f"{full} (at )?{clock} {zone}",
        True,
    )
    yield Form(
        "timestamp",
        f"{y}-{m:02}-{d:02}T{hour:02}:{minute}:00Z",
        f"{full} (at )?{clock} (z|u t c|zulu)",
        True,
    )
    yield Form("timestamp", f"{y}-{m:02}-{d:02} {hour:02}:{minute}", f"{full} (at )?{clock}", True)


def _times(rng: random.Random) -> Iterator[Form]:
    hour, minute = rng.randint(1, 12), rng.randint(10, 59)
    said = f"{cardinal(hour)} {cardinal(minute)}"
    yield Form("time", f"{hour}:{minute} pm", f"{said} p m")
    yield Form("time", f"{hour}:{minute}AM", f"{said} a m")
    yield Form("time", f"{hour} a.m. today", f"{cardinal(hour)} a m today")
    yield Form(
        "time",
        f"{hour}:0{minute % 9 + 1}",
        f"{cardinal(hour)} (o|oh|zero) {cardinal(minute % 9 + 1)}",
    )
    yield Form("time", f"{hour}:{minute}", said)


def _money(rng: random.Random) -> Iterator[Form]:
    a, b, cents = rng.randint(2, 9), rng.randint(100, 999), rng.randint(11, 99)
    thousand = cardinal(a * 1000 + b)
    yield Form("money", f"${a},{b}", f"{thousand} dollars")
    yield Form("money", f"~${a},{b}", f"(about|around|approximately|roughly) {thousand} dollars")
    yield Form("money", f"{a}.{b} €", f"{thousand} euros")
    yield Form("money", f"€{a}.{b},{cents}", f"{thousand} euros (and )?{cardinal(cents)}( cents)?")
    yield Form("money", f"${a}.{cents}", f"{cardinal(a)} dollars (and )?{cardinal(cents)} cents")
    yield Form(
        "money", f"${a}.{cents % 9 + 1}B", f"{decimal(f'{a}.{cents % 9 + 1}')} billion dollars"
    )
    yield Form(
        "money", f"£{a}.{cents % 9 + 1}m", f"{decimal(f'{a}.{cents % 9 + 1}')} million pounds"
    )
    yield Form("money", f"US${b}", f"(u s )?{cardinal(b)} (u s )?dollars")
    yield Form("money", f"${a}-${a + 3}", f"{cardinal(a)}( dollars)? to {cardinal(a + 3)} dollars")
    yield Form("money", f"under ${cents}/mo", f"under {cardinal(cents)} dollars (a|per) month")
    yield Form(
        "money",
        f">${cents}",
        f"(more|greater) than {cardinal(cents)} dollars|over {cardinal(cents)} dollars",
    )
    yield Form("money", f"-${cents}", f"(minus|negative) {cardinal(cents)} dollars")
    yield Form("scale", f"{a}.{cents % 9 + 1}B", f"{decimal(f'{a}.{cents % 9 + 1}')} (billion|b)")
    yield Form(
        "scale", f"{a}.{cents % 9 + 1}M users", f"{decimal(f'{a}.{cents % 9 + 1}')} million users"
    )
    yield Form("scale", f"{cents}k followers", f"{cardinal(cents)} thousand followers")


def _scores(rng: random.Random) -> Iterator[Form]:
    a, b = rng.randint(31, 49), rng.choice((50, 100))
    out = f"{cardinal(a)} (out of|of|over) {cardinal(b)}"
    yield Form("score", f"a score of {a}/{b}", f"a score of {out}")
    yield Form("score", f"{a}/{b} points", f"{out} points")
    yield Form("score", f"a mark of {a}/{b}", f"a mark of {out}")
    yield Form(
        "score",
        f"blood pressure {a + 90}/{b + 33}",
        f"blood pressure {cardinal(a + 90)} over {cardinal(b + 33)}",
    )
    yield Form("score", f"a BP of {a + 90}/80", f"a bp of {cardinal(a + 90)} over eighty")
    yield Form("score", "won 3-1", "won three (to )?one")
    yield Form(
        "score",
        f"beat them {a + 60}-{a + 50}",
        f"beat them {cardinal(a + 60)} (to )?{cardinal(a + 50)}",
    )


def _fractions(rng: random.Random) -> Iterator[Form]:
    w = rng.randint(2, 9)
    whole = cardinal(w)
    inches = "inch(es)?"
    yield Form("fraction", f"{w}-1/2 years", f"{whole} and (a|one) half years")
    yield Form("fraction", f"{w} 3/4 cups", f"{whole} and three (quarters|fourths) cups")
    yield Form("fraction", f"{w}½ hours", f"{whole} and (a|one) half hours")
    yield Form("fraction", "2/3 of them", "two thirds of them")
    yield Form("fraction", 'a 1/4" bolt', f"a (one |a )?(quarter|fourth)( of an)? {inches} bolt")
    yield Form("fraction", "5/8 in. of rain", f"five eighths (of an )?{inches} of rain")
    yield Form("fraction", f'a {w}-3/8" pipe', f"a {whole} and three eighths {inches} pipe")
    yield Form("fraction", "3/4 cup of milk", "three (quarters|fourths) (of a )?cup of milk")


def _ranges(rng: random.Random) -> Iterator[Form]:
    a = rng.randint(3, 40)
    low, high = cardinal(a), cardinal(a + 5)
    yield Form("range", f"pages {a}-{a + 5}", f"pages {low} to {high}")
    yield Form("range", f"{a}–{a + 5} minutes", f"{low} to {high} minutes")
    yield Form("range", f"{a}%-{a + 5}%", f"{low} percent to {high} percent")
    yield Form("range", f"ages {a}-{a + 5}", f"ages {low} to {high}")
    yield Form("range", "1994-1998", "nineteen ninety four to nineteen ninety eight")
    yield Form("range", f"{a}-{a + 5}%", f"{low} to {high} percent")
    yield Form("ratio", "a scale of 1:25,000", "a scale of one to twenty five thousand")
    yield Form("ratio", "a 16:9 screen", "a sixteen (to|by) nine screen")
    yield Form("ratio", f"odds of {a}:1", f"odds of {low} to one")
    yield Form("ratio", f"a ratio of {a}:{a + 5}", f"a ratio of {low} to {high}")


def _verses(rng: random.Random) -> Iterator[Form]:
    c, v = rng.randint(2, 21), rng.randint(2, 19)
    chapter, verse = f"(chapter )?{cardinal(c)} (verses? )?", f"{cardinal(v)}"
    book = rng.choice(("Mark", "John", "Genesis", "Luke", "Romans", "Isaiah"))
    yield Form("verse", f"{book} {c}:{v}", f"{book} {chapter} {verse}", True)
    yield Form(
        "verse", f"{book} {c}:{v}-{v + 3}", f"{book} {chapter} {verse} to {cardinal(v + 3)}", True
    )
    yield Form(
        "verse",
        f"{book} {c}:0{v % 9 + 1}",
        f"{book} {chapter} ((o|oh|zero) )?{cardinal(v % 9 + 1)}",
        True,
    )
    yield Form("verse", f"1 Cor. {c}:{v}", f"(one|first) (corinthians|cor) {chapter} {verse}", True)
    yield Form("verse", f"Ps. {c}:{v}", f"(psalms?) {chapter} {verse}", True)


def _plurals(rng: random.Random) -> Iterator[Form]:
    n = rng.randint(11, 99)
    letter = rng.choice("ABFGMT")
    name = f"{letter} {plural(cardinal(n))}"
    yield Form("plural", f"the {letter}-{n}s", f"the {name}")
    yield Form("plural", f"two {letter}{n}s", f"two {name}")
    yield Form("plural", "the 4x4s", "the four by fours")
    yield Form("plural", "B-2s", "b twos")
    yield Form(
        "plural",
        "the 747s",
        "the (seven forty sevens|seven hundred forty sevens|seven four sevens)",
    )
    yield Form("plural", "his MP3s", "his mp threes")
    yield Form(
        "plural",
        f"in her {n // 10 * 10 if n > 19 else 20}s",
        f"in her {plural(cardinal(n // 10 * 10 if n > 19 else 20))}",
    )
    yield Form("plural", f"{n} s", f"{cardinal(n)} seconds")
    yield Form("plural", f"{n}s timeout", f"{cardinal(n)} seconds? timeout")
    yield Form("plural", f"{n % 9 + 1}.2 s", f"{decimal(f'{n % 9 + 1}.2')} seconds")


def _names(rng: random.Random) -> Iterator[Form]:
    n, four = rng.randint(21, 99), rng.randint(1101, 8999)
    three = rng.randint(101, 989)
    yield Form("name", "dial 999", "dial nine nine nine")
    yield Form("name", "call 911", "call nine (one one|eleven)")
    yield Form("name", f"Rte. {n}", f"route {cardinal(n)}")
    yield Form("name", f"Flight BA {four}", f"flight b a {pairs(four)}")
    yield Form("name", f"flight UA{three}", f"flight u a {pairs(three)}")
    yield Form("name", f"Room {three}", f"room {pairs(three)}")
    yield Form("name", f"room B{three}", f"room b {pairs(three)}")
    yield Form(
        "name",
        "an RTX 3080",
        "an r t x (thirty eighty|three thousand eighty|three zero eight zero)",
    )
    yield Form(
        "name", "an RTX3080", "an r t x (thirty eighty|three thousand eighty|three zero eight zero)"
    )
    yield Form("name", f"ext. {four}", f"extension {pairs(four)}")
    yield Form("name", f"Hwy {n}", f"highway {cardinal(n)}")
    yield Form("name", f"gate {rng.choice('BCD')}{n}", f"gate (b|c|d) {cardinal(n)}")
    yield Form("name", f"P.O. Box {four}", f"p o box {pairs(four)}")
    yield Form("name", f"a PIN of {four}", f"a pin of {digits(str(four))}")


def _units(rng: random.Random) -> Iterator[Form]:
    n = rng.choice((4, 8, 16, 32, 64))
    said = cardinal(n)
    half = f"{n}.5"
    yield Form("unit", f"{n}GB of memory", f"{said} gigabytes of memory")
    yield Form("unit", f"{n} GB/s", f"{said} gigabytes (per|a) second")
    yield Form("unit", f"{n} bps", f"{said} basis points")
    yield Form("unit", f"a fever of {half}C", f"a fever of {decimal(half)} degrees celsius")
    yield Form("unit", f"{half}°C", f"{decimal(half)} degrees celsius")
    yield Form("unit", f"~{n}°F", f"(about|around|roughly|approximately) {said} degrees fahrenheit")
    yield Form("unit", f"a {n}-mo-old baby", f"a {said} months? old baby")
    yield Form("unit", f"a {n}-yr-old girl", f"a {said} years? old girl")
    yield Form("unit", f"the {n}Y bond", f"the {said} years? bond")
    yield Form("unit", f"{n} km²", f"{said} square kilometers")
    yield Form("unit", f"{n} mph", f"{said} miles (per|an) hour")
    yield Form("unit", f"{n} lbs.", f"{said} pounds")
    yield Form("unit", f"{n} ft. tall", f"{said} feet tall")
    yield Form("unit", f"a {n}-ft pole", f"a {said} foot pole")
    yield Form("unit", f"{n} mg/dL", f"{said} milligrams per deciliter")
    yield Form("unit", f"{n}%", f"{said} percent")
    yield Form(
        "unit", f"an angle of {n}° 22′", f"an angle of {said} degrees twenty two minutes", True
    )
    yield Form("unit", f"{n}hr", f"{said} hours?")


def _abbreviations(rng: random.Random) -> Iterator[Form]:
    n = rng.randint(2, 12)
    said = cardinal(n)
    yield Form("abbreviation", f"vol. {_ROMAN[n - 1]}", f"volume {said}")
    yield Form("abbreviation", f"Vol. {n}", f"volume {said}")
    yield Form("abbreviation", "Lat. 40.5", "latitude forty point five")
    yield Form("abbreviation", f"long. {n}", f"longitude {said}")
    yield Form("abbreviation", f"the {ordinal(n)} fl.", f"the {ordinal(n)} floor")
    yield Form("abbreviation", "the 3rd fl. of it", "the third floor of it")
    yield Form("abbreviation", "Roe v. Wade", "roe (v|versus) wade")
    yield Form("abbreviation", "United States v. Nixon", "united states (v|versus) nixon")
    yield Form("abbreviation", "c. 1900", "(circa|about|around) nineteen hundred")
    yield Form("abbreviation", f"Temp. {n + 20}", f"temperature {cardinal(n + 20)}")
    yield Form("abbreviation", f"pp. {n}-{n + 8}", f"pages {said} to {cardinal(n + 8)}")
    yield Form("abbreviation", f"approx. {n} of them", f"approximately {said} of them")
    yield Form("abbreviation", f"min. {n} people", f"minimum( of)? {said} people")
    yield Form("abbreviation", f"est. 19{n + 20}", f"established nineteen {cardinal(n + 20)}")
    yield Form("abbreviation", f"Fig. {n}b", f"figure {said} b")
    yield Form("abbreviation", "Gen. Smith", "general smith")
    yield Form("abbreviation", "Smith et al. say", "smith et al say")
    yield Form("abbreviation", "the mins. and secs.", "the minutes and seconds")
    yield Form("abbreviation", "I sat. You stood there", r"i sat\.you stood there")
    yield Form("abbreviation", "it is long. You stood there", r"it is long\.you stood there")


def _references(rng: random.Random) -> Iterator[Form]:
    n, m = rng.randint(2, 19), rng.randint(2, 9)
    said, inner = cardinal(n), cardinal(m)
    iii = "(three|i i i|little three|roman three)"
    yield Form("reference", f"Sec. {n}(a)(iii)", f"section {said} a {iii}")
    yield Form("reference", f"Art. {n}({m})(f)", f"article {said} {inner} f")
    yield Form("reference", f"Rule {n}(b)({m})", f"rule {said} b {inner}")
    yield Form("reference", f"{n} U.S.C. § {1000 + m}", f"{said} u s c section {pairs(1000 + m)}")
    yield Form("reference", f"§ {n}", f"section {said}")
    yield Form("reference", f"§§ {n}-{n + 3}", f"sections {said} to {cardinal(n + 3)}")
    yield Form(
        "reference", f"section {n}.{m}.2", f"section {said} (point|dot) {inner} (point|dot) two"
    )
    yield Form("reference", f"Appendix B.{m}", f"appendix b( point| dot)? {inner}")
    yield Form("reference", f"Figure {n}-{m}", f"figure {said}( dash)? {inner}")
    yield Form("reference", f"Table {n}.{m}", f"table {said} (point|dot) {inner}")
    yield Form("reference", f"item C.{m}.a", f"item c( point| dot)? {inner}( point| dot)? a")


def _symbols(rng: random.Random) -> Iterator[Form]:
    n = rng.randint(3, 90)
    said = cardinal(n)
    about = "(about|around|roughly|approximately)"
    yield Form("symbol", "a C# class", "a c sharp class")
    yield Form("symbol", "an F# chord", "an f sharp chord")
    yield Form("symbol", "C++ code", "c plus plus code")
    yield Form("symbol", f">{n}", f"(more|greater) than {said}|over {said}")
    yield Form("symbol", f"<{n}", f"(less|fewer) than {said}|under {said}")
    yield Form("symbol", f"≥{n}", f"(at least|greater than or equal to) {said}")
    yield Form("symbol", f"<= {n}", f"(at most|less than or equal to) {said}")
    yield Form("symbol", f"~{n}", f"{about} {said}")
    yield Form("symbol", f"≈{n}", f"{about} {said}")
    yield Form("symbol", f"±{n}", f"plus or minus {said}")
    yield Form("symbol", "∠B", "(the )?angle b")
    yield Form("symbol", f"No. {n}", f"number {said}")
    yield Form("symbol", f"#{n}", f"number {said}")
    yield Form(
        "symbol", f"{n}+ people", f"{said} plus people|more than {said} people|over {said} people"
    )
    yield Form("symbol", f"x > {n}", f"x (is )?(more|greater) than {said}")
    yield Form("symbol", f"{n} × 3", f"{said} (times|by) three")
    yield Form("symbol", "Q&A", "q and a")
    yield Form("symbol", "open 24/7", "open twenty four seven")
    yield Form("symbol", "the A/B test", "the a( slash)? b test")
    yield Form("symbol", f"2^{n}", f"two to the (power of {said}|{ordinal(n)}( power)?)")


def _addresses(rng: random.Random) -> Iterator[Form]:
    a, b, c = rng.randint(10, 199), rng.randint(1, 99), rng.choice((8, 12, 16, 24))

    def part(value: int) -> str:
        return f"({digits(str(value))}|{cardinal(value)})"

    ip = f"{part(a)} (dot|point) {part(b)} (dot|point) zero (dot|point) zero"
    yield Form("address", f"{a}.{b}.0.0", ip)
    yield Form("address", f"{a}.{b}.0.0/{c}", f"{ip} slash {part(c)}")
    yield Form("address", f"{a}.{b}.0.0:8080", f"{ip} (port|colon) {pairs(8080)}", True)
    yield Form("address", "www.example.com", "(w w w dot )?example dot com")
    yield Form("address", f"me{b}@mail.org", f"me {part(b)} at mail dot org")
    yield Form("address", "setup.py", "setup dot py")
    yield Form("address", "os.path.join", "os dot path dot join")
    yield Form("address", "Node.js", "node dot js")
    four, three = str(rng.randint(1000, 9999)), str(rng.randint(200, 999))
    said = f"{digits(three)} {digits('555')} {digits(four)}"
    yield Form("phone", f"({three}) 555-{four}", said, True)
    yield Form("phone", f"{three}-555-{four}", said, True)
    yield Form("phone", f"+1 {three} 555 {four}", f"plus one {said}", True)
    yield Form("phone", f"{three}.555.{four}", said, True)


_MAKERS = (
    _numbers, _versions, _dates, _times, _money, _scores, _fractions, _ranges, _verses, _plurals,
    _names, _units, _abbreviations, _references, _symbols, _addresses, *english_dense.MAKERS,
)  # fmt: skip
