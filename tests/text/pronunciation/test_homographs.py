"""Words that are written alike and said in several ways."""

from __future__ import annotations

import pytest

from ChatTTS.text.pronunciation.english import pronounce_english

CASES = {
    "read": {
        "ɹˈid": ["I will *read* it.", "*Read* the book.", "She can't *read* this.",
                 "They always *read* at night.", "I want to *read*."],
        "ɹˈɛd": ["I have *read* it.", "She *read* it yesterday.", "Have you *read* it?",
                 "It was *read* aloud.", "He had never *read* it."],
    },
    "live": {
        "lˈɪv": ["They *live* here.", "Where do you *live*?", "I want to *live* in Paris.",
                 "The people who *live* there left."],
        "lˈIv": ["It is *live* music.", "We go *live* at nine.", "A *live* wire."],
    },
    "lives": {
        "lˈɪvz": ["She *lives* in Rome.", "My brother *lives* with us."],
        "lˈIvz": ["It saved their *lives*.", "Nine *lives* of a cat."],
    },
    "lead": {
        "lˈid": ["They *lead* the race.", "Take the *lead*."],
        "lˈɛd": ["The *lead* pipe broke.", "Made of *lead*."],
    },
    "record": {
        "ɹˈɛkəɹd": ["The *record* is broken.", "A world *record*.", "For the *record*, no."],
        "ɹəkˈɔɹd": ["We *record* it.", "*Record* the show.", "She will *record* an album.",
                    "Did you *record* that?"],
    },
    "object": {
        "ˈɑbʤəkt": ["A strange *object* fell.", "The *object* of the game."],
        "əbʤˈɛkt": ["I *object*!", "They did not *object* to it."],
    },
    "present": {
        "pɹˈɛzᵊnt": ["A *present* for you.", "At *present* we wait.", "She was *present*."],
        "pɹizˈɛnt": ["I *present* the winner.", "To *present* it well."],
    },
    "close": {
        "klˈOz": ["*Close* the door.", "We *close* at nine.", "Please *close* it."],
        "klˈOs": ["We are *close* to home.", "A *close* friend.", "Stay *close*."],
    },
    "use": {
        "jˈuz": ["We *use* it.", "How do I *use* this?", "Oil, paint and tools they *use*."],
        "jˈus": ["It is of no *use*.", "The *use* of force."],
    },
    "used": {
        "jˈust": ["I *used* to swim."],
        "jˈuzd": ["We *used* it.", "It is *used* to cut bread."],
    },
    "wind": {
        "wˈɪnd": ["The *wind* blew.", "A cold *wind*."],
        "wˈInd": ["*Wind* the clock.", "They *wind* it up."],
    },
    "tear": {
        "tˈɪɹ": ["A *tear* fell.", "The *tear* gas.", "A *tear* in her eye."],
        "tˈɛɹ": ["*Tear* it apart.", "Don't *tear* the paper.", "A *tear* in the sail.",
                 "It is wear and *tear*."],
    },
    "row": {
        "ɹˈO": ["The front *row*.", "Three wins in a *row*.", "We *row* the boat."],
        "ɹˈW": ["The *row* over pay.", "They had a *row*.", "The *row* kept them up."],
    },
    "does": {
        "dˈʌz": ["She *does* it.", "Number two *does* it.", "Two *does* not fit."],
        "dˈOz": ["Three *does* ran.", "Bucks and *does*."],
    },
    "alternate": {
        "ˈɔltəɹnət": ["On *alternate* days."],
        "ˈɔltəɹnˌAt": ["They *alternate* with us.", "Go on.  *alternate* with red."],
    },
    "advocate": {
        "ˈædvəkət": ["An *advocate* for peace."],
        "ˈædvəkˌAt": ["Be brave. *advocate* for peace."],
    },
    "job": {
        "ʤˈɑb": ["A good *job*.", "The end of the *job*."],
        "ʤˈOb": ["The book of *job* says so."],
    },
    "bow": {
        "bˈO": ["A *bow* and arrow.", "The violin *bow* broke."],
        "bˈW": ["They *bow* to the king.", "He took a deep *bow*.", "She took a *bow*."],
    },
    "minute": {
        "mˈɪnət": ["Wait a *minute*.", "One *minute* later."],
        "mInˈut": ["In *minute* detail.", "The *minute* particles."],
    },
    "content": {
        "kˈɑntɛnt": ["The *content* is new.", "High fat *content*."],
        "kəntˈɛnt": ["She was *content*.", "He is *content* with it."],
    },
    "desert": {
        "dˈɛzəɹt": ["The *desert* is dry."],
        "dəzˈɜɹt": ["They *desert* the army.", "To *desert* a friend."],
    },
    "wound": {
        "wˈund": ["The *wound* healed."],
        "wˈWnd": ["She *wound* the clock.", "It *wound* up well."],
    },
    "separate": {
        "sˈɛpəɹət": ["Two *separate* rooms.", "They are *separate*."],
        "sˈɛpəɹˌAt": ["*Separate* the eggs.", "We must *separate* them."],
    },
    "house": {"hˈWs": ["The *house* burned."], "hˈWz": ["We can *house* you."]},
    "bass": {"bˈAs": ["He plays *bass*."], "bˈæs": ["We caught a *bass*."]},
    "permits": {"pˈɜɹmɪts": ["The *permits* are here."], "pəɹmˈɪts": ["This *permits* it."]},
    "resume": {"ɹəzˈum": ["We *resume* at ten."], "ɹˈɛzəmˌA": ["Send your *resume*."]},
    "cleanly": {
        "klˈinli": ["It was *cleanly* cut."],
        "klˈɛnli": ["Cats are *cleanly*.", "They are *cleanly* enough."],
    },
    "elaborate": {
        "əlˈæbəɹət": ["An *elaborate* plan."],
        "əlˈæbəɹˌAt": ["Please *elaborate*.", "She did not *elaborate* on it."],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (text, said)
        for readings in CASES.values()
        for said, texts in readings.items()
        for text in texts
    ],
)
def test_the_words_around_say_which_one_it_is(text: str, said: str) -> None:
    place = text.index("*")
    pieces = pronounce_english(text.replace("*", ""))
    assert [piece.phonemes for piece in pieces if piece.start == place] == [said]
