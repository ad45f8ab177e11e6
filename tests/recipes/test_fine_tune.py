"""The recipe of fine-tuning: its corpus, its steps, its products, and what it exports."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.checkpoints import assets
from ChatTTS.core import Chat
from ChatTTS.errors import AssetError, ConfigError
from ChatTTS.model.lora.reader import CONFIG
from ChatTTS.voice_learning.language_model import LanguageModel
from ChatTTS.voice_learning.likelihood import unlikelihood
from ChatTTS.voice_learning.sequences import code_batch
from recipes.fine_tune import __main__ as command
from recipes.fine_tune import corpus, export, task
from recipes.fine_tune.corpus import Corpus, Line, path_of, sequences_of
from recipes.fine_tune.model import TunedModel
from recipes.fine_tune.run import Run, Settings
from recipes.voice.checkpoints import read_position
from recipes.voice.training import Budget

from ..support.adapter_tools import MODEL
from ..support.chat_tools import TEXT, speak
from ..support.fine_tune_tools import CPU, make_corpus, make_run

if importlib.util.find_spec("peft") is None:
    pytest.skip("peft is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def chat() -> Chat:
    found = Chat()
    found.load_or_raise("custom", custom_path=MODEL, device="cpu", use_vllm=False)
    return found


@pytest.fixture(scope="module")
def small(chat: Chat) -> Corpus:
    return make_corpus(chat)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, small: Corpus) -> Run:
    """A finished training of some steps."""
    made = make_run(tmp_path_factory.mktemp("run"), steps=12)
    small.save(path_of(made))
    assert task.main(made)
    export.main(made)
    return made


# ---------------------------------------------------------------- data


def test_a_corpus_is_read_as_it_was_saved(tmp_path: Path, small: Corpus) -> None:
    for each in (small, replace(small, own_held=(), base=())):
        each.save(tmp_path / "data" / "corpus.npz")
        found = Corpus.read(tmp_path / "data" / "corpus.npz")
        assert found.speaker == each.speaker
        for name in ("own", "own_held", "base", "base_held"):
            mine, read = getattr(each, name), getattr(found, name)
            assert [line.text for line in mine] == [line.text for line in read]
            assert all(np.array_equal(a.codes, b.codes) for a, b in zip(mine, read, strict=True))
            assert all(
                np.array_equal(a.speaker, b.speaker) for a, b in zip(mine, read, strict=True)
            )


@pytest.mark.slow
@pytest.mark.smoke
def test_a_missing_or_damaged_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="prepare"):
        Corpus.read(tmp_path / "corpus.npz")
    (tmp_path / "corpus.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(AssetError, match="damaged"):
        Corpus.read(tmp_path / "corpus.npz")


def test_a_step_is_a_function_of_its_number(chat: Chat, small: Corpus) -> None:
    settings = Settings("nowhere", tokens=200, rehearsal=0.5)
    own, base = (
        list(zip(sequences_of(chat, lines), lines, strict=True))
        for lines in (small.own, tuple(replace(x, speaker=-x.speaker) for x in small.base))
    )
    steps = task.Steps(own, base, 625, settings)
    assert torch.equal(steps(3).codes, steps(3).codes)
    assert steps(3).codes.sum() != steps(4).codes.sum()
    assert all(steps(n).tokens <= 200 for n in range(20))
    # About half of the sequences are the base's own, with their speakers.
    marks = torch.cat([(steps(n).speakers[:, 0] == own[0][1].speaker[0]) for n in range(60)])
    assert 0.35 < marks.float().mean() < 0.65
    without = task.Steps(own, (), 625, settings)
    assert all((without(n).speakers[:, 0] == own[0][1].speaker[0]).all() for n in range(20))


# ---------------------------------------------------------------- the model


def test_it_begins_as_the_base(run: Run, chat: Chat, small: Corpus) -> None:
    base, tuned = run.language_model(), TunedModel(run.language_model(), run.settings)
    batch = code_batch(sequences_of(chat, small.own), base.end)
    vectors = torch.from_numpy(np.stack([line.speaker for line in small.own]))
    with torch.no_grad():
        expected, found = base(batch, vectors), tuned.language_model(batch, vectors)
    assert torch.equal(expected, found)
    assert all("lora" in name for name, _ in tuned.weights.named_parameters())


def nats(model: LanguageModel, chat: Chat, lines: tuple[Line, ...]) -> float:
    return unlikelihood(model, sequences_of(chat, lines), [line.speaker for line in lines])


def test_the_recordings_become_likelier(run: Run, chat: Chat, small: Corpus) -> None:
    before = nats(run.language_model(), chat, small.own_held)
    assert nats(task.load_tuned(run).language_model, chat, small.own_held) < before - 0.05


def test_adapter_and_merged_checkpoint_speak_alike(
    run: Run, chat: Chat, small: Corpus, tmp_path: Path
) -> None:
    adapter = export.trained_adapter(run)
    assert adapter.speaker == small.speaker
    with export.written(assets.locate("custom", MODEL), tmp_path / "asset") as partial:
        export.write_merged(partial, adapter, "anna")
    merged, tuned = Chat(), Chat()
    merged.load_or_raise("custom", custom_path=tmp_path, device="cpu", use_vllm=True)
    tuned.load_or_raise(
        "custom", custom_path=MODEL, device="cpu", use_vllm=True, adapter=run.out / "adapter"
    )
    assert merged.config.defaults.speaker == "anna"
    first, second = speak(merged, TEXT)[0], speak(tuned, TEXT)[0]
    np.testing.assert_allclose(first, second, atol=1e-3)
    assert not np.allclose(first, speak(tuned, TEXT, adapter="base")[0], atol=1e-3)
    merged.unload()
    tuned.unload()


@pytest.mark.parametrize("settings", [{}, {"alpha": 3.0}, {"targets": ("v_proj", "up_proj")}])
def test_peft_computes_what_the_reader_adds(
    tmp_path: Path, chat: Chat, small: Corpus, settings: dict[str, Any]
) -> None:
    """The hidden states of peft's own model are those of the weights with the adapter merged in."""
    run = make_run(tmp_path / "run", **settings)
    tuned = TunedModel(run.language_model(), run.settings)
    with torch.no_grad():
        for parameter in tuned.weights.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    tuned.save(run.out / "adapter", small.speaker)
    adapter = export.trained_adapter(run)
    with export.written(assets.locate("custom", MODEL), tmp_path / "asset") as partial:
        export.write_merged(partial, adapter, "anna")
    merged = make_run(tmp_path / "other", checkpoint=str(tmp_path)).language_model()
    batch = code_batch(sequences_of(chat, small.own), merged.end)
    vectors = torch.from_numpy(np.stack([line.speaker for line in small.own]))
    with torch.no_grad():
        expected, found = tuned.language_model(batch, vectors), merged(batch, vectors)
        plain = run.language_model()(batch, vectors)
    assert (found - expected).abs().max() < 1e-4
    assert (plain - expected).abs().max() > 1e-2


def test_the_adapter_names_no_folder_of_this_machine(run: Run) -> None:
    text = (run.out / "adapter" / CONFIG).read_text("utf-8")
    assert str(MODEL) not in text
    assert json.loads(text)["base_model_name_or_path"] is None


def test_a_training_goes_on_where_it_was(tmp_path: Path, small: Corpus) -> None:
    run = make_run(tmp_path, steps=2)
    small.save(path_of(run))
    assert task.main(run)
    longer = replace(run, budget=Budget(steps=5))
    assert task.main(longer)
    assert read_position(tmp_path / "adapter.safetensors").step == 5
    with pytest.raises(ConfigError, match="another rank"):
        task.main(replace(longer, settings=replace(longer.settings, rank=3)))


def test_a_run_goes_on_that_began_before_a_setting_was_known(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.keep_settings()
    path = tmp_path / "settings.json"
    older = {k: v for k, v in json.loads(path.read_text("utf-8")).items() if k != "decoder_rate"}
    path.write_text(json.dumps(older), "utf-8")
    run.keep_settings()
    with pytest.raises(ConfigError, match="another decoder_rate"):
        replace(run, settings=replace(run.settings, decoder_rate=1.0)).keep_settings()


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say where the recordings are"),
        (["--recordings", "x", "--rank", "0"], "rank must be"),
        (["--recordings", "x", "--rehearsal", "1"], "rehearsal must be"),
        (["--recordings", "x", "--decoder-rate", "0"], "decoder_rate must be"),
        (["--recordings", "x", "--name", "a/b"], "name must have"),
        (["--recordings", "missing", "--checkpoint", "bundled"], "missing"),
    ],
    ids=["no recordings", "rank", "rehearsal", "decoder", "name", "missing"],
)
def test_what_is_refused(
    tmp_path: Path, options: list[str], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert command.main(["prepare", "--out", str(tmp_path / "out"), *options]) == 1
    assert message in caplog.text


def test_later_commands_need_the_folder_alone(tmp_path: Path) -> None:
    parser = command._parser()
    first = parser.parse_args(
        ["prepare", "--out", str(tmp_path), "--recordings", "x", "--rank", "3"]
    )
    command.run_of(first).keep_settings()
    later = command.run_of(parser.parse_args(["train", "--out", str(tmp_path), "--steps", "3"]))
    assert (later.settings.rank, later.settings.recordings) == (3, "x")
    assert later.budget == Budget(steps=3)
    assert (later.decoder_budget, later.with_decoder) == (Budget(minutes=10.0), False)
    both = ["all", "--out", str(tmp_path), "--decoder", "--decoder-steps", "4"]
    tuned = command.run_of(parser.parse_args(both))
    assert (tuned.decoder_budget, tuned.with_decoder) == (Budget(steps=4), True)


# ---------------------------------------------------------------- the whole


@pytest.mark.slow
def test_a_voice_from_recordings_to_an_evaluation(tmp_path: Path) -> None:
    pytest.importorskip("pocketsphinx")
    from ChatTTS.audio import save

    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True)
    texts = (
        "it was very cold last night, and there was snow on the road.",
        "we went to the market to buy some bread.",
        "the children are playing in the garden behind the house.",
        "please tell me when the next train leaves for the city.",
    )
    folder = tmp_path / "recordings"
    folder.mkdir()
    for name, wave in zip("abcd", speak(chat, list(texts), max_new_token=500), strict=True):
        save(folder / f"{name}.wav", wave)
    for name, text in zip("abcd", texts, strict=True):
        (folder / f"{name}.txt").write_text(text, "utf-8")
    chat.unload()
    settings = Settings(str(folder), name="anna", rehearsed=4, speaker="clara", tokens=1500)
    steps = Budget(steps=2)
    run = Run(tmp_path / "out", settings, CPU, steps, 0, decoder_budget=steps, with_decoder=True)
    command.run_stage("all", run)
    command.run_stage("merge", run)
    found = json.loads((tmp_path / "out" / "evaluation.json").read_text("utf-8"))
    assert found["held_out"] == 1
    assert all(voice["equal_without_adapter"] for voice in found["old_voices"].values())
    assert 0 <= found["word_error_rate"]["adapter"] < 100
    assert found["mel_distance"]["base"]["before"] < 0.01
    assert 0 < found["mel_distance"]["recordings"]["after"] < 2
    for name in ("adapter", "decoder", "read_by_decoder"):
        assert -1 <= found["likeness_to_recordings"][name] <= 1
    assert corpus.path_of(run).exists()
    assert (tmp_path / "out" / "merged" / "asset" / "config.json").exists()
