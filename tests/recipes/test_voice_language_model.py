"""The language model and its losses, at tiny sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ChatTTS.model.tokenizer import Tokenizer, refine_prompt
from ChatTTS.voice_learning.sequences import IGNORED
from recipes.voice.batches import Mixture, SpeechBatch, Steps, speech_batch
from recipes.voice.frames import with_own_frames
from recipes.voice.gpt import GPTTask
from recipes.voice.gpt_losses import GPTSettings, code_losses
from recipes.voice.language_model import NUM_CODES, GPTSizes, SpeechModel
from recipes.voice.muon import Muon, orthogonal
from recipes.voice.prompts import Prompts
from recipes.voice.refining import RefinePair
from recipes.voice.text_batches import text_batch
from recipes.voice.training import Budget, Moment, autocast, generator_for, train
from recipes.voice.vocabulary import save_tokenizer

from ..support.recipe_tools import make_item

SIZES = GPTSizes(hidden=32, inner=48, heads=2, layers=2, positions=256)
END = NUM_CODES
PROMPTS = Prompts()
PAIR = RefinePair("i see, it is late.", 1, 0, 3, "i see, [uv_break] well it is late.")


def test_a_refined_answer_decodes_to_its_text(tmp_path: Path) -> None:
    save_tokenizer(tmp_path)
    packaged = Tokenizer(tmp_path)
    pair = replace(PAIR, refined="well, [uv_break] i don't know [laugh] do you?")
    sequence = PROMPTS.refine(pair)
    given = packaged.ids(refine_prompt(pair.text, "[oral_1][laugh_0][break_3]"))
    assert sequence.ids[: sequence.prompt_length].tolist() == given.tolist()
    answer = sequence.ids[sequence.prompt_length :]
    assert answer[-1] == packaged.end_of_refine
    assert packaged.decode_refined(answer) == pair.refined
    # Tokens of the prompt are no text.
    settings = packaged.ids("[oral_1][laugh_2][break_0][speed_5][Stts]")
    assert packaged.decode_refined(settings) == ""


def test_text_batches_learn_the_answer_alone() -> None:
    sequence = PROMPTS.refine(PAIR)
    batch = text_batch([sequence])
    learned = batch.targets[batch.targets != IGNORED]
    assert learned.tolist() == sequence.ids[sequence.prompt_length :].tolist()


def test_corruption_changes_what_is_read_and_never_what_is_predicted() -> None:
    sequences = [PROMPTS.speech(make_item(frames=60, seed=n)) for n in range(8)]
    clean = speech_batch(sequences, END)
    broken = speech_batch(sequences, END, np.random.default_rng(0), 1 / 3)
    assert torch.equal(clean.targets, broken.targets)
    changed = (clean.codes != broken.codes).any(-1).float().sum() / clean.is_code.sum()
    assert 0.08 < changed < 1 / 3
    assert int(broken.codes.max()) < END


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
    other = replace(item, place=-item.place)
    hiddens = model.hiddens(speech_batch([PROMPTS.speech(i) for i in (item, other)], END))
    assert (hiddens[0] - hiddens[1]).abs().max() > 1e-4


def test_own_frames_stand_where_the_model_would_have_drawn_them() -> None:
    torch.manual_seed(0)
    model = SpeechModel(SIZES)
    items = [make_item(frames=9, seed=1), make_item(("j", "u", "."), frames=5, seed=2)]
    sample = make_item(("j", "ɛ", "s"), frames=4, seed=3)
    sequences = [PROMPTS.speech(items[0], sample=sample), PROMPTS.speech(items[1])]
    batch = speech_batch(sequences, END)

    def own(most: float) -> SpeechBatch:
        return with_own_frames(model, batch, most, 1e-4, generator_for(torch.device("cpu"), 0))

    assert torch.equal(own(0.0).codes, batch.codes)
    found = own(100.0)  # every share drawn is far over one
    with autocast(torch.device("cpu")):  # rounded alike, so the likeliest codes are the same
        hidden = model.speech(batch)[0]
    for row, sequence in enumerate(sequences):
        begin, end = sequence.prompt_length, len(sequence)
        # Each frame as the position before it predicts it, the first among them.
        with autocast(torch.device("cpu")):
            predicted = model.embed.code_logits(hidden[row, begin - 1 : end - 1])[..., :END]
        drawn = predicted.gather(-1, found.codes[row, begin:end, :, None])[..., 0]
        assert torch.equal(drawn, predicted.amax(-1))
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
    items = [make_item(frames=10 + n, seed=n) for n in range(4)]
    mixture = Mixture(
        positions=200, refine_positions=90, refine_every=1, sample_share=0.0, corruption=0.0
    )
    steps = Steps(lambda _: items, [PAIR], PROMPTS, END, seed=1, mixture=mixture)
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
