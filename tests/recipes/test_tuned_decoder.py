"""The recipe's stage ``decoder``: what it learns from, its steps, and the checkpoints with it."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ChatTTS.checkpoints import assets
from ChatTTS.core import Chat
from ChatTTS.errors import AssetError, VoiceError
from ChatTTS.model.dvae import MelDecoder
from ChatTTS.model.generation import Cancellation
from ChatTTS.params import InferCodeParams
from ChatTTS.pipeline.speech_pass import SpeechPass
from ChatTTS.pipeline.utterance import Utterance
from ChatTTS.voice_learning.recordings import read_recordings
from ChatTTS.weights.tensors import read_tensors
from recipes.fine_tune import decoder, export, task
from recipes.fine_tune.corpus import Corpus, Line, path_of
from recipes.fine_tune.decoder import DecoderTuning, Example
from recipes.fine_tune.run import Run
from recipes.voice.checkpoints import read_position
from recipes.voice.mel_decoder import DecoderSettings
from recipes.voice.training import Budget

from ..support.adapter_tools import MODEL
from ..support.chat_tools import LIVELY, TEXT, equal, speak
from ..support.fine_tune_tools import CPU, make_corpus, make_run
from ..voice_learning.test_reading import put

if importlib.util.find_spec("peft") is None:
    pytest.skip("peft is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def chat() -> Chat:
    found = Chat()
    found.load_or_raise("custom", custom_path=MODEL, device="cpu", use_vllm=True)
    return found


@pytest.fixture(scope="module")
def corpus(chat: Chat, tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, Path]:
    """A corpus whose own lines have recordings, and the folder of those."""
    folder = tmp_path_factory.mktemp("recordings")
    for number in range(3):
        put(folder, str(number), seconds=1.2 + 0.2 * number)
    made, rng = make_corpus(chat), np.random.default_rng(5)
    vector = made.own[0].speaker
    own = tuple(
        Line(
            "hello the world.",
            rng.integers(3, size=((len(each.samples) // 256 + 1) // 2, 4)),
            vector,
            each.name,
        )
        for each in read_recordings(folder).kept
    )
    return replace(made, own=own, own_held=own[:1]), folder


def new_run(out: Path, corpus: tuple[Corpus, Path], steps: int = 4) -> Run:
    """A run with an adapter; its Decoder is to be trained."""
    run = make_run(out, steps=2, recordings=str(corpus[1]), decoder_rate=3e-3)
    corpus[0].save(path_of(run))
    assert task.main(run)
    return replace(run, decoder_budget=Budget(steps=steps))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, corpus: tuple[Corpus, Path]) -> Run:
    """A finished run."""
    made = new_run(tmp_path_factory.mktemp("run"), corpus, steps=30)
    assert decoder.main(made)
    export.main(made)
    export.merge(made)
    return made


def distance(module: MelDecoder, examples: Sequence[Example]) -> float:
    return float(
        np.mean([(decoder.mel_of(module, e.hidden) - e.mel).abs().mean() for e in examples])
    )


def examples(run: Run, chat: Chat, corpus: Corpus) -> tuple[Sequence[Example], Sequence[Example]]:
    tuned, untuned = task.load_tuned(run), decoder.load_base_decoder(run)
    own = decoder.own_examples(run, chat, tuned, corpus.own)
    return own, decoder.base_examples(run, chat, tuned, untuned, corpus.base)


# ---------------------------------------------------------------- data


def test_states_are_those_of_generation(chat: Chat, run: Run) -> None:
    """The Decoder learns from what it reads later: the engine's states of the same codes."""
    speaker = chat.sample_random_speaker()
    utterance = Utterance(0, 0, TEXT, first=0)
    params = InferCodeParams(spk_emb=speaker, **LIVELY).with_defaults(chat.config.defaults.code)
    deltas = [
        update.delta
        for update in SpeechPass(
            chat._loaded, [utterance], params, 3, batch_size=1,
            cancelled=Cancellation(),
        ).updates()
    ]  # fmt: skip
    codes = torch.cat([delta.ids for delta in deltas]).numpy()
    line = Line(TEXT, codes, chat.speaker.vector(speaker))
    (found,) = decoder.hiddens_of(run.language_model(), chat, [line])
    expected = torch.cat([delta.hiddens for delta in deltas]).float()
    assert found.shape == (40, chat.config.gpt.hidden_size)
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=1e-3)


def test_what_is_learned(run: Run, chat: Chat, corpus: tuple[Corpus, Path]) -> None:
    own, base = examples(run, chat, corpus[0])
    for example, line in zip(own, corpus[0].own, strict=True):
        assert example.hidden.shape[0] == len(line.codes)
        assert example.mel.shape == (100, 2 * len(line.codes))
    # The base's speech comes twice: with the states of the base, and with those of the adapter.
    half = len(corpus[0].base)
    assert len(base) == 2 * half
    assert not torch.equal(base[0].hidden, base[half].hidden)
    assert torch.equal(base[0].mel, base[half].mel)
    assert distance(decoder.load_base_decoder(run), base[:half]) < 0.01
    assert decoder.base_examples(run, chat, task.load_tuned(run), MelDecoder(
        chat.config.decoder, 100), ()) == ()  # fmt: skip


def marked(value: float) -> Example:
    return Example(torch.full((30, 4), value).half(), torch.full((5, 60), value))


def test_a_step_is_a_function_of_its_number() -> None:
    def tuning(base: Sequence[Example]) -> DecoderTuning:
        module = torch.nn.Linear(1, 1)
        settings = DecoderSettings(frames=8)
        return DecoderTuning(
            module, [marked(1), marked(2)], base, CPU,  # type: ignore[arg-type]
            seed=1, rehearsal=0.5, settings=settings,
        )  # fmt: skip

    both, alone = tuning([marked(-1)]), tuning([])
    hiddens, mels, weights = both.batch(3)
    assert (hiddens.shape, mels.shape, weights.shape) == ((16, 4, 8), (16, 5, 16), (16, 16))
    assert torch.equal(hiddens, both.batch(3)[0])
    assert torch.equal(hiddens[:, 0, 0], mels[:, 0, 0])
    assert not torch.equal(hiddens, both.batch(4)[0])
    firsts = torch.cat([both.batch(step)[0][:, 0, 0] for step in range(40)])
    assert 0.42 < (firsts < 0).float().mean() < 0.58
    assert all((alone.batch(step)[0] > 0).all() for step in range(10))


def test_other_recordings_than_those_that_were_prepared_are_refused(
    run: Run, chat: Chat, corpus: tuple[Corpus, Path]
) -> None:
    tuned, (line, *_) = task.load_tuned(run), corpus[0].own
    for changed in (replace(line, name="9.wav"), replace(line, codes=line.codes[1:])):
        with pytest.raises(VoiceError, match=f"{changed.name} in .* is no longer the recording"):
            decoder.own_examples(run, chat, tuned, [changed])


# ---------------------------------------------------------------- the training


def test_the_decoder_renders_the_recordings_and_keeps_the_base(
    run: Run, chat: Chat, corpus: tuple[Corpus, Path], tmp_path: Path
) -> None:
    own, base = examples(run, chat, corpus[0])
    untuned = decoder.load_base_decoder(run)
    tuned = decoder.load_tuned_decoder(run, task.load_tuned(run))
    assert distance(tuned, own) < 0.7 * distance(untuned, own)
    assert torch.equal(tuned.coef, untuned.coef)
    # Without the base's speech among it, that would be lost.
    alone = new_run(tmp_path, corpus, steps=30)
    settings = replace(alone.settings, rehearsal=0.0)
    (tmp_path / "settings.json").unlink()
    alone = replace(alone, settings=settings)
    assert decoder.main(alone)
    forgetful = decoder.load_tuned_decoder(alone, task.load_tuned(alone))
    assert distance(tuned, base) < 0.8 * distance(forgetful, base)


def state_of(run: Run) -> dict[str, Tensor]:
    return read_tensors(run.out / "decoder.safetensors")


def test_a_training_that_was_stopped_goes_on_exactly(
    tmp_path: Path, corpus: tuple[Corpus, Path]
) -> None:
    whole = new_run(tmp_path / "whole", corpus)
    stopped = new_run(tmp_path / "stopped", corpus)
    assert decoder.main(whole)
    assert not decoder.main(replace(stopped, decoder_budget=Budget(steps=4, run_minutes=1e-9)))
    assert read_position(stopped.out / "decoder.safetensors").step == 1
    assert decoder.main(stopped)
    expected, found = state_of(whole), state_of(stopped)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_decoder_of_another_adapter_is_refused(
    tmp_path: Path, corpus: tuple[Corpus, Path]
) -> None:
    run = new_run(tmp_path, corpus, steps=1)
    assert decoder.main(run)
    assert task.main(replace(run, budget=Budget(steps=3)))
    for stage in (export.main, export.merge):
        with pytest.raises(AssetError, match="learned from another adapter"):
            stage(run)
    assert not (tmp_path / "merged" / "asset").exists()
    assert decoder.main(replace(run, decoder_budget=Budget(steps=2)))


# ---------------------------------------------------------------- checkpoints


def test_both_engines_load_what_is_exported(
    run: Run, chat: Chat, corpus: tuple[Corpus, Path]
) -> None:
    adapter = run.out / "adapter"
    tuned = run.load(run.out / "decoder", adapter=adapter)
    merged = run.load(run.out / "merged")
    alone = run.load(adapter=adapter)
    one, both = speak(tuned, TEXT)[0], speak(merged, TEXT)[0]
    np.testing.assert_allclose(one, both, atol=1e-3)
    # Without the adapter the codes are the base's, and the sound is the tuned Decoder's.
    speaker = {"spk_emb": corpus[0].speaker}
    plain, rendered = (
        speak(chat, TEXT, **speaker)[0],
        speak(tuned, TEXT, adapter="base", **speaker)[0],
    )
    assert plain.shape == rendered.shape
    assert not np.allclose(plain, rendered, atol=1e-3)
    # The adapter with the base is what it was without a tuned Decoder.
    assert not np.allclose(one, speak(alone, TEXT)[0], atol=1e-3)
    assert equal(speak(alone, TEXT, adapter="base", **speaker), [plain])
    for each in (tuned, merged, alone):
        each.unload()
    standard = Chat()
    standard.load_or_raise("custom", custom_path=run.out / "merged", device="cpu", use_vllm=False)
    np.testing.assert_allclose(speak(standard, TEXT)[0], both, atol=1e-3)
    standard.unload()


def test_only_the_decoder_changes_and_keeps_its_dtypes(run: Run) -> None:
    base = assets.locate("custom", MODEL).asset
    exported = run.out / "decoder" / "asset"
    names = sorted(str(p.relative_to(base)) for p in base.rglob("*") if p.is_file())
    assert names == sorted(str(p.relative_to(exported)) for p in exported.rglob("*") if p.is_file())
    changed = [n for n in names if (base / n).read_bytes() != (exported / n).read_bytes()]
    assert changed == ["Decoder.safetensors"]
    known, tuned = (read_tensors(folder / "Decoder.safetensors") for folder in (base, exported))
    assert {n: (v.dtype, v.shape) for n, v in known.items()} == {
        n: (v.dtype, v.shape) for n, v in tuned.items()
    }


def test_weights_that_do_not_fit_into_their_dtype_are_named(run: Run, tmp_path: Path) -> None:
    module = decoder.load_base_decoder(run)
    with torch.no_grad():
        module.out_conv.weight.fill_(torch.inf)
    with (
        pytest.raises(AssetError, match=r"out_conv\.weight of the tuned Decoder does not fit"),
        export.written(run.folder, tmp_path / "asset") as partial,
    ):
        export.write_decoder(partial, module)
    assert not (tmp_path / "asset").exists()
