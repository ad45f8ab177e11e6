"""Words that are as short as an abbreviation, and so end a sentence where a stop is behind them.

Abbreviations are without number, and every text brings new ones. Short words are few. So what is
short, and is none of these, is taken for an abbreviation: "the mot. to dismiss", "incl. in".
"""

from __future__ import annotations

import re

# Of two to four letters, without the plurals of others.
_LISTED = """
able ace ache acid act add age ago ah aha aid aide aim air alas all alot also am amid and ant any
ape app apps are area arm army art as ask at atom aunt auto away axe axis babe baby back bad bag
bait bake bald bale ball band bank bar bare bark barn base bat bath be beam bean bear beat bed
bee beef been beep beer beg bell belt bend bent best bet bias bid big bike bill bind bird bit
bite blew blog blow blue blur boat body boil bold bolt bomb bond bone book boot bore born boss
both bow bowl box boy brag bred brew bro btw bug bull bump bunk burn bus bush busy but butt buy
buzz by byte cafe cage cake call calm came camp can cane cap cape car card care cart case cash
cast cat cave cell chat chef chin chip city clan clap claw clay club clue coal coat code coil
coin cola cold colt comb come cone cook cool cop cope copy cord core cork corn cost cow cozy crab
crew crop cry cube cue cult cup curb cure curl cut cute dad damn damp dare dark dash data date
dawn day dead deaf deal dear debt deed deep deer demo deny desk dice did die died diet dig dim
dine dip dirt dish disk dive do doc dock does dog doll dome done door dose dot dove down doze
drag draw drew drip drop drug drum dry duck dude due duel duet duh duke dull dumb dump dune dusk
dust duty dye each ear earn ease easy eat echo edge edit eel egg ego elk elm else end envy epic
era euro even ever evil exam exit eye face fact fade fail fair fake fall fame fan fang far fare
farm fast fat fate fear feat fee feed feel feet fell felt fern feud few file fill film find fine
fire firm fish fist fit five fix flag flat flaw flea fled flee flew flip flop flow flu flux fly
foam foe fog foil fold folk fond font food fool foot for fork form fort foul four fox free fret
frog from fuel full fun fund fuse fuss fuzz gain game gap gas gate gave gay gaze gear gem germ
get gift gig girl give glad glow glue go goal god goes gold golf gone good gore gosh got gown
grab gray grew grey grim grin grip grit grow gulf gum gun gust gut guy gym had haha hair half
hall halt ham hand hang hard hare harm harp has hash hat hate haul have hawk hay haze he head
heal heap hear heat heel heir held hell help her herb herd here hero hers hey hi hid hide high
hike hill him hint hips hit hive hmm hold hole holy home hook hop hope horn hose host hot hour
how howl hug huge huh hull hum hung hunt hurl hurt hush hymn ice icon icy idea idk idle idol if
ill in inch info ink inn into iron is it itch item ivy jail jam jar jaw jazz jerk jet job join
joke joy jug jump junk jury just keen keep kept key kick kid kill kin kind king kiss kite knee
knew knit knob knot know lab lace lack lady laid lake lamb lamp land lane lap lash last late lava
law lawn lazy lead leaf leak lean leap left leg lens less let liar lice lick lid lie lied life
lift like limb lime limp line link lion lip list lit live lmao load loan lobe lock loft log logo
lol lone long look loom loop lord lose loss lost lot loud love low luck lump lung lure lurk ma
mad made maid mail main make male mall man many map mark mask mass mate math may maze me meal
mean meat meek meet meh melt memo men mend menu mesh mess met meta mice mild mile milk mill mind
mine mint miss mist mix moan mode mole mom monk mood moon more moss most moth move much mud mule
muse must mute my myth nah nail name nap navy near neat neck need neon nerd nest net new next
nice nine no nod node none noon nope nor nose not note now nude null numb nut nuts oak oath oats
odd odds of off oh oil ok okay old omg omit on once one only onto ooh oops open or oral ouch our
ours out oven over ow owe owed owl own owns oxen pa pace pack pact pad page paid pain pair pal
pale palm pan pane park part pass past path paw pawn pay pea peak pear peel peer pen pest pet
pick pie pier pig pile pill pin pine pink pint pipe pit pity plan play plea plot plow plug plum
plus poem poet poke pole poll polo pond pony pool poor pop pork port pose post pot pour pray prey
prop pros pst pub puff pull pulp pump pun punk pup pure push put quit quiz race rack raft rage
rail rain ramp ran rank rare rash rat rate rave raw ray read real red redo reef reel rein rely
rent rest rib rice rich ride rim ring riot rip ripe rise risk road roar rob robe rock rod role
roll roof room root rope rose rot row rub rude rug ruin rule rum run rush rust rut sack sad safe
sage said sail sake salt same sand sang sank sap save saw say says scan scar sea seal seam seat
see seed seek seem seen sees self sell send sent set sew sex shed ship shoe shop shot show shut
shy sick side sigh sign silk silo sin sing sink sip sir sis sit site sits six size ski skim skin
skip sky slam slap sled slim slip slot slow slug slum snap snow so soap sob sock sofa soft soil
sold sole some son song soon sore sort soul soup sour soy spa spin spit spot spun spur spy stab
star stay stem step stir stop stun such suck suit sum sun sung sunk sure swan swap sway swim sync
tab tack tag tail take tale talk tall tame tank tap tape tart task tax taxi tbh tea team tear
tech teen tell ten tent term test text than that thaw the them then they thin this tho thru thud
thug thus tick tide tidy tie tied till tilt time tin tiny tip tire to toad toe toil told toll
tomb tone too took tool top torn toss tour tow town toy trap tray tree trim trio trip trot true
try tsk tub tube tuna tune turn tusk twin two type typo ugh ugly uh um undo unit up upon urge us
use used user vain van vary vase vast veil vein verb very vest vet veto via view vine visa void
volt vote vow vs wade wage wait wake walk wall wand wane want war ward warm warn wart wary was
wash wave way we weak wear web weed week weep weld well went were west wet what when whip who
whom why wide wife wig wild will win wind wine wing wink wipe wire wise wish wisp wit with wolf
womb won wood wool word wore work worm worn wow wrap ya yard yarn yawn yay yeah year yell yep yes
yet yo yoga yolk you your zeal zero zip zone zoo zoom
"""
_WORDS = frozenset(_LISTED.split())
# Three consonants or more are no word, but for what people groan: "mktg", not "hmm" or "brrr".
_CONSONANTS = re.compile(r"(?:([b-df-hj-np-tv-xz])(?!\1)){2,6}\Z")
_LONGEST = 4
# The two consonants in which longer words end. "equiv", "descr" and "exptl" are cut off.
_ENDING_PAIRS = (
    "bt ch ck ct dd dh ff ft gg gh gm gn hm hn ht ld lf lk ll lm lp lt mb mn mp nc nd ng nk nn nt "
    "nx ph pt rb rd rf rg rk rl rm rn rp rr rt sh sk sm sp st th tt tz xt zz"
)
_ENDINGS = frozenset(_ENDING_PAIRS.split())
_CUT_OFF = re.compile(r"[a-z]{3,6}(?:[vjq]|(?P<end>[b-df-hj-np-tvxz][b-df-hj-np-rtvxz]))\Z")


def is_abbreviation(word: str) -> bool:
    """Return whether a word of letters is short, no word that is known, and not in capitals."""
    low = word.lower()  # a plural has four letters or more: "ins" is none
    if word.isupper() or low in _WORDS or (low.endswith("s") and low[2:-1] and low[:-1] in _WORDS):
        return False
    if 2 <= len(word) <= _LONGEST or has_no_vowel(word):
        return True
    cut_off = _CUT_OFF.match(low)
    return cut_off is not None and cut_off["end"] not in _ENDINGS


def has_no_vowel(word: str) -> bool:
    """Return whether a word has consonants alone, which no word has that ends a sentence."""
    return _CONSONANTS.match(word.lower()) is not None and word.lower() not in _WORDS
