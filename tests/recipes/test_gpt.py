"""The language model's stage of the bundled voice, at tiny sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.model.llama import llama_config
from ChatTTS.model.tokenizer import Tokenizer, code_prompt, refine_prompt
from ChatTTS.model.transformers_import import importing_transformers
from ChatTTS.voice_learning.sequences import IGNORED
from recipes.bundled_voice import coded, gpt, speakers
from recipes.bundled_voice.batches import Mixture, SpeechBatch, Steps, speech_batch, text_batch
from recipes.bundled_voice.checkpoints import checksum
from recipes.bundled_voice.gpt import (
    NUM_CODES,
    GPTSettings,
    GPTSizes,
    GPTTask,
    SpeechModel,
    code_losses,
    with_own_frames,
)
from recipes.bundled_voice.llama import Llama, guidance_loss
from recipes.bundled_voice.muon import Muon, orthogonal
from recipes.bundled_voice.prompts import Prompts
from recipes.bundled_voice.training import Budget, Moment, generator_for, train
from recipes.bundled_voice.types import VOICES, RefinePair
from recipes.bundled_voice.vocabulary import TOKENS, save_tokenizer, tokenizer

from ..support.recipe_tools import make_codec, make_item, make_speech

SIZES = GPTSizes(hidden=32, inner=48, heads=2, layers=2, positions=256)
END = NUM_CODES
PROMPTS = Prompts(tokenizer())
PAIR = RefinePair("i see, it is late.", 1, 0, 3, "i see, [uv_break] well it is late.")


def make_steps(count: int = 24, **mixture: float) -> Steps:
    items = [make_item("a word." * (1 + n % 3), 10 + n % 7, n, VOICES[n % 2]) for n in range(count)]
    settings: dict[str, Any] = {"tokens": 200, "refine_tokens": 90, "refine_every": 2, **mixture}
    return Steps(items, [PAIR], PROMPTS, END, seed=1, mixture=Mixture(**settings))


# ---------------------------------------------------------------- vocabulary and prompts


@pytest.mark.smoke
def test_the_package_reads_the_tokenizer_and_gives_the_ids_of_training(tmp_path: Path) -> None:
    save_tokenizer(tmp_path)
    packaged = Tokenizer(tmp_path)
    item, sample = make_item("don't go [uv_break] there?"), make_item("hello you.", seed=1)
    for named, said in ((True, None), (False, sample)):
        decorated = code_prompt(
            item.text, "[speed_3]", speaker=named, transcript=said.text if said else None
        )
        sequence = PROMPTS.speech(item, named=named, sample=said)
        prompt = packaged.prompt(decorated)
        assert sequence.ids.tolist() == prompt.text.tolist()
        assert (sequence.slot is not None) == named == bool(prompt.speaker_slots.any())
        assert packaged.id("[UNK]") not in prompt.text
    assert packaged.size == len(TOKENS)


def test_a_refined_answer_decodes_to_its_text(tmp_path: Path) -> None:
    save_tokenizer(tmp_path)
    packaged = Tokenizer(tmp_path)
    pair = replace(PAIR, refined="well, [uv_break] i don't know [laugh] do you?")
    sequence = PROMPTS.refine(pair)
    given = packaged.ids(refine_prompt(pair.text, "[oral_1][laugh_0][break_3]"))
    assert sequence.ids[: sequence.given].tolist() == given.tolist()
    answer = sequence.ids[sequence.given :]
    assert answer[-1] == packaged.end_of_refine
    assert packaged.decode_refined(answer) == pair.refined
    # Tokens of the prompt are no text.
    settings = packaged.ids("[oral_1][laugh_2][break_0][speed_5][Stts]")
    assert packaged.decode_refined(settings) == ""


def test_frames_know_the_characters_that_they_speak() -> None:
    item = replace(make_item("ab c", 6), starts=np.array([0, 2, 4, 4], np.int32))
    sequence = PROMPTS.speech(item)
    letters = [TOKENS[i] for i in sequence.ids]
    assert sequence.spoken is not None
    spoken = [[letters[p] for p in pair] for pair in sequence.spoken]
    a, b, c = (["a"] * 2), (["##b"] * 2), (["c"] * 2)
    assert spoken == [a, a, b, b, c, c]
    # Silent letters belong to the letter before them.
    together = PROMPTS.speech(replace(item, starts=np.array([0, 0, 4, 4], np.int32))).spoken
    assert together is not None
    assert [letters[p] for p in together[0]] == ["a", "##b"]


def test_frames_know_their_sound_and_the_next() -> None:
    item = replace(make_item("ab c", 6), sounds=np.array([0, 0, 7, 7, 7, 3], np.int8))
    sequence = PROMPTS.speech(item)
    assert sequence.sounds is not None
    expected = [[0, 7], [0, 7], [7, 3], [7, 3], [7, 3], [3, 0]]
    assert sequence.sounds.tolist() == expected
    batch = speech_batch([sequence, PROMPTS.speech(make_item())], END)
    learned = batch.sounds[0][batch.sounds[0, :, 0] != IGNORED]
    assert learned.tolist() == expected
    # Where a frame is predicted; what follows the last is the end, which is no sound.
    predicting = (batch.targets[0, :, 0] != IGNORED).nonzero()[:-1, 0]
    assert torch.equal((batch.sounds[0, :, 0] != IGNORED).nonzero()[:, 0], predicting)


def test_a_sample_comes_before_the_text_that_it_helps_to_say() -> None:
    item, sample = make_item("bb", 5, 1), make_item("aaa", 7, 2)
    sequence = PROMPTS.speech(item, named=False, sample=sample)
    assert sequence.codes.tolist() == [*sample.codes.tolist(), *item.codes.tolist()]
    assert sequence.given == len(sequence.ids) + 7
    assert sequence.spoken is not None
    letters = [TOKENS[i] for i in sequence.ids[sequence.spoken[:, 0]]]
    assert {letter[-1] for letter in letters[:7]} == {"a"}
    assert {letter[-1] for letter in letters[7:]} == {"b"}


def test_texts_that_the_prompt_would_change_are_refused() -> None:
    with pytest.raises(ValueError, match="white space"):
        PROMPTS.speech(make_item(" hi."))


# ---------------------------------------------------------------- batches


def test_a_batch_predicts_the_next_frame_and_then_the_end() -> None:
    item = make_item(frames=5)
    sequence = PROMPTS.speech(item)
    longer = PROMPTS.speech(make_item(frames=9))
    batch = speech_batch([sequence, longer], END)
    n = len(sequence.ids)
    assert batch.codes[0, n : n + 5].tolist() == item.codes.tolist()
    targets = batch.targets[0]
    assert (targets[: n - 1] == IGNORED).all()
    assert targets[n - 1 : n + 4].tolist() == item.codes.tolist()
    assert targets[n + 4].tolist() == [END] * 4
    assert (targets[n + 5 :] == IGNORED).all()
    assert batch.is_slot[0].nonzero().flatten().tolist() == [1]
    assert batch.spoken[0, n - 1, 0] == n - 1 - len("hi you.".replace(" ", ""))


def test_corruption_changes_what_is_read_and_never_what_is_predicted() -> None:
    sequences = [PROMPTS.speech(make_item(frames=60, seed=n)) for n in range(8)]
    clean = speech_batch(sequences, END)
    broken = speech_batch(sequences, END, np.random.default_rng(0), 1 / 3)
    assert torch.equal(clean.targets, broken.targets)
    changed = (clean.codes != broken.codes).any(-1).float().sum() / clean.is_code.sum()
    assert 0.08 < changed < 1 / 3
    assert int(broken.codes.max()) < END


def test_steps_repeat_and_hold_their_budget_and_samples() -> None:
    steps, again = make_steps(sample_share=0.5), make_steps(sample_share=0.5)
    with_samples = 0
    for number in range(20):
        batch = steps.speech(number)
        assert torch.equal(batch.codes, again.speech(number).codes)
        assert batch.tokens <= 200
        # Given frames are those of a sample.
        given = batch.is_code[:, :-1] & (batch.targets[:, :-1, 0] == IGNORED)
        with_samples += bool(given.sum() > len(batch.ids))
    assert 3 < with_samples < 17
    text = steps.text(0)
    assert text is not None
    assert text.ids.numel() <= 90
    assert steps.text(1) is None
    assert steps.text(2) is not None


# ---------------------------------------------------------------- model


def test_the_llama_is_that_of_transformers() -> None:
    with importing_transformers():
        from transformers import LlamaModel

    torch.manual_seed(0)
    ours = Llama(SIZES.llama)
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs = LlamaModel(llama_config(SIZES.llama)).eval()  # type: ignore[no-untyped-call]
    loaded = theirs.load_state_dict(ours.state_dict(), strict=False)
    assert not loaded.unexpected_keys
    assert loaded.missing_keys == ["embed_tokens.weight"]
    x = torch.randn(2, 11, SIZES.hidden)
    with torch.no_grad():
        expected = theirs(inputs_embeds=x).last_hidden_state
        fused, _, _ = ours(x)
    torch.testing.assert_close(fused, expected, rtol=1e-4, atol=1e-4)
    trained, _, _ = ours(x)  # with gradients by all the scores
    assert trained.requires_grad
    torch.testing.assert_close(trained.detach(), expected, rtol=1e-4, atol=1e-4)


def test_guidance_is_minus_the_log_of_the_attention_wanted() -> None:
    torch.manual_seed(0)
    scores = torch.randn(1, 3, 6, 6).masked_fill(~torch.ones(6, 6).tril().bool(), -1e4)
    spoken = torch.full((1, 6, 2), -1)
    spoken[0, 4] = torch.tensor([1, 2])
    attention = scores[0, :, 4].softmax(-1)
    expected = -attention[:, 1:3].sum(-1).log().mean()
    torch.testing.assert_close(guidance_loss(scores, spoken), expected)
    assert guidance_loss(scores, torch.full((1, 6, 2), -1)) == 0


def test_padding_and_neighbours_change_nothing() -> None:
    torch.manual_seed(0)
    model = SpeechModel(SIZES)
    short, long = PROMPTS.speech(make_item(frames=5)), PROMPTS.speech(make_item(frames=30, seed=1))
    (alone,) = model.hiddens(speech_batch([short], END))
    beside = model.hiddens(speech_batch([long, short], END))[1]
    assert alone.shape == (5, SIZES.hidden)
    torch.testing.assert_close(alone, beside)


def test_the_speaker_reaches_the_hidden_states() -> None:
    torch.manual_seed(0)
    model = SpeechModel(SIZES)
    item = make_item()
    other = replace(item, point=speakers.voice_speaker("slt").point)
    hiddens = model.hiddens(speech_batch([PROMPTS.speech(i) for i in (item, other)], END))
    assert (hiddens[0] - hiddens[1]).abs().max() > 1e-4


def test_own_frames_stand_where_the_model_would_have_drawn_them() -> None:
    torch.manual_seed(0)
    model = SpeechModel(SIZES)
    items = [make_item(frames=9, seed=1), make_item("you.", frames=5, seed=2)]
    sample = make_item("yes.", frames=4, seed=3)
    sequences = [PROMPTS.speech(items[0], sample=sample), PROMPTS.speech(items[1])]
    batch = speech_batch(sequences, END)

    def own(most: float) -> SpeechBatch:
        return with_own_frames(model, batch, most, 1e-4, generator_for(torch.device("cpu"), 0))

    assert torch.equal(own(0.0).codes, batch.codes)
    found = own(100.0)  # every share drawn is far over one
    hidden = model.speech(batch)[0]
    for row, sequence in enumerate(sequences):
        begin, end = sequence.given, len(sequence)
        # Each frame as the position before it predicts it, the first among them.
        likeliest = model.embed.code_logits(hidden[row, begin - 1 : end - 1])[..., :END].argmax(-1)
        assert torch.equal(found.codes[row, begin:end], likeliest)
        assert torch.equal(found.codes[row, :begin], batch.codes[row, :begin])
    assert torch.equal(found.targets, batch.targets)


def test_the_end_costs_ten_times_its_cross_entropy_and_codebooks_are_weighted() -> None:
    logits = torch.zeros(2, 4, NUM_CODES + 1)
    logits[:, 0, 7] = 50.0  # the first codebook is sure
    targets = torch.tensor([[7, 1, 2, 3], [7, 1, 2, 3]])
    losses, metrics = code_losses(logits, targets, GPTSettings())
    unsure = np.log(NUM_CODES + 1)
    assert float(metrics["codebook_0"]) == pytest.approx(0, abs=1e-5)
    assert float(losses["codes"]) == pytest.approx(unsure * 2.4 / 4, rel=1e-5)
    not_yet = -np.log(NUM_CODES / (NUM_CODES + 1))
    assert float(losses["end"]) == pytest.approx(10 * not_yet * 3 / 4, rel=1e-3)
    ending, _ = code_losses(logits, torch.full((2, 4), END), GPTSettings())
    assert float(ending["end"]) > 10 * 3 / 4 * unsure


def test_muon_makes_singular_values_alike() -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonal(torch.randn(3, 40, 16)))
    assert 0.5 < values.min() < values.max() < 1.4
    weight = torch.nn.Parameter(torch.zeros(16, 40))
    optimizer = Muon([weight], lr=0.1, weight_decay=0.0)
    weight.grad = torch.randn(16, 40)
    optimizer.step()
    size = float(weight.detach().square().mean().sqrt())
    assert size == pytest.approx(0.1 * 0.2, rel=0.3)
    assert float((weight.detach() * weight.grad).sum()) < 0
    with pytest.raises(ValueError, match="matrices"):
        Muon([torch.nn.Parameter(torch.zeros(3))])


@pytest.mark.slow
def test_a_tiny_model_learns_its_utterances_and_pairs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    steps = make_steps(4, sample_share=0.0, corruption=0.0, refine_every=1)
    task = GPTTask(SpeechModel(SIZES), steps, GPTSettings(matrix_rate=1e-2, rate=1e-2))

    def losses() -> dict[str, float]:
        cpu = torch.device("cpu")
        moment = Moment(0, 0.0, generator_for(cpu, 0))
        (objective,) = task.objectives(task.batch(0), moment)
        return {name: float(loss.detach()) for name, loss in objective.losses.items()}

    before = losses()
    assert set(before) == {"codes", "end", "attention", "sounds", "refine"}
    assert train(task, tmp_path, Budget(steps=50), device=torch.device("cpu"), seed=0)
    after = losses()
    assert after["codes"] < 0.7 * before["codes"]
    assert after["refine"] < 0.5 * before["refine"]
    assert after["attention"] < before["attention"]
    assert after["sounds"] < 0.7 * before["sounds"]
    assert after["end"] < before["end"]


def test_text_batches_learn_the_answer_alone() -> None:
    sequence = PROMPTS.refine(PAIR)
    batch = text_batch([sequence])
    learned = batch.targets[batch.targets != IGNORED]
    assert learned.tolist() == sequence.ids[sequence.given :].tolist()


# ---------------------------------------------------------------- corpus


def test_codes_are_made_once_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coded, "SHARD", 3)
    codec, _ = make_codec()
    corpus = speakers.varied(make_speech(7), seed=2)
    cpu = torch.device("cpu")
    made = coded.coded_corpus(corpus, codec, tmp_path, cpu, seed=2)
    assert len(list(tmp_path.iterdir())) == 3
    # A run that was stopped goes on where shards are missing.
    sorted(tmp_path.iterdir())[1].unlink()
    coded.coded_corpus(corpus, codec, tmp_path, cpu, seed=2)
    monkeypatch.setattr(coded, "encode", None)
    read = coded.coded_corpus(corpus, codec, tmp_path, cpu, seed=2)
    assert len(made) == len(read) == 7
    for index, (item, again) in enumerate(zip(made, read, strict=True)):
        spoken = corpus[index]
        assert (item.text, item.voice, item.speed) == (spoken.text, spoken.voice, spoken.speed)
        assert item.codes.shape == (spoken.frames, 4)
        np.testing.assert_array_equal(item.codes, again.codes)
        np.testing.assert_array_equal(item.point, again.point)
        np.testing.assert_array_equal(spoken.speaker.point, again.point)
        np.testing.assert_array_equal(item.starts, again.starts)
    # Another codec makes other codes.
    other, _ = make_codec()
    assert checksum(other) != checksum(codec)


def test_codes_do_not_depend_on_longer_utterances_in_the_batch() -> None:
    codec, _ = make_codec()
    short, *others = make_speech(5)
    longer = replace(others[0], samples=np.tile(others[0].samples, 8))
    cpu = torch.device("cpu")
    together = coded.encode(codec, [short, longer, *others], cpu)
    for item, spoken in zip(together, [short, longer, *others], strict=True):
        (alone,) = coded.encode(codec, [spoken], cpu)
        np.testing.assert_array_equal(item.codes, alone.codes)


def test_hidden_states_keep_the_order_of_the_utterances(monkeypatch: pytest.MonkeyPatch) -> None:
    codec, _ = make_codec()
    torch.manual_seed(0)
    model = SpeechModel(SIZES).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    monkeypatch.setattr(gpt, "_POSITIONS", 60)  # two utterances of a pass at most
    hiddens = gpt.hiddens_of(codec, model, torch.device("cpu"))
    speech = [make_speech(7)[n] for n in (3, 0, 6, 1, 5, 2, 4)]
    found = hiddens(speech)
    assert [len(hidden) for hidden in found] == [spoken.frames for spoken in speech]
    firsts = torch.stack([hidden[0] for hidden in found])
    apart = torch.cdist(firsts, firsts) + 1e9 * torch.eye(len(firsts))
    for spoken, first in zip(speech, firsts, strict=True):
        assert (hiddens([spoken])[0][0] - first).norm() < 0.2 * apart.min()
