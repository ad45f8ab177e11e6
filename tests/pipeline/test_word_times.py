"""``word_times``: when each word of a caller's text is spoken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from ChatTTS.audio.samples import SAMPLE_RATE, Samples
from ChatTTS.core import Chat
from ChatTTS.model.generation import Delta, FinishReason
from ChatTTS.pipeline.alignment.utterance_alignment import UtteranceAlignment
from ChatTTS.pipeline.alignment.word_aligner import WordFrames
from ChatTTS.pipeline.results import Waveforms, Word
from ChatTTS.text.alignment import text_columns
from ChatTTS.text.spoken_words import caller_words

from ..support.chat_tools import Recording
from ..support.places import DATA
from ..support.plain_aligner import PlainAligner

TEXT = "hello the world, this is one good day. and it goes on, we like 25 of it."
OTHER = "one more day for all of us."
SETTINGS = {
    "temperature": 0.7,
    "min_new_token": 60,
    "max_new_token": 60,
    "manual_seed": 3,
    "ensure_non_empty": False,
    "show_tqdm": False,
}
HOW: dict[str, Any] = {"skip_refine_text": True, "params_infer_code": SETTINGS}


def load(**options: Any) -> Chat:
    """Load model-a with heads to align by; its weights are random, and its words too."""
    chat = Chat()
    folder = DATA / "model-a"
    chat.load_or_raise("custom", custom_path=folder, device="cpu", num_threads=1, **options)
    assert chat._model is not None
    defaults = replace(chat.config.defaults, alignment_heads=((0, 0), (1, 1)))
    chat._model = replace(chat._model, config=replace(chat.config, defaults=defaults))
    return chat


@pytest.fixture(scope="module")
def velocity() -> Iterator[Chat]:
    chat = load(use_vllm=True)
    yield chat
    chat.unload()


def spoken(chat: Chat, texts: str | list[str], **options: Any) -> Waveforms:
    waveforms: Waveforms = chat.infer(texts, **{**HOW, "word_times": True, **options})
    return waveforms


def check_words(words: Sequence[Word], text: str, samples: int) -> None:
    """Check that words cover the text in order, and have their place in the samples."""
    assert [text[w.start_character : w.end_character] for w in words] == [w.text for w in words]
    assert words == sorted(words, key=lambda w: (w.start_character, w.start_sample))
    places = [place for w in words for place in (w.start_sample, w.end_sample)]
    assert places == sorted(places)
    assert places[0] >= 0
    assert places[-1] <= samples
    for word in words:
        assert (word.start, word.end) == (
            word.start_sample / SAMPLE_RATE,
            word.end_sample / SAMPLE_RATE,
        )
        assert 0 <= word.confidence <= 1


def test_every_word_of_the_text_has_its_times(velocity: Chat) -> None:
    waveforms = spoken(velocity, [TEXT, OTHER])
    assert len(waveforms.rows[0].utterances) > 1
    for text, words, waveform in zip([TEXT, OTHER], waveforms.words, waveforms, strict=True):
        assert [word.text for word in words] == [part.strip(".,") for part in text.split()]
        check_words(words, text, len(waveform))
    later = waveforms.rows[0].utterances[1].words
    assert later[0].start_sample < waveforms.rows[0].utterances[0].samples
    assert waveforms.words[0][-1].start_sample > waveforms.rows[0].utterances[0].samples


def test_a_stream_gives_the_words_of_the_whole(velocity: Chat) -> None:
    whole = spoken(velocity, TEXT)
    for changes, early in (({}, True), ({"stream_batch": 7}, False)):
        stream = velocity.stream(
            TEXT,
            low_latency=early,
            skip_refine_text=True,
            params_infer_code={**SETTINGS, **changes},
            word_times=True,
        )
        pieces = list(stream)
        assert [word for piece in pieces for word in piece.words] == whole.words[0]
        assert stream.rows[0].words == whole.words[0]
    assert sum(bool(piece.words) for piece in pieces) > 1
    chunks = velocity.infer([OTHER, TEXT], stream=True, word_times=True, **HOW)
    assert sum(chunk.shape[1] for chunk in chunks) > 0
    assert [row.words for row in chunks.rows][1] == whole.words[0]


def test_the_standard_path_gives_the_words_of_velocity(velocity: Chat) -> None:
    """Its attention differs by rounding, which no word shows here."""
    assert spoken(load(), OTHER).words == spoken(velocity, OTHER).words


def test_times_are_free_where_they_are_not_wanted(velocity: Chat) -> None:
    with Recording(velocity) as recording:
        plain = velocity.infer(TEXT, **HOW)
        timed = spoken(velocity, TEXT)
    assert not recording.requests[0].alignment_heads
    assert recording.requests[-1].alignment_heads == ((0, 0), (1, 1))
    assert plain.words == [[]]
    assert np.array_equal(plain[0], timed[0])


def test_silence_at_the_border_moves_the_words(velocity: Chat) -> None:
    words = spoken(velocity, OTHER).words[0]
    shift = round(0.6 * SAMPLE_RATE)
    for tag in ("[lbreak]", "[pause:600ms]"):
        [moved] = spoken(velocity, tag + OTHER).words
        places = [word.start_sample - shift for word in moved]
        assert places == [word.start_sample for word in words]
        assert moved[0].start_character == len(tag)


@pytest.mark.slow
def test_an_utterance_that_is_tried_again_gives_its_last_words(velocity: Chat) -> None:
    params = {**SETTINGS, "min_new_token": 400, "max_new_token": 2000, "ensure_non_empty": True}
    with Recording(velocity) as recording:
        waveforms = spoken(velocity, OTHER, params_infer_code=params)
    assert [request.key.attempt for request in recording.requests] == [0, 1, 2]
    assert len(waveforms.words[0]) == len(OTHER.split())
    check_words(waveforms.words[0], OTHER, len(waveforms[0]))


def test_words_of_a_refined_text_are_those_of_the_caller(velocity: Chat) -> None:
    refining = {"manual_seed": 1, "max_new_token": 20, "show_tqdm": False}
    waveforms = spoken(velocity, TEXT, skip_refine_text=False, params_refine_text=refining)
    assert waveforms.rows[0].utterances[0].text != spoken(velocity, TEXT).rows[0].utterances[0].text
    assert [word.text for word in waveforms.words[0]] == [part.strip(".,") for part in TEXT.split()]
    check_words(waveforms.words[0], TEXT, len(waveforms[0]))


# ---------------------------------------------------------------- truth


SENTENCES = (
    "It was very cold last night, and there was snow on the road.",
    "It was very cold last night. We went home early. The children are playing.",
    "We went to the market to buy some bread.",
    "Good morning, how are you today?",
)


def forced_alignment(samples: Samples, text: str) -> list[tuple[str, float]]:
    """Return the words, and where each begins in seconds, as pocketsphinx aligns them."""
    from pocketsphinx import Decoder

    ratio = torch.from_numpy(samples)[None, None]
    heard = interpolate(ratio, size=len(samples) * 2 // 3, mode="linear")[0, 0].numpy()
    decoder = Decoder(samprate=16_000, loglevel="FATAL")
    decoder.set_align_text(text)
    decoder.start_utt()
    decoder.process_raw((heard * 32_767).astype(np.int16).tobytes(), full_utt=True)
    decoder.end_utt()
    segments = decoder.seg()
    assert segments is not None, text
    named = ((segment.word.split("(")[0], segment.start_frame / 100) for segment in segments)
    return [(word, start) for word, start in named if word not in ("<s>", "</s>", "<sil>", "")]


@pytest.mark.slow
def test_words_begin_where_a_recogniser_hears_them() -> None:
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True, num_threads=1)
    errors: list[float] = []
    for voice in chat.config.defaults.speakers:
        params = {"manual_seed": 1, "spk_emb": voice, "show_tqdm": False}
        waveforms = spoken(chat, list(SENTENCES), params_infer_code=params)
        for samples, words, text in zip(waveforms, waveforms.words, SENTENCES, strict=True):
            check_words(words, text, len(samples))
            aligned = forced_alignment(samples, " ".join(word.text.lower() for word in words))
            assert [word for word, _ in aligned] == [word.text.lower() for word in words]
            errors += [
                abs(word.start - start) for word, (_, start) in zip(words, aligned, strict=True)
            ]
    chat.unload()
    assert len(errors) > 150
    typical, rare = (float(np.quantile(errors, part)) for part in (0.5, 0.95))
    assert typical <= 0.040, (typical, rare)
    assert rare <= 0.100, (typical, rare)


def test_times_follow_the_samples_of_a_frame() -> None:
    """A checkpoint may have another hop than the published one."""
    text = "hello day"
    places = [(start, start + 1) for start in range(len(text))]
    columns = text_columns(text, places, caller_words(text), str)
    words = UtteranceAlignment(columns, silence=100, samples_per_frame=640)
    words._frames = 3
    assert [words._sample(frame) for frame in (0, 2, 3)] == [100, 1380, 1700]


def test_heads_that_lag_behind_the_sound_give_earlier_times() -> None:
    text = "hello day"
    columns = text_columns(text, [(n, n + 1) for n in range(len(text))], caller_words(text), str)
    words = UtteranceAlignment(columns, silence=100, samples_per_frame=640, delay=700)
    words._frames = 3
    assert [words._sample(frame) for frame in (0, 1, 2, 3)] == [100, 100, 680, 1000]


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_words_do_not_depend_on_when_they_are_taken(every: int) -> None:
    """Frames that waited give the words of frames that were aligned at once."""
    text = "We went to the market to buy some bread."
    places = [(start, start + 1) for start in range(len(text))]
    columns = text_columns(text, places, caller_words(text), str)
    words = UtteranceAlignment(columns, silence=100, samples_per_frame=512)
    attention = np.random.default_rng(0).dirichlet(np.full(len(text) + 5, 0.1), size=(200, 3))
    plain = PlainAligner(columns)
    final: list[WordFrames] = []
    found: list[Word] = []
    for i, frame in enumerate(attention.astype(np.float32)):
        finish = FinishReason.STOP if i == 199 else None
        ids, hiddens = torch.zeros(1, 4, dtype=torch.long), torch.zeros(1, 8)
        new = torch.from_numpy(frame[None])
        words.push(Delta(0, ids, hiddens, finish, attention=new))
        final += plain.push(frame[None])
        if (i + 1) % every == 0:
            found += words.words_from(len(found))
            assert len(found) == len(final) + (len(columns.words) - len(final)) * (i == 199)
    final += plain.flush()
    found += words.words_from(len(found))
    assert found == [words._word(frames) for frames in final] == words.words_from(0)
    assert words.words_from(len(found)) == []


def test_a_lexicon_keeps_the_words_of_the_caller(velocity: Chat) -> None:
    """A replaced word lasts as long as its saying; the sound is that of the saying."""
    text, entries = "one nice day for all of us.", {"nice day": "more 2 good day"}
    [said] = spoken(velocity, text, lexicon=entries)
    [plain] = spoken(velocity, "one more 2 good day for all of us.")
    assert np.array_equal(said, plain)
    row = spoken(velocity, [OTHER, text], lexicon=entries).rows[1]
    check_words(row.words, text, len(said))
    assert [word.text for word in row.words] == ["one", "nice day", "for", "all", "of", "us"]
    assert [(use.text, use.saying) for use in row.lexicon_uses] == [("nice day", "more 2 good day")]
    parts = spoken(velocity, "one more 2 good day for all of us.").words[0]
    own = row.words[1]
    assert (own.start_sample, own.end_sample) == (parts[1].start_sample, parts[4].end_sample)


def test_streams_tell_where_a_lexicon_was_applied(velocity: Chat) -> None:
    with velocity.stream(OTHER, lexicon={"day": "night"}, **HOW) as stream:
        assert [use.start_character for use in stream.lexicon_uses] == [9]
    with velocity.infer([OTHER, TEXT], stream=True, lexicon={"all": "both"}, **HOW) as chunks:
        assert [len(row.lexicon_uses) for row in chunks.rows] == [1, 0]
