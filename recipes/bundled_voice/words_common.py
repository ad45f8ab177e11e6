"""The recipe's own vocabulary: everyday words by kind. The grammar and word strings use it."""

from __future__ import annotations

THING = """
key phone book cup plate knife fork spoon bottle glass bag box ticket letter lamp chair table bed
pillow blanket towel mirror clock watch ring coat hat scarf glove shoe sock shirt skirt dress belt
umbrella wallet suitcase backpack camera radio television laptop computer printer screen keyboard
mouse cable battery charger bicycle car truck van motorbike scooter boat toy ball game puzzle doll
guitar piano drum violin flute painting picture photograph poster map newspaper magazine notebook
pencil pen ruler brush comb soap toothbrush sponge bucket broom hammer nail screw ladder rope tent
candle match lighter basket jar pan pot kettle oven stove fridge freezer toaster heater fan window
door gate fence roof wall floor carpet curtain shelf drawer cupboard sofa desk bench stone stick
leaf flower plant seed tree branch bush parcel envelope stamp card gift balloon flag bell whistle
button zip needle thread cloth sheet tray bowl mug napkin recipe menu bill receipt coin note list
file folder report contract form passport license certificate medal trophy prize helmet jacket
sweater boot sandal necklace earring bracelet perfume lipstick razor bandage pill thermometer
microphone speaker headphone remote tablet engine wheel tire mirror brake seat
"""

FOOD = """
bread butter cheese milk cream yogurt egg ham bacon sausage chicken beef pork lamb fish tuna salmon
shrimp rice pasta noodle potato tomato onion garlic carrot pepper cucumber lettuce spinach bean pea
corn mushroom salad soup stew sandwich burger pizza pie cake cookie biscuit chocolate candy honey
jam sugar salt apple pear banana orange lemon lime grape peach plum cherry strawberry blueberry
melon pineapple mango coconut nut almond peanut tea coffee juice water lemonade cocoa wine beer
toast omelet pancake waffle cereal porridge sauce mustard ketchup oil olive pudding ice_cream
"""

PLACE = """
market station airport school office library museum church hospital pharmacy bakery bank hotel
restaurant cafe cinema theater park garden beach lake river forest farm village town city harbor
bridge square corner kitchen bathroom bedroom basement attic garage balcony yard playground pool
gym stadium court castle tower factory shop store supermarket post office bus stop gas station
police station university college classroom island mountain valley hill field coast border street
highway crossing parking_lot campsite zoo mall club studio workshop lobby hall gallery clinic
"""

PERSON = """
mother father sister brother aunt uncle cousin grandmother grandfather daughter son niece nephew
wife husband friend neighbor teacher student doctor nurse dentist lawyer driver waiter cook baker
farmer gardener painter singer dancer actor writer pilot engineer manager boss secretary guide
tourist guest stranger child boy girl man woman baby lady gentleman policeman soldier sailor judge
builder plumber electrician cleaner barber butcher assistant reporter scientist professor
colleague partner customer passenger player coach captain president mayor landlord tenant clerk
"""

ANIMAL = """
dog cat horse cow pig sheep goat hen duck goose rabbit mouse rat bird parrot owl eagle crow swan
frog turtle snake fish shark whale bear wolf fox deer lion tiger monkey camel donkey bee ant fly
spider butterfly snail worm puppy kitten calf chick
"""

IDEA = """
idea plan problem question answer story joke secret reason chance choice dream hope fear promise
mistake lesson test exam job trip journey holiday party wedding birthday meeting interview call
message email visit walk talk song dance movie show play concert race match war peace law rule
price cost tax loan debt rent salary budget profit offer deal sale order delivery service help
advice news fact truth lie word name number letter sentence language sound noise voice music color
shape size weight height length speed time moment minute hour day week month year morning evening
night weekend season spring summer autumn winter weather rain snow wind storm cloud sun moon star
sky light shadow fire smoke ice heat cold air earth world country nation government health illness
pain fever cough headache accident injury medicine treatment diet exercise sleep habit hobby sport
skill talent power energy effort success failure luck love hate anger joy sadness pride shame
trouble danger safety freedom duty change growth progress future past history science art culture
nature space distance direction side end start middle part piece half group team family crowd line
system method machine program project result example detail difference experience education
knowledge memory mind opinion subject purpose situation condition position quality quantity value
"""

ADJECTIVE = """
good bad big small large little long short tall high low wide narrow thick thin deep shallow heavy
light fast slow quick early late new old young modern ancient hot cold warm cool wet dry clean
dirty full empty open closed loud quiet bright dark strong weak hard soft rough smooth sharp dull
easy difficult simple complex cheap expensive free rich poor happy sad angry calm nervous excited
bored tired sleepy hungry thirsty sick healthy brave shy kind rude polite friendly lonely funny
serious strange normal usual special common rare perfect broken safe dangerous possible real fake
true false right wrong red blue green yellow orange purple pink brown black white gray golden sweet
sour bitter salty spicy fresh rotten raw round square flat straight crooked pretty ugly beautiful
lovely nice great terrible awful wonderful amazing boring interesting important useful useless
famous unknown local foreign private public busy lazy careful careless clever stupid wise foolish
honest curious patient proud jealous grateful sorry afraid ready sure certain clear cloudy sunny
rainy windy snowy foggy noisy peaceful comfortable convenient favorite popular secret sudden
"""

# base form, then the irregular past and participle where they are not regular
VERB = """
ask answer call help like love want need use try start finish open close move turn walk run/ran/run
go/went/gone come/came/come see/saw/seen look watch hear/heard/heard listen say/said/said
tell/told/told talk speak/spoke/spoken think/thought/thought know/knew/known believe remember
forget/forgot/forgotten understand/understood/understood learn teach/taught/taught read/read/read
write/wrote/written draw/drew/drawn paint sing/sang/sung play dance laugh cry smile shout whisper
eat/ate/eaten drink/drank/drunk cook bake taste smell/smelled/smelled feel/felt/felt touch
hold/held/held carry lift push pull drop throw/threw/thrown catch/caught/caught kick hit/hit/hit
cut/cut/cut break/broke/broken fix repair build/built/built make/made/made create
do/did/done get/got/gotten give/gave/given take/took/taken bring/brought/brought send/sent/sent
receive buy/bought/bought sell/sold/sold pay/paid/paid spend/spent/spent save cost/cost/cost
lose/lost/lost find/found/found search keep/kept/kept leave/left/left stay wait arrive return
visit travel drive/drove/driven ride/rode/ridden fly/flew/flown swim/swam/swum climb jump
fall/fell/fallen sit/sat/sat stand/stood/stood lie/lay/lain sleep/slept/slept wake/woke/woken
wash clean brush wear/wore/worn dress choose/chose/chosen decide plan hope wish dream worry
meet/met/met join follow lead/led/led win/won/won fight/fought/fought argue agree promise
lend/lent/lent borrow steal/stole/stolen hide/hid/hidden show/showed/shown explain describe
count measure weigh check test study practice improve change grow/grew/grown plant pick
feed/fed/fed hunt shoot/shot/shot burn freeze/froze/frozen boil fry mix fill pour spill
wrap pack unpack load store collect share offer accept refuse order deliver cancel invite
welcome thank apologize forgive/forgave/forgiven complain blame trust doubt guess notice
discover invent design record print copy type click search sign mark miss hurt/hurt/hurt heal die
live marry belong happen appear seem become/became/become remain
"""

ADVERB = """
always never often sometimes usually rarely again already almost soon later now then today tonight
yesterday tomorrow here there everywhere quickly slowly quietly loudly carefully easily finally
suddenly really simply probably certainly clearly nearly hardly exactly together alone outside
inside upstairs downstairs abroad once twice maybe perhaps instead anyway still even only just
"""

SMALL = """
the a an this that these those my your his her its our their some any no every each both all many
much few several more most less and or but because although while when before after until since if
unless so than as of in on at by for with about against between into through during above below to
from up down over under near off out around along across behind beyond without within toward i you
he she it we they me him us them who what which where why how there is are was were be been am have
has had do does did will would can could should may might must shall not myself yourself someone
anyone everyone nobody nothing something anything everything thanks please hello goodbye yes okay
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
million billion first second third fourth fifth sixth seventh eighth ninth tenth half quarter zero
point minus plus percent dollar dollars cent cents euro euros pound pounds degrees mile miles
kilometer meter inch foot feet gram kilogram liter monday tuesday wednesday thursday friday saturday
sunday january february march april may june july august september october november december
don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't wouldn't shouldn't haven't
hasn't hadn't i'm i've i'll i'd you're you've you'll you'd he's he'll she's she'll it's we're we've
we'll we'd they're they've they'll that's there's what's who's where's let's
"""

# Frequent words of none of the kinds above, for strings of random words.
FREQUENT = """
ability able absolute absolutely acceptable access according account accounts accurate achieve act
acting action actions active activities activity actual actually add added adding addition
additional address adds administration admit adult adults advance advanced advantage advertising
affect affected affects afford africa african afternoon afterwards age agency agent ages ago
agreement ahead aid aim album alive allow allowed allowing allows alright also alternative american
americans among amount amounts analysis animal animals announced annoying annual another anybody
anymore anywhere apart apartment apparently appeal applied apply appreciate approach appropriate
area areas argument arm armed arms army arrested article artist artists asia asian aside aspect
associated association assume assuming athletes atmosphere attack attacked attacks attempt
attention attitude attractive audience author authorities authority auto automatically available
average avoid aware away awesome back background badly balance band banned barely bars base
baseball based basic basically basis basketball battle beat beauty began begin beginning behavior
being belief benefit benefits besides best better bigger biggest bike birth bit blind block blood
blow board bodies body bonus boom born bother bottom boyfriend brain brand breakfast brilliant
britain british buddy buildings bunch business businesses bye camp campaign cancer candidate
candidates cannot cap capable capacity capital carbon care career cares case cases cash cast cause
caused causes causing celebrate cell cells center central centre century chain challenge challenges
channel character characters charge charged charges charity chat cheaper chest chief chinese
christmas circle circumstances citizens civil claim claimed claims class classes classic climate
closer clothes code collection combat comedy comment comments commercial commission commitment
communication communities community companies company compare compared comparison compete
competition competitive complete completed completely complicated concept concern concerned
concerns conference confidence confident confirm confirmed conflict confused congress connect
connected connection consequences conservative consider considered considering constant constantly
construction consumer consumers contact content context continue continued continues control
conversation convinced core corporate correct council counter county couple course cover coverage
covered crash crazy creative credit crew crime crisis critical cross cultural current currently
cute cycle dad daily damage data date dealing dear death deaths debate decade decades decent
decision decisions deck defend defense definitely definition degree demand democracy department
depend depending depends depression deserve desire despite destroy destroyed destruction determine
determined develop developed developing development device devices different differently digital
dinner direct directly director disagree disappointed disaster discuss discussion disease display
district divorce divorced domestic dot double download dozen drama due earlier earn easier east
eastern economic economy edge edit effect effective effects efficient either elected election
elections electric else elsewhere emergency emissions emotional employees encourage ended ending
enemies enemy engineering english enjoy enjoyed enough ensure enter entertainment entire entirely
environment environmental episode equal equipment equivalent era error escape especially
essentially established estate estimated europe european event events eventually ever everybody
everyday evidence evil exact excellent except exchange exciting excuse executive exist existing
exists expect expected expecting experienced experts explanation exposed extended extent extra
extreme extremely eye eyes face faces facing factor factors fail failed fair fairly faith familiar
fantastic fantasy far fashion faster fat fault favor feature features federal feelings fellow
female fewer figure figured figures film films final finance financial fine fingers fired firm fit
flight flow flu focus focused folks food football force forced forces forever former forth forward
foundation frame french friendship front fuel fully fun function fund funding funds further gain
gaming gap gear general generally german giant girlfriend glad global goal goals god gold golf
goodness gosh grab grade graduate graduated granted greater greatest ground guarantee guard guy
guys hair hand handle hands hang hanging harder harm having head heads healthcare heart helpful
hero herself hey hi higher highest highly hilarious himself hire hired hockey holy home homes
honestly honor hopefully horrible host house houses housing however huge human humans humor
hundreds ideal identify identity ignore ill illegal im image images imagine immediate immediately
impact impossible impression incident include included includes including income increase increased
increasing incredible incredibly indeed independent indian individual individuals industry
influence info information initial injured innocent instance insurance intelligence intended
interest interested interests international internet introduced invest investigation investment
investors involved issue issues italian item items itself jail japanese justice kidding kids kinds
knock lab labor labour lack laid land lane largely larger largest last lately latest launch
launched leader leaders leadership league least leg legal legs let letting level levels liberal
life lifetime likely limit limited limits link linked links listed literally location lock locked
logic longer lord loss lower lucky lunch mad magic mail main mainly maintain major majority male
manage managed management marketing marriage mass massive master mate material math matter matters
meal mean meaning means meant meat media medical member members mental mention mentioned mess metal
military millions mine minimum minister minor minority mission mobile mode model models mom money
monitor mood moral mortgage mostly mouth movement multiple mystery named national natural neat
necessarily necessary neck negative neighborhood neither net network next none nor normally north
northern nose nowadays nowhere nuclear object obvious obviously occasionally occurred odd offense
offensive officer officers official officials older oldest olympics ones online onto operating
operation operations opportunities opportunity opposed opposite option options organization
original originally other others otherwise ought ours ourselves outcome outdoor overall own owned
owner owners pace package page pages pair panic pants paper papers parent parents participate
particular particularly pass passed passing path patients people per percentage perfectly perform
performance period person personal personality personally perspective pet pets phase photo photos
physical physically pitch place placed places plane planet plastic pleasure plenty plot pocket
pointed points policies policy political politicians politics pop population positive possibility
possibly posted posting potential potentially poverty powerful prefer prepare prepared presence
present presidential press pressure prevent previous previously primary prime prior priority prison
process produce produced product production products professional profile proof proper properly
property protect protection prove provide provided providing published purchase pure put puts
putting queen quit quite quote raise raised raising random range rate rates rather reach reached
reaction reality realize realized reasonable recall recent recently recession recognize recommend
recovery reduce reduced reference referring reform regardless region regular regularly related
relationship relationships relative relatively relax release released relevant religion religious
rely remove removed repeat replace replaced reply reported represent request require required
requires rescue research researchers residents resources respect respond response responsibility
responsible rest retired retirement revenue review revolution richard rid ridiculous rights riot
rise rising risk risks road rock role roll room rooms roughly route row royal rural rush russia
russian sake same savings scale scared scary scenario scene schedule scheme scientific score se sea
seconds section sector secure security seek self senate senior sense sensitive separate series
seriously serve served server set sets setting shift ship shock shopping shots shut sight
significant silly similar single sir site sites skin slightly smaller smart smoking soccer social
society software solar solid solution solve somebody somehow somewhat somewhere sort sorts soul
source sources south southern species specific specifically speech spell spirit split spokesman
spot spread stable staff stage standard standards state statement states status steam step steps
stock stopped strategy stream strength stress strike stronger structure struggle struggling stuck
stuff style sub successful such suffer suffered suffering suggest suggested suggests suit super
supply support supporting suppose supposed surely surgery surprise surprised survey survive
survivor suspect switch tag tank tape target task tech technical technically technology teeth
temperature tend tennis term terms text theme themselves theory therefore thing things though
thoughts thousands threat throughout thus tied tight till tiny tip tips title tone too tool tools
top topic topics total totally tough tour tournament towards track trade trading traditional
traffic train trained training transfer treat treated trial trick troops truly tube typical
typically ultimately unable uncomfortable unemployment unfortunately union unique unit united units
universe unlike unlikely unusual update upon upper upset user users vacation variety various vast
vehicle vehicles version very vice victory video videos view views vision vote voted voters votes
voting wage warming warning waste wave way ways wealth website weird well west western whatever
whenever whereas whether whoever whole whom whose wild willing wing winner wonder wondering woods
work worked workers working works worse worst worth yet younger yours zone it'll he'd she'd that'll
who'll what'll
"""

NAME = """
anna ben clara david emma frank grace henry irene jack kate leo maria nick olivia paul rachel sam
tina victor wendy adam beth charles diana eric fiona george helen isaac julia kevin laura mark nora
oscar peter rose simon susan thomas ursula walter alice bob carol daniel ellen fred gloria harry
ian jane karl linda michael nancy oliver patricia robert sarah steven tom vera william amy brian
chris dorothy edward florence gordon hannah james karen louise martin monica nathan paula ralph
sandra theodore vincent emily joshua jessica matthew sophie andrew lucy philip samuel rebecca
"""

SURNAME = """
smith jones brown taylor wilson johnson white martin anderson thompson wood walker hughes green
lewis harris clark jackson turner hill scott cooper morris ward moore king watson baker harrison
morgan allen young mitchell parker cook bell bailey miller davis garcia roberts evans edwards
collins stewart murphy rogers reed kelly howard brooks gray bennett foster russell griffin hayes
"""

CITY = """
london paris rome berlin madrid vienna prague oslo dublin athens lisbon moscow cairo delhi tokyo
sydney toronto chicago boston dallas denver houston seattle miami atlanta new_york los_angeles
san_francisco mexico brussels geneva milan munich hamburg venice florence zurich amsterdam warsaw
edinburgh oxford cambridge manchester liverpool england scotland ireland france spain italy germany
poland greece turkey egypt india china japan australia canada america brazil kenya norway sweden
"""
