"""``chattts say`` and ``refine``, with a fake Chat that records its calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ChatTTS.audio.plot
import ChatTTS.core
from ChatTTS.audio import read, save
from ChatTTS.checkpoints import assets
from ChatTTS.model.generation import FinishReason
from ChatTTS.pipeline.results import (
    EmptySpeechError,
    Fault,
    SpokenText,
    SpokenUtterance,
    Waveforms,
    Word,
)
from ChatTTS.text import LexiconUse

from ..support.cli_tools import RATE, TONE, FakeChat, Run, pcm, pipe_in

pytestmark = pytest.mark.usefixtures("empty_home")


# ---------------------------------------------------------------- the text


def test_words_are_joined_wherever_they_stand(chat: FakeChat, run: Run) -> None:
    status, _, _ = run("say", "hello", "there,", "-o", "a.wav", "old", "friend")
    assert status == 0
    assert chat.asked["text"] == "hello there, old friend"


@pytest.mark.parametrize("words", [[], ["-"], ["-f", "-"]])
def test_standard_input(
    words: list[str], chat: FakeChat, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe_in(monkeypatch, "\ufeffgood morning\n")
    assert run("say", *words)[0] == 0
    assert chat.asked["text"].strip() == "good morning"


def test_files_are_one_text(chat: FakeChat, run: Run) -> None:
    Path("one.txt").write_text("第一。", encoding="utf-8")
    Path("two.txt").write_text("Second.", encoding="utf-8")
    assert run("say", "-f", "one.txt", "--file", "two.txt")[0] == 0
    assert chat.asked["text"] == "第一。\nSecond."


def test_a_dash_among_words_is_a_dash(chat: FakeChat, run: Run) -> None:
    assert run("say", "now", "-", "or", "never")[0] == 0
    assert chat.asked["text"] == "now - or never"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is no text"),
        (["  "], "there is no text"),
        (["hi", "-f", "a.txt"], "not both"),
        (["-f", "gone.txt"], "gone.txt cannot be read"),
        (["-f", "latin.txt"], "latin.txt is not UTF-8"),
        (["hi", "--sample", "a.wav"], "--transcript"),
        (["hi", "--transcript", "a"], "--sample"),
        (["hi", "-o", "a.xyz"], "must end in .wav, .flac, .mp3"),
        (["hi", "-o", "plain"], "must end in"),
        (["hi", "--stream", "-o", "a.mp3"], "must end in .wav with --stream"),
        (["hi", "--play", "-o", "a.mp3"], "must end in .wav with --stream or --play"),
        (["hi", "--low-latency"], "add --play or --stream"),
        (["hi", "--top-p", "3"], "top_P"),
        (["hi", "--seed", str(2**70)], "manual_seed"),
        (["hi", "--speed", "11"], "--speed"),
        (["hi", "--dtype", "int4"], "--dtype"),
        (["hi", "--colour"], "--colour"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_2(
    arguments: list[str], message: str, chat: FakeChat, run: Run
) -> None:
    Path("latin.txt").write_bytes("café".encode("latin-1"))
    status, out, err = run("say", *arguments)
    assert status == 2
    assert out == b""
    assert err.startswith("chattts: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not chat.loaded


# ---------------------------------------------------------------- where the sound goes


def test_the_default_file_never_replaces_another(chat: FakeChat, run: Run) -> None:
    for name in ("speech.wav", "speech-2.wav", "speech-3.wav"):
        status, out, err = run("say", "hi")
        assert (status, out) == (0, b"")
        assert f"{name}: 1.00 s of speech" in err
        assert Path(name).is_file()


def test_a_named_file_is_replaced(chat: FakeChat, run: Run) -> None:
    save("a.wav", TONE[:100])
    assert run("say", "hi", "-o", "a.wav")[0] == 0
    assert len(read("a.wav")[0]) == RATE


@pytest.mark.parametrize("ending", ["wav", "flac", "mp3", "ogg", "opus"])
def test_formats(ending: str, chat: FakeChat, run: Run) -> None:
    assert run("say", "hi", "-o", f"a.{ending}")[0] == 0
    assert abs(len(read(f"a.{ending}", RATE)[0]) - RATE) < 3000


def test_a_folder_that_is_not_there(chat: FakeChat, run: Run) -> None:
    status, _, err = run("say", "hi", "-o", "gone/a.wav")
    assert status == 1
    assert "gone does not exist" in err
    assert not chat.loaded


@pytest.mark.slow
def test_a_picture(chat: FakeChat, run: Run) -> None:
    pytest.importorskip("matplotlib")
    for stream in ([], ["--stream"]):
        status, _, err = run("say", "hi", "-o", "a.wav", "--plot", "a.png", *stream)
        assert status == 0
        assert "drawn in a.png" in err
        assert Path("a.png").read_bytes().startswith(b"\x89PNG")
        Path("a.png").unlink()


@pytest.mark.slow
def test_a_picture_has_the_words_of_a_model_that_knows_its_heads(
    chat: FakeChat, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    drawn: list[list[str]] = []

    def draw_words(axes: Any, words: list[Word], **_: Any) -> float:
        drawn.append([word.text for word in words])
        return 0.3

    monkeypatch.setattr(ChatTTS.audio.plot, "draw_words", draw_words)
    status, _, err = run("say", "hi", "-o", "a.wav", "--plot", "a.png")
    assert (status, "word_times" in chat.asked, drawn) == (0, False, [])
    assert "`chattts align` finds" in err
    chat.alignment_heads = ((0, 0),)
    for stream in ([], ["--stream"]):
        status, _, err = run("say", "hi", "-o", "a.wav", "--plot", "a.png", *stream)
        assert (status, chat.asked["word_times"]) == (0, True)
        assert "align" not in err
    assert drawn == [["hi"], ["hi"]]
    assert run("say", "hi", "-o", "a.wav")[0] == 0
    assert "word_times" not in chat.asked


def test_raw_sound_of_the_whole(chat: FakeChat, run: Run) -> None:
    status, out, err = run("say", "hello", "-o", "-")
    assert status == 0
    assert out == pcm(TONE)
    assert "standard output: 1.00 s of speech in " in err
    assert list(Path().glob("*.wav")) == []


# ---------------------------------------------------------------- what the library is asked for


def test_the_defaults(chat: FakeChat, run: Run) -> None:
    status, _, err = run("say", "hi")
    assert status == 0
    assert chat.loaded == {
        "source": "bundled",
        "custom_path": None,
        "device": None,
        "use_vllm": True,
        "dtype": "auto",
        "num_threads": None,
        "kv_memory": None,
        "kv_cache_dtype": "auto",
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "distributed_executor_backend": None,
        "adapter": None,
    }
    asked = chat.asked
    assert asked["skip_refine_text"] is True
    assert asked["do_text_normalization"] is True
    assert asked["split_text"] is True
    assert asked["lang"] is None
    # Settings that the caller does not name come from the checkpoint.
    assert set(asked["params_infer_code"]) == {"manual_seed", "show_tqdm"}
    assert "voice clara" in err
    assert "--model huggingface" in err


def test_the_speaker_of_the_language_is_told(chat: FakeChat, run: Run) -> None:
    chat.speaker = "lan"
    assert "voice lan," in run("say", "hi")[2]


def test_options_reach_the_library(chat: FakeChat, run: Run) -> None:
    options = (
        "--seed 7 --temperature 0 --top-p 0.5 --top-k 9 --speed 3 --prompt [oral_1] --lang en "
        "--no-normalize --no-split --voice edith --engine velocity --dtype float32 --device cpu "
        "--threads 2 --memory 2GB --kv-cache-dtype int8"
    )
    assert run("say", "hi", *options.split())[0] == 0
    loaded, asked = chat.loaded, chat.asked
    assert loaded["use_vllm"] is True
    assert loaded["dtype"] == "float32"
    assert loaded["device"] == "cpu"
    assert loaded["num_threads"] == 2
    assert loaded["kv_memory"] == "2GB"
    assert loaded["kv_cache_dtype"] == "int8"
    assert asked["lang"] == "en"
    assert asked["do_text_normalization"] is False
    assert asked["split_text"] is False
    coding = asked["params_infer_code"]
    assert coding.pop("spk_emb") == bundled_config()["defaults"]["speakers"]["edith"]
    assert coding == {
        "manual_seed": 7,
        "show_tqdm": True,
        "temperature": 0.0,
        "top_P": 0.5,
        "top_K": 9,
        "prompt": "[speed_3][oral_1]",
    }


def test_without_a_seed_each_call_has_its_own_and_tells_it(chat: FakeChat, run: Run) -> None:
    seeds = set()
    for _ in range(3):
        _, _, err = run("say", "hi", "-o", "a.wav")
        seed = chat.asked["params_infer_code"]["manual_seed"]
        assert f"seed {seed}" in err
        seeds.add(seed)
    assert len(seeds) == 3


def test_the_full_model_is_taken_once_it_is_here(
    chat: FakeChat, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = assets.locate("bundled")
    monkeypatch.setattr(assets, "is_cached", lambda: True)
    monkeypatch.setattr(assets, "locate", lambda *_: bundled)
    _, _, err = run("say", "hi")
    assert chat.loaded["source"] == "huggingface"
    assert "loading the model: huggingface" in err
    assert "chattts download" not in err
    run("say", "hi", "--model", "bundled")
    assert chat.loaded["source"] == "bundled"


def test_a_model_in_a_folder(chat: FakeChat, run: Run) -> None:
    folder = assets.locate("bundled").path
    assert run("say", "hi", "--model", str(folder))[0] == 0
    assert (chat.loaded["source"], chat.loaded["custom_path"]) == ("custom", folder)
    status, _, err = run("say", "hi", "--model", "nowhere")
    assert status == 1
    assert "nowhere" in err


def test_refining_is_asked_for(
    chat: FakeChat, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    untrained = str(model_files(tmp_path / "untrained", refines=False))
    status, _, err = run("say", "hi", "--model", untrained, "--refine")
    assert status == 0
    assert chat.asked["skip_refine_text"] is True
    assert "was not trained to refine" in err

    model = str(model_files(tmp_path, refines=True))
    run("say", "hi", "--model", model)
    assert chat.asked["skip_refine_text"] is True
    run("say", "hi", "--model", model, "--refine")
    assert chat.asked["skip_refine_text"] is False
    assert "prompt" not in chat.asked["params_refine_text"]
    run("say", "hi", "--model", model, "--oral", "2", "--break", "6", "--seed", "1")
    assert chat.asked["skip_refine_text"] is False
    assert chat.asked["params_refine_text"]["prompt"] == "[oral_2][break_6]"
    assert chat.asked["params_refine_text"]["manual_seed"] == 1
    run("say", "hi", "--model", model, "--oral", "2", "--no-refine")
    assert chat.asked["skip_refine_text"] is True


def test_an_adapter_as_voice(chat: FakeChat, run: Run) -> None:
    given = ("say", "hello", "-o", "a.wav", "--adapter", "anna=some/folder", "--voice")
    assert run(*given, "anna")[0] == 0
    assert chat.loaded["adapter"] == {"anna": Path("some/folder")}
    assert chat.asked["params_infer_code"]["adapter"] == "anna"
    assert "voice the adapter's own" in run("say", "hello", "-o", "b.wav", "--adapter", "x")[2]
    status, _, error = run(*given, "bert")
    assert status != 0
    assert "anna" in error


def test_a_recording_as_voice(chat: FakeChat, run: Run) -> None:
    save("me.wav", np.tile(TONE, 2))
    assert run("say", "hi", "--sample", "me.wav", "--transcript", "my words")[0] == 0
    coding = chat.asked["params_infer_code"]
    assert (coding["spk_smp"], coding["txt_smp"]) == ("codes of me.wav", "my words")
    save("short.wav", TONE[:1000])
    status, _, err = run("say", "hi", "--sample", "short.wav", "--transcript", "my words")
    assert status == 1
    assert "too short" in err


# ---------------------------------------------------------------- how it ends


def test_quiet(chat: FakeChat, run: Run) -> None:
    status, out, err = run("say", "hi", "-q")
    assert (status, out, err) == (0, b"", "")
    assert chat.asked["params_infer_code"]["show_tqdm"] is False
    assert Path("speech.wav").is_file()


def test_speech_that_was_cut_off_is_said(chat: FakeChat, run: Run) -> None:
    chat.finish = FinishReason.LENGTH
    for stream in ([], ["--stream"]):
        status, _, err = run("say", "hi", "-q", "-o", "a.wav", *stream)
        assert status == 0
        assert "chattts: warning: 'hi' was cut off" in err
        assert "(length)" in err


@pytest.mark.parametrize(
    ("options", "gives_attention", "guard"),
    [
        ([], True, "retry"),
        (["--stream"], True, "report"),
        (["--stream", "--guard", "retry"], True, "retry"),
        ([], False, None),
        (["--guard", "report"], False, "report"),
        (["--guard", "report"], True, "report"),
        (["--guard", "off"], True, None),
    ],
)
def test_the_guard(
    options: list[str], gives_attention: bool, guard: str | None, chat: FakeChat, run: Run
) -> None:
    chat.gives_attention, chat.alignment_heads = gives_attention, ((0, 0),)
    assert run("say", "hi", "-o", "a.wav", *options)[0] == 0
    assert chat.asked["guard"] == guard


def test_no_heads_are_searched_for_the_guard_by_default(chat: FakeChat, run: Run) -> None:
    assert run("say", "hi", "-o", "a.wav")[0] == 0
    assert chat.asked["guard"] is None


def test_faults_are_told(chat: FakeChat, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        Fault("market", 0.5, 0.5, 12_000, 12_000, 3, 9, "skipped", 1),
        Fault("", 1.25, 2.0, 30_000, 48_000, 20, 20, "tail", 0),
    ]
    row = SpokenText([SpokenUtterance("hi", RATE, FinishReason.STOP, [], found, 4)])
    monkeypatch.setattr(chat, "row", lambda text: row)
    err = run("say", "hi", "-q", "-o", "a.wav")[2]
    assert "'hi' may be faulty (skipped 'market' at 0.50 s of the sentence, tail at 1.25 s" in err
    row.utterances[0].faults.clear()
    assert "'hi' took 4 attempts" in run("say", "hi", "-o", "a.wav")[2]


@pytest.mark.parametrize("stream", [False, True])
def test_interrupted(stream: bool, chat: FakeChat, run: Run) -> None:
    save("a.wav", TONE[:100])
    chat.failure = KeyboardInterrupt()
    status, _, err = run("say", "hi", "-o", "a.wav", *(["--stream"] if stream else []))
    assert status == 130
    assert err.endswith("chattts: interrupted\n")
    assert "Traceback" not in err
    # A stream leaves a file with the speech so far; without a stream an earlier file stays.
    assert len(read("a.wav")[0]) == (RATE if stream else 100)
    assert sorted(path.name for path in Path().glob("*.*")) == ["a.wav"]


def test_what_was_spoken_is_kept_though_a_sentence_is_missing(chat: FakeChat, run: Run) -> None:
    rows = [SpokenText([SpokenUtterance("hi", RATE, FinishReason.STOP)])]
    chat.failure = EmptySpeechError(["hm"], Waveforms([TONE], rows))
    status, _, err = run("say", "hi", "-o", "a.wav")
    assert status == 1
    assert "a.wav: 1.00 s" in err
    assert "nothing was spoken for 'hm'" in err
    assert len(read("a.wav")[0]) == RATE

    chat.failure = EmptySpeechError(["hm"], Waveforms([TONE[:0]], rows))
    status, _, err = run("say", "hi", "-o", "b.wav")
    assert status == 1
    assert "nothing was spoken for 'hm'" in err
    assert not Path("b.wav").exists()


def test_an_unexpected_error_is_one_line_too(chat: FakeChat, run: Run) -> None:
    chat.failure = RuntimeError("out of\n  luck")
    status, _, err = run("say", "hi")
    assert status == 1
    assert err.splitlines()[-1] == "chattts: error: RuntimeError: out of luck (-vv shows where)"
    assert "Traceback" not in err
    assert "Traceback" in run("say", "hi", "-vv")[2]


# ---------------------------------------------------------------- refine


def bundled_config() -> dict[str, Any]:
    path = assets.locate("bundled").asset / "config.json"
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return config


def model_files(folder: Path, refines: bool) -> Path:
    """Make the model files that the command checks; ``refines`` says whether it can refine."""
    bundled = assets.locate("bundled").asset
    asset = folder / "asset"
    for file in bundled.rglob("*"):
        target = asset / file.relative_to(bundled)
        if file.is_file() and file.name != "config.json":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(file)
    (asset / "gpt" / "config.json").write_text("{}", encoding="utf-8")
    config = bundled_config()
    config["defaults"]["refine_trained"] = refines
    (asset / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return asset.parent


def test_refine_prints_the_text(chat: FakeChat, run: Run, tmp_path: Path) -> None:
    model = str(model_files(tmp_path, refines=True))
    status, out, _ = run("refine", "hi", "--model", model, "--laugh", "1", "--seed", "5", "you")
    assert status == 0
    assert out.decode() == "hi you [uv_break]\n"
    params = chat.asked["params_refine_text"]
    assert (params.prompt, params.manual_seed) == ("[laugh_1]", 5)


def test_refine_on_a_model_that_cannot(chat: FakeChat, run: Run, tmp_path: Path) -> None:
    model = str(model_files(tmp_path, refines=False))
    status, out, err = run("refine", "hi", "--model", model)
    assert (status, out) == (1, b"")
    assert err.count("\n") == 1
    assert "not trained to refine" in err
    assert "chattts download" in err
    assert not chat.loaded


def test_a_lexicon(chat: FakeChat, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "lexicon.toml"
    path.write_text('nginx = "engine x"\n', encoding="utf-8")
    assert run("say", "use nginx", "-o", "a.wav", "--lexicon", str(path))[0] == 0
    assert chat.asked["lexicon"].apply("use nginx").text == "use engine x"
    path.write_text('a = "b"\nnginx = ""\n', encoding="utf-8")
    status, _, err = run("say", "use nginx", "-o", "a.wav", "--lexicon", str(path))
    assert status != 0
    assert f"{path}, line 2: lexicon entry 'nginx': the saying is empty" in err


def test_what_the_lexicon_replaced_is_told(
    chat: FakeChat, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = SpokenText([SpokenUtterance("hi", RATE, FinishReason.STOP)])
    row.lexicon_uses = (LexiconUse("nginx", "engine x", 0, 5),) * 2
    monkeypatch.setattr(chat, "row", lambda text: row)
    err = run("say", "hi", "-o", "a.wav")[2]
    assert err.count("'nginx' as 'engine x'") == 1
