"""The search for the attention heads that follow the text, and when it is made."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.config import AlignmentHeads
from ChatTTS.core import Chat
from ChatTTS.errors import EngineUnavailableError, GenerationError
from ChatTTS.model.generation import NO_ATTENTION, Cancellation, FinishReason
from ChatTTS.model.lora.names import AdapterInfo
from ChatTTS.pipeline import head_search
from ChatTTS.pipeline.alignment import head_scores
from ChatTTS.pipeline.alignment.head_scores import HeadChoice, Score
from ChatTTS.pipeline.head_search import alignment_heads, find_heads
from ChatTTS.pipeline.lazy_value import LazyValue
from ChatTTS.pipeline.model import Model
from ChatTTS.pipeline.sample_sentences import sample_sentences

from ..support.chat_tools import Recording
from ..support.following_heads import FollowingHeads
from ..support.places import DATA

CHOICE = HeadChoice(((1, 2),), Score(1, 1, 1), ())
SETTINGS = {"max_new_token": 30, "manual_seed": 3, "ensure_non_empty": False, "show_tqdm": False}


def loaded(chat: Chat) -> Model:
    """Return the chat's model without heads that an earlier test found."""
    assert chat._model is not None
    return replace(chat._model, searched_heads=LazyValue())


def find(chat: Chat) -> HeadChoice:
    found = find_heads(loaded(chat), Cancellation(), show=False)
    assert found is not None
    return found


@pytest.mark.parametrize("together", [64, 5])
def test_the_heads_that_follow_are_found(
    standard: Chat, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """A request takes a limited number of heads, so large models speak more than once."""
    monkeypatch.setattr(head_search, "MOST_HEADS", together)
    with FollowingHeads(standard) as engine:
        found = find(standard)
    assert sorted(found.heads) == [(1, 2), (2, 0)]
    assert {(each.layer, each.head) for each in found.best[:2]} == {(1, 2), (2, 0)}
    assert len(found.best) == 12
    sentences = sample_sentences(standard.config.defaults.language)
    assert len(engine.requests) == len(sentences) * 3 * (1 if together == 64 else 3)
    assert len({request.key.seed for request in engine.requests}) == 3
    assert max(len(request.alignment_heads) for request in engine.requests) <= together


def test_the_checkpoint_alone_is_searched(standard: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice is kept beside the checkpoint, for starts with other adapters and with none."""
    monkeypatch.setattr(standard.gpt, "adapters", {"default": AdapterInfo(None, "00")})
    with FollowingHeads(standard) as engine:
        find(standard)
    assert {request.adapter for request in engine.requests} == {None}


def test_heads_are_scored_over_the_sentence_and_its_end(
    standard: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompt has control tags before the sentence."""
    seen: list[NDArray[np.float32]] = []

    def score_heads(attention: Sequence[NDArray[np.float32]]) -> list[Score]:
        seen.extend(attention)
        return head_scores.score_heads(attention)

    monkeypatch.setattr(head_search, "score_heads", score_heads)
    with FollowingHeads(standard) as engine:
        find(standard)
        whole = engine.attention(engine.requests[0]).numpy()
    sentence = sample_sentences(standard.config.defaults.language)[0]
    columns = len(standard.tokenizer.offsets(sentence)) + 1
    assert columns < whole.shape[2]
    assert np.array_equal(seen[0], whole[:, :, -columns:])


def test_speech_that_changes_does_not_mix(standard: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_search, "MOST_HEADS", 5)
    with FollowingHeads(standard) as engine:
        engine.varies = True
        with pytest.raises(GenerationError, match="sample sentences"):
            find(standard)


def test_speech_without_an_end_is_used_only_where_nothing_else_is(standard: Chat) -> None:
    with FollowingHeads(standard) as engine:
        engine.finish = FinishReason.LENGTH
        assert sorted(find(standard).heads) == [(1, 2), (2, 0)]
        engine.is_empty, engine.finish = True, FinishReason.STOP
        with pytest.raises(GenerationError, match="leave word_times out"):
            find(standard)


def test_a_search_ends_when_its_call_is_cancelled(standard: Chat) -> None:
    cancelled = Cancellation()
    with FollowingHeads(standard) as engine:
        cancelled.set()
        assert find_heads(loaded(standard), cancelled, show=False) is None
        assert alignment_heads(loaded(standard), cancelled, show=False) == ()
    assert len(engine.requests) <= len(sample_sentences(None))


@pytest.mark.slow
def test_named_heads_are_never_searched_for(bundled: Chat) -> None:
    model = loaded(bundled)
    with FollowingHeads(bundled) as engine:
        heads = alignment_heads(model, Cancellation(), show=False)
        choice = bundled.find_alignment_heads(show_tqdm=False)
    assert heads == model.config.defaults.alignment_heads
    assert len(heads) > 1
    assert choice is not None
    assert choice.file is None
    assert alignment_heads(model, Cancellation()) == heads
    assert {request.prompt.speaker is not None for request in engine.requests} == {True}
    speakers = {request.prompt.speaker.tobytes() for request in engine.requests}  # type: ignore[union-attr]
    assert len(speakers) == 3


def test_an_engine_without_attention_says_so(standard: Chat) -> None:
    class Silent(Recording):
        def generate(self, *_: Any) -> Any:
            raise EngineUnavailableError(NO_ATTENTION)

    with (
        Silent(standard),
        pytest.raises(EngineUnavailableError, match="without tensor"),
    ):
        alignment_heads(loaded(standard), Cancellation(), show=False)


# ---------------------------------------------------------------- at most once


def test_threads_share_one_search() -> None:
    found: LazyValue[AlignmentHeads] = LazyValue()
    searches = []
    begin = threading.Barrier(4)

    def search() -> AlignmentHeads:
        searches.append(threading.current_thread())
        time.sleep(0.2)
        found.put(CHOICE.heads, CHOICE)
        return CHOICE.heads

    got: list[AlignmentHeads | None] = []

    def ask() -> None:
        begin.wait()
        got.append(found.get(search, Cancellation()))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert got == [CHOICE.heads] * 4
    assert len(searches) == 1


def test_after_a_search_that_failed_the_next_caller_searches() -> None:
    found: LazyValue[AlignmentHeads] = LazyValue()
    kept: list[BaseException] = []

    def fail() -> AlignmentHeads:
        raise GenerationError("no")

    def ask() -> None:
        try:
            found.get(fail, Cancellation())
        except GenerationError as error:
            kept.append(error)  # with its frames, as a logger may keep it
            released.wait(10)

    released = threading.Event()
    thread = threading.Thread(target=ask)
    thread.start()
    while not kept:
        time.sleep(0.01)
    late = threading.Timer(5, released.set)
    late.start()
    assert found.get(lambda: CHOICE.heads, Cancellation()) == CHOICE.heads
    assert not released.is_set()
    late.cancel()
    released.set()
    thread.join()


def test_a_caller_that_waits_can_be_interrupted() -> None:
    found: LazyValue[AlignmentHeads] = LazyValue()
    begun, over = threading.Event(), threading.Event()

    def search() -> None:
        begun.set()
        over.wait(10)

    thread = threading.Thread(target=found.get, args=(search, Cancellation()))
    thread.start()
    begun.wait(10)
    cancelled = Cancellation()
    threading.Timer(0.1, cancelled.set).start()
    assert found.get(lambda: CHOICE.heads, cancelled) is None
    over.set()
    thread.join()


# ---------------------------------------------------------------- with word times


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_search, "_SEEDS", 1)
    monkeypatch.setattr(head_search, "_MAX_FRAMES", 20)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("use_vllm", [False, True], ids=["standard", "velocity"])
def test_word_times_begin_with_a_search(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, use_vllm: bool
) -> None:
    shutil.copytree(DATA / "model-a", tmp_path / "model")
    text = "hello the world"

    def load() -> Chat:
        chat = Chat()
        chat.load_or_raise(
            "custom", custom_path=tmp_path / "model", device="cpu", use_vllm=use_vllm, num_threads=1
        )
        return chat

    chat = load()
    with Recording(chat) as recording, caplog.at_level(logging.INFO, "ChatTTS"):
        plain = chat.infer(text, skip_refine_text=True, params_infer_code=SETTINGS)
        assert len(recording.requests) == 1
        settings: dict[str, Any] = {"skip_refine_text": True, "params_infer_code": SETTINGS}
        first = chat.infer(text, word_times=True, **settings)
        asked = len(recording.requests)
        assert asked > 2
        pieces = list(chat.stream(text, word_times=True, **settings))
        assert len(recording.requests) == asked + 1
    assert np.array_equal(plain[0], first[0])
    assert [word.text for word in first.words[0]] == text.split()
    assert [word for piece in pieces for word in piece.words] == first.words[0]
    said = [record.message for record in caplog.records if "attention heads" in record.message]
    assert len(said) == 2, said
    assert "searching for them, once" in said[0]
    file = tmp_path / "model" / "asset" / "alignment_heads.json"
    assert str(file) in said[1]
    assert "poor" in said[1]  # the weights are random
    chat.unload()

    later = load()
    with Recording(later) as recording:
        again = later.infer(text, word_times=True, **settings)
    assert len(recording.requests) == 1
    assert again.words == first.words
    later.unload()


@pytest.mark.slow
@pytest.mark.parametrize("use_vllm", [False, True], ids=["standard", "velocity"])
def test_the_search_finds_the_times_of_the_bundled_choice(use_vllm: bool) -> None:
    """Trained heads are found again without their names."""
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=use_vllm, num_threads=1)
    texts = [
        "It was very cold last night. We went home early. The children are playing.",
        "The old man sat by the river and waited for the boat to come back.",
        "Good morning, how are you today?",
        "She wrote a long letter to her sister, but never sent it.",
    ]

    def starts() -> list[float]:
        waveforms = chat.infer(
            texts,
            skip_refine_text=True,
            params_infer_code={"manual_seed": 7, "show_tqdm": False},
            word_times=True,
        )
        return [word.start for words in waveforms.words for word in words]

    named = starts()
    assert chat._model is not None
    nameless = replace(chat.config.defaults, alignment_heads=())
    chat._model = replace(
        chat._model,
        config=replace(chat.config, defaults=nameless),
        searched_heads=LazyValue(),
    )
    found = starts()
    assert chat._model.searched_heads.known
    differences = np.abs(np.array(named) - np.array(found))
    assert len(differences) > 40
    typical, rare = np.quantile(differences, [0.5, 0.95])
    print(f"word starts differ by {typical * 1000:.1f} ms in the median, 95 %: {rare * 1000:.1f}")
    assert typical <= 0.022, (typical, rare)
    assert rare <= 0.065, (typical, rare)
    chat.unload()
