"""Words that are as short as an abbreviation, and so end a sentence where a stop is behind them.

Abbreviations are without number, and every text brings new ones. Short words are few. So what is
short, and is none of these, is taken for an abbreviation: "the mot. to dismiss", "incl. in".
"""

from __future__ import annotations

import re

# Of two to four letters, without the plurals of others.
_LISTED = """
able acid add age ago aid aim air all alot also am and ant any app are area arm army art as ask
at away baby back bad bag ball band bank bar base bat bath be bean bear beat bed bee beef been
beer bell belt best big bike bill bird bit blog blue boat body bomb bone book boot born boss
both bow bowl box boy bro btw bug burn bus bush busy but buy by cafe cake call calm camp can cap
car card care cart case cash cat cell chat chef chin chip city clay club coal coat code coin
cold cook cool cop copy core corn cost cow crew crop cry cup cure cut dad damn dark data date
dawn day dead deaf deal dear debt deep deer desk diet dirt dish do doc does dog done door dose
down draw drew drop drug drum dry duck dude due dull dumb dust duty each ear earn ease easy eat
edge egg ego else end era even ever evil eye face fact fail fair fall fan far farm fast fat fear
fee feed feel feet fell felt few file fill film find fine fire firm fish fit five fix flag flat
flow fly fog folk food fool foot for form four free from fuel full fun fund gain game gap gas
gate gay gear get gift girl give glad go goal god goes gold golf gone good got gray grew grey
grow gun guy gym haha hair half hall ham hand hard harm hat hate have he head hear heat held
hell help her here hero hi hid high hill him hint hit hmm hold hole holy home hook hope horn
host hot hour how huge hurt ice idea idk if ill in inch info ink inn iron is it item jail jam
jar jaw jazz jet job join joke joy jump jury just keen keep kept key kick kid kill kin kind king
kiss knee knew know lab lack lady laid lake lamb lamp land lane lap last late law lazy lead leaf
lean left leg less let lid lie life lift like line link lip list live lmao load loan lock log
lol lone long look loop lord lose loss lost lot loud love low luck lung mad made mail main make
male mall man many map mark mask mass mate math me meal mean meat meet meh melt men menu mess
met mile milk mill mind mine miss mix mode mom mood moon more most move much mud must myth nah
nail name navy near neat neck need neon nest net new next nice nine no node none noon nor nose
not note now nude nut oak odd of off oh oil ok okay old omg on once one only onto open or oral
our out oven over own pace pack page paid pain pair pale palm pan park part pass past path pay
pea peak pen per pet pick pie pig pile pill pin pine pink pipe pit plan play plot plug plus poem
poet pole poll pond pool poor pop pork port pose post pot pour pray pst pull pump pure push put
quit quiz race rage rail rain ran rank rare rat rate raw read real red rely rent rest rice rich
ride ring riot rise risk road rob rock rod role roll roof room root rope rose row rude rug ruin
rule run rush sad safe said sail sake salt same sand sang save saw say sea seat see seed seek
seem seen self sell send sent set sex shed ship shoe shop shot show shut sick side sigh sign
silk sin sing sink sir sit site six size skin skip sky slow snow so soap sofa soft soil sold
sole some son song soon sore sort soul soup spin spot star stay stem step stir stop such suit
sum sun sure swim tag tail take tale talk tall tank tap tape task tax tbh tea team tear tech
teen tell ten tent term test text than that the them then they thin this tho thru thus tide tie
till time tin tiny tip tire to toe told tone too took tool top tour town toy tree trip true try
tsk tube tune turn twin two type ugh ugly unit up upon us use used user vast very via view vote
vs wage wait wake walk wall want war warm was wash wave way we weak wear web week well went were
west wet what when who whom why wide wife wild will win wind wine wing wire wise wish with wolf
won wood wool word wore work worn wow wrap ya yard yeah year yep yes yet yo you your zero zone
zoo
"""
_WORDS = frozenset(_LISTED.split())
# Three consonants or more are no word, but for what people groan: "mktg", not "hmm" or "brrr".
_CONSONANTS = re.compile(r"(?:([b-df-hj-np-tv-xz])(?!\1)){2,6}\Z")
_LONGEST = 4


def is_abbreviation(word: str) -> bool:
    """Return whether a word of letters is short, no word that is known, and not in capitals."""
    low = word.lower()
    if word.isupper() or low in _WORDS or (low.endswith("s") and low[:-1] in _WORDS):
        return False
    return 2 <= len(word) <= _LONGEST or has_no_vowel(word)


def has_no_vowel(word: str) -> bool:
    """Return whether a word has consonants alone, which no word has that ends a sentence."""
    return _CONSONANTS.match(word.lower()) is not None and word.lower() not in _WORDS
