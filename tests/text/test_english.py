"""English numbers, money, dates, times, numbers to call, symbols and abbreviations."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ChatTTS.text.english import read_english
from ChatTTS.text.number_words import english_number


def read(text: str) -> str:
    words = " ".join(read_english(text).split())
    return re.sub(r" (?=[,.;:!?)])", "", words)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("0", "zero"),
        ("13", "thirteen"),
        ("40", "forty"),
        ("105", "one hundred five"),
        ("1,234,567", "one million two hundred thirty four thousand five hundred sixty seven"),
        ("1000000", "one million"),
        ("12.50", "twelve point five zero"),
        (".5", "zero point five"),
        ("007", "zero zero seven"),
        ("9" * 16, " ".join(["nine"] * 16)),
    ],
)
def test_plain_numbers(written: str, words: str) -> None:
    assert english_number(written) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # money
        ("$5.20", "five dollars and twenty cents"),
        ("$5.00 and $0.00", "five dollars and zero cents"),
        ("$1 or $0.50", "one dollar or fifty cents"),
        ("HK$0.50 or A$5.50", "fifty Hong Kong cents or five Australian dollars and fifty cents"),
        ("$1,000.50", "one thousand dollars and fifty cents"),
        ("£15.50 and €20", "fifteen pounds and fifty pence and twenty euros"),
        ("$1.5 million, $3M", "one point five million dollars, three million dollars"),
        ("$5-$10", "five dollars to ten dollars"),
        ("5€, 25¢", "five euros, twenty five cents"),
        # dates and times
        ("on 2024-05-03", "on the third of may twenty twenty four"),
        ("27-Aug-02 to 3-May-2021", "August twenty seventh, o two to May third, twenty twenty one"),
        ("May 3rd, 2024", "May third, twenty twenty four"),
        ("Oct. 3", "October third"),
        ("the 3rd of May", "the third of May"),
        ("12 Dec 1999", "the twelfth of December nineteen ninety nine"),
        ("in 1984 and 2010", "in nineteen eighty four and twenty ten"),
        ("the 1980s and the 90s", "the nineteen eighties and the nineties"),
        ("1990-2000", "nineteen ninety to two thousand"),
        ("at 3:30 p.m. today", "at three thirty p m today"),
        ("at 7:00 am", "at seven a m"),
        ("at 10:05", "at ten o five"),
        ("bus at 6:30 6:45", "bus at six thirty, six forty five"),
        ("324 PM or 1200 am", "three twenty four p m or twelve a m"),
        (
            "open 11.00-14.30, 11.00-14.30 kg",
            "open eleven o'clock to fourteen thirty, eleven point zero zero to fourteen point "
            "three zero kilograms",
        ),
        ("2pm-4pm", "two p m to four p m"),
        # numbers to call
        ("555-123-4567", "five five five, one two three, four five six seven"),
        ("+1 (555) 123-4567", "plus one, five five five, one two three, four five six seven"),
        ("call 555-1234", "call five five five, one two three four"),
        # quantities
        ("50%, 12.5 %", "fifty percent, twelve point five percent"),
        ("3°, 1°, 20°C", "three degrees, one degree, twenty degrees Celsius"),
        ("5km, 1 kg, 6 ft", "five kilometers, one kilogram, six feet"),
        ("60 km/h", "sixty kilometers per hour"),
        ("1/2, 3/4, 2 1/2", "one half, three quarters, two and a half"),
        ("1st 2nd 23rd", "first second twenty third"),
        ("10-20 people", "ten to twenty people"),
        (
            '18"-36" apart, 36"in all',
            "eighteen inches to thirty six inches apart, thirty six inches all",
        ),
        ("x = - 5", "x equals minus five"),
        (
            "3000' up to runway 13R/31L",
            "three thousand feet up to runway one three right, three one left",
        ),
        ("-5 and 3 - 2 = 1", "minus five and three minus two equals one"),
        ("3 + 4 = 7", "three plus four equals seven"),
        # names with digits
        ("4x4", "four by four"),
        ("2x faster", "two times faster"),
        ("e.g. B2B", "for example B two B"),
        ("v2.0 and v2.0.1.", "version two point zero and version two point zero point one."),
        ("#5 in COVID-19", "number five in COVID nineteen"),
        ("mp3, F-16", "M P three, F sixteen"),
        ("flight BA2490", "flight BA two four nine zero"),
        ("World War II", "World War two"),
        # symbols
        ("A&B", "A and B"),
        ("user@mail.com", "user at mail dot com"),
        ("https://www.example.com/docs?a=1.", "example dot com slash docs."),
        ("see README.md", "see README dot md"),
        # abbreviations
        ("Mr. Smith and Dr. Lee", "mister Smith and doctor Lee"),
        ("Mr Smith", "mister Smith"),
        ("St. James St. in town", "saint James street in town"),
        ("cats, dogs, etc. Then", "cats, dogs, et cetera. Then"),
        ("cats, etc. and dogs", "cats, et cetera and dogs"),
        ("We left at 5 p.m. It rained.", "We left at five p m. It rained."),
        ("No. 5 is alive", "number five is alive"),
        ("No. I won't", "No. I won't"),
        ("the BBC, the US", "the B B C, the U S"),
        ("J. R. Smith", "J R Smith"),
        # what one class says, and the unit of another behind it
        (
            "1 234 567 g, 2 1/2 lb, 1/2 tsp",
            "one million two hundred thirty four thousand five hundred sixty seven grams, two and "
            "a half pounds, one half teaspoon",
        ),
        (
            "2010 km, 1900-2000 m",
            "two thousand ten kilometers, one thousand nine hundred to two thousand meters",
        ),
        (
            "a 5 km run, a 90° turn, 2x8 m2",
            "a five kilometer run, a ninety degree turn, two by eight square meters",
        ),
        (
            "3 calls/10 s, 7 min/mi, 2 per day/person",
            "three calls per ten seconds, seven minutes per mile, two per day per person",
        ),
        (
            "3.0×10^8 m/s, 5,00,000 kg",
            "three point zero times ten to the power of eight meters per second, five hundred "
            "thousand kilograms",
        ),
        (
            "28/35 mpg, max. 8/24 h",
            "twenty eight, thirty five miles per gallon, maximum eight per twenty four hours",
        ),
        ('It says "4 lbs." there, 5 a.m. ET', 'It says "four pounds" there, five a m ET'),
        (
            "Seas 5 ft, vsby 1 nm; 500 mm, 2 NM",
            "Seas five feet, vsby one nautical mile; five hundred millimeters, two nautical miles",
        ),
        ("an 85# bag, tide 5.9', low", "an eighty five pounds bag, tide five point nine feet, low"),
        # hours without a colon
        ("the 07.42 weighs 07.5 kg", "the seven forty two weighs zero seven point five kilograms"),
        (
            "open 0600-2330, dep. SFO, arr. 1545",
            "open o six hundred to twenty three thirty, departing SFO, arriving fifteen forty five",
        ),
        (
            "meet at 930 for $945 or 930",
            "meet at nine thirty for nine hundred forty five dollars or nine hundred thirty",
        ),
        # names with a hyphen or without a space
        (
            "Dkt. 118-2, UA 1175 SFO-HNL, born 14thMarch",
            "docket one hundred eighteen dash two, UA eleven seventy five SFO to H N L, born the "
            "fourteenth of March",
        ),
        (
            "11-19 FG, 2 cts. of it, 31014G",
            "eleven of nineteen F G, two counts of it, three one zero one four G",
        ),
        # abbreviations that no table has, and short words that end a sentence
        ("the mot. to dismiss, incl. in id. at 5", "the mot to dismiss, incl in id at five"),
        ("Add 2 tbs. milk (1 oz.) or so", "Add two tablespoons milk (one ounce) or so"),
        ("It was red. then we ate eggs. 5 came", "It was red. then we ate eggs. five came"),
        ("Fed. Bankr. Ct. Smith", "Fed Bankr Ct Smith"),
        ("Ask Tom. We left. Hmm. So", "Ask Tom. We left. Hmm. So"),
        ("made in chem., law", "made in chem, law"),
        ("ArCl (1 equiv.), a descr. sketch", "ArCl (one equiv), a descr sketch"),
        ("Tie (11 inn.): Jos. (sic.) Lett", "Tie (eleven inn): Jos (sic) Lett"),
        ("Left it (It rained.) Then", "Left it (It rained.) Then"),
        (
            "Hist. of Va., &c., pp. 3 in the per. last",
            "Hist of Virginia, et cetera, pages three in the per last",
        ),
        ("Bath Co., Va. and rm. B; call", "Bath county, Virginia and room B; call"),
        ("wk. of 9/14, Tue. @ 10", "wk of September fourteenth, Tuesday at ten"),
        ("m. (2) 1880 Mary E., dau.", "married (two) eighteen eighty Mary E, dau."),
        (
            "f(n.status) in v0.5.2-1",
            "f(N dot status) in version zero point five point two dash one",
        ),
        # signs that no class knows
        ("set $HOME/bin, *.pyc or .py", "set dollar HOME slash bin, star dot pyc or dot py"),
        ("ls -la -O2 -Wall", "ls dash la dash O two dash Wall"),
        (r"\d+ in std::map", "backslash d plus in std colon colon map"),
        (
            "10.1000/ab.2023.17",
            "ten dot one thousand slash ab dot two thousand twenty three dot seventeen",
        ),
        ("|x|, x**n, i - 1", "the absolute value of x, x to the power of n, i minus one"),
        ("Knit, * k2, rep from * to end", "Knit, star k two, rep from star to end"),
        ("a ≃ b ⊕ c", "a asymptotically equal to b circled plus c"),
        (
            "8086:157B at 0:0:0:1:",
            "eight zero eight six colon one five seven B at zero colon zero colon zero colon one:",
        ),
        # codes, dates and ranges as classes
        (
            "Boeing 737-8, invoice #4521",
            "Boeing seven thirty seven eight, invoice number four five two one",
        ),
        ("Jan. 3 - Feb. 5, Sept.-Oct.", "January third to February fifth, September to October."),
        (
            "17 may 2010, 3e-4",
            "the seventeenth of May twenty ten, three times ten to the power of minus four",
        ),
        ("6a-9p, 5 p.m.-7 p.m. Then", "six a m to nine p m, five p m to seven p m. Then"),
        ("5k-6k, 3 x 4 = 12", "five thousand to six thousand, three times four equals twelve"),
        (
            "Gas: reg. $3.39; it is red. $5",
            "Gas: reg three dollars and thirty nine cents; it is red. five dollars",
        ),
        ("75°F/19°C", "seventy five degrees Fahrenheit slash nineteen degrees Celsius"),
        # strokes and stars: "per", "slash", a pause or a saying, and never nothing
        (
            "2 cal./day on 22/28 mpg",
            "two calories per day on twenty two slash twenty eight miles per gallon",
        ),
        ("35/8/12, HTTP/2, f/2", "thirty five, eight, twelve, H T T P slash two, f two"),
        ("80/20, 24/7 and/or W/D", "eighty twenty, twenty four seven and or W D"),
        ("P1, *K1, a[i] * b[j] as % v", "P one, star K one, a[i] times b[j] as percent v"),
        ("12-4-1, leads V1-V4", "twelve, four, one, leads V one to V four"),
        (
            "$5/sh, 2 deg2, 67,5 kg",
            "five dollars per sh, two deg squared, sixty seven point five kilograms",
        ),
        ("8 ergs/s/cm2", "eight ergs per second per square centimeter"),
        ("SL 187/3, keV/E, A/C", "S L one hundred eighty seven slash three, keV slash E, A C"),
        # dots, brackets and colons that make no name, no part of a law and no verse
        ("It ended.Then 5 came", "It ended.Then five came"),
        ("3(three) cats, 401(k)", "three(three) cats, four o one k"),
        ("2.5mg at 3p.m. on p.12", "two point five milligrams at three p m on page twelve"),
        # stops before a capital, moves of chess, numbers of articles, months, durations, algebra
        ("fl. 4, arr. LHR, twd. Olney. I", "floor four, arriving L H R, twd Olney. I"),
        (
            "up 3d4h, SKU 78-003, 3/2019",
            "up three days four hours, SKU seven eight, zero zero three, March twenty nineteen",
        ),
        (
            "2. Nf3 d6, 23.Qxh7+!",
            "two, knight F three, D six, twenty three, queen takes H seven check",
        ),
        (
            "3x^2 - 2x + 1, f'(x), n! = 6",
            "three x squared minus two x plus one, f prime of x), n factorial equals six",
        ),
        (
            "5 °C/min, 2%/mo, 7%",
            "five degrees Celsius per minute, two percent per month, seven percent",
        ),
        (
            "v4.2..HEAD, HEAD~3..HEAD",
            "version four point two dot dot HEAD, HEAD tilde three dot dot HEAD",
        ),
        (
            "Rev. $2B, 8-noon, A100 80GB",
            "Rev two billion dollars, eight to noon, A one hundred, eighty gigabytes",
        ),
        (
            "See Mark at 4:15 or Job at 4:15 pm",
            "See Mark at four fifteen or Job at four fifteen p m",
        ),
    ],
)
def test_english_is_read_out(text: str, words: str) -> None:
    assert read(text) == words


@pytest.mark.parametrize(
    "text",
    [
        "PLEASE TELL US, I AM HERE",
        "May I march in June? Polish the table.",
        "don't can't it's we're",
        "Hmm, ok... what?! Yes!",
        "She said: \"no\"; then (left) 'now'.",
    ],
)
def test_text_without_anything_to_read_stays(text: str) -> None:
    assert read_english(text) == text


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="0123456789 .,:/-$%°#x@&+=*'\"()apmthsvUSMayEVXIABCK\n", max_size=24))
def test_no_digit_is_left(text: str) -> None:
    assert not re.search(r"\d", read_english(text))
