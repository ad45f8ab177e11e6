"""Calls of the published package with a leading underscore, and names that are not here."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ChatTTS
from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError, NotLoadedError
from ChatTTS.params import as_params

from ..support.chat_tools import LIVELY, TEXT, speak
from ..support.places import DATA

MODEL = DATA / "model-a"


def paths_of(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return the paths as scripts join them."""
    published = asdict(Chat().config.path)
    return {name: os.path.join(folder, path) for name, path in published.items()} | changes


def test_a_checkpoint_is_loaded_by_its_paths() -> None:
    chat = Chat()
    assert chat._load(**paths_of(MODEL), compile=False, device="cpu")
    assert chat.config.gpt.hidden_size == 64
    assert chat.compile is False
    positional = Chat()
    gpt = str(MODEL / "asset" / "gpt")
    assert positional._load(None, None, gpt, None, None, None, torch.device("cpu"), True)
    assert positional.compile is True


def test_paths_of_an_asset_folder_with_another_name(tmp_path: Path) -> None:
    shutil.copytree(MODEL / "asset", tmp_path / "models")
    moved = {k: v.replace("/asset/", "/models/") for k, v in paths_of(tmp_path).items()}
    assert Chat()._load(**moved, device="cpu")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"decoder_ckpt_path": "/elsewhere/asset/Decoder.safetensors"}, "into one"),
        ({"decoder_ckpt_path": "/elsewhere/tuned.safetensors"}, r"must be named Decoder"),
    ],
)
def test_paths_that_are_no_checkpoint_are_named(
    changes: dict[str, str], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    chat = Chat(logging.getLogger("mine"))
    assert chat._load(**paths_of(MODEL, **changes)) is False
    assert Chat()._load() is False
    assert "decoder_ckpt_path" in caplog.text
    assert reason in caplog.text
    assert not chat.has_loaded()


# ---------------------------------------------------------------- the passes one by one


@pytest.mark.slow_for("standard*")
def test_the_passes_one_by_one_give_the_waveform(small: Chat) -> None:
    texts = [TEXT, "come to the water."]
    params = small.InferCodeParams(**LIVELY)
    (result,) = small._infer_code(texts, False, "cpu", True, params)
    assert [ids.shape for ids in result.ids] == [(40, 4)] * 2
    assert [hidden.shape for hidden in result.hiddens] == [(40, 64)] * 2
    expected = speak(small, texts)
    for rows, use_decoder in ((result.hiddens, True), (result.ids, False)):
        wavs = small._decode_to_wavs(rows, use_decoder)
        assert wavs.shape == (2, 79 * 256)
        assert wavs.dtype == np.float32
        if use_decoder:
            np.testing.assert_allclose(wavs, np.stack(expected), atol=1e-4)
    result.destroy()
    assert not result.ids


def test_codes_come_while_they_are_generated(standard: Chat) -> None:
    params = {**LIVELY, "stream_batch": 16}
    lengths = [
        (len(found.ids[0]), len(found.hiddens))
        for found in standard._infer_code(TEXT, True, torch.device("cpu"), False, params)
    ]
    assert lengths == [(16, 0), (32, 0), (40, 0)]


def test_rows_of_other_lengths_are_filled_with_silence(standard: Chat) -> None:
    hiddens = [torch.randn(5, 64), torch.empty(0, 64), torch.randn(2, 64)]
    wavs = standard._decode_to_wavs(hiddens, True)
    assert wavs.shape == (3, 9 * 256)
    assert not wavs[1].any()
    assert not wavs[2, 3 * 256 :].any()
    mel = torch.randn(1, 100, 8)
    assert standard._vocos_decode(mel).shape == (1, 7 * 256)


def test_refined_ids_are_those_of_the_refined_text(standard: Chat) -> None:
    params = {**LIVELY, "max_new_token": 12, "min_new_token": 12}
    ids = standard._refine_text([TEXT], "cpu", params).ids
    expected = standard.infer(
        [TEXT], refine_text_only=True, split_text=False, params_refine_text=params
    )
    kept = [row[row.less(standard.tokenizer.break_0_ids)] for row in ids]
    assert [text.strip() for text in standard.tokenizer.decode(kept)] == expected


def test_a_class_of_the_scripts_own_gives_parameters(standard: Chat) -> None:
    class RefineTextParams:
        prompt = ""
        top_P = 0.7  # noqa: N815  the published name
        top_K = 20  # noqa: N815
        temperature = 0.7

    class InferCodeParams(RefineTextParams):
        prompt: str = "[speed_5]"
        temperature = 0.1
        stream_batch = 4

    kind: Any = standard.InferCodeParams
    made = as_params(kind, InferCodeParams())
    assert made.named == {"temperature", "stream_batch"}
    with pytest.raises(ConfigError, match="expected InferCodeParams"):
        as_params(kind, standard.RefineTextParams())
    with pytest.raises(ConfigError, match="expected InferCodeParams"):
        as_params(kind, object())


# ---------------------------------------------------------------- names


def test_missing_names_tell_what_to_call_instead(standard: Chat) -> None:
    for chat, name, instead in (
        (standard, "_infer", "chat.infer"),
        (standard, "pretrain_models", "chat.gpt"),
        (standard, "_encode_spk_emb", "speaker"),
        (standard.gpt, "load_state_dict", "chat.gpt.gpt"),
        (standard.gpt, "forward", "chat.infer"),
        (standard.embed, "emb_code", "code"),
        (standard.embed, "head_text_", "no attribute"),
        (standard.tokenizer, "_tokenizer_", "no attribute"),
        (ChatTTS, "res", "homophones"),
        (ChatTTS.config.config, "GPT", "GPTConfig"),
        (ChatTTS.config.config, "Nothing", "no attribute"),
    ):
        with pytest.raises(AttributeError, match=name) as caught:
            getattr(chat, name)
        assert instead in str(caught.value)


def test_the_published_module_of_sizes() -> None:
    import ChatTTS.config.config as module

    assert module.Config is ChatTTS.config.Config
    assert asdict(module.Config().path)["tokenizer_path"] == "asset/tokenizer"


def test_names_before_a_load_keep_their_error() -> None:
    chat = Chat()
    assert not hasattr(chat, "compile")
    assert not hasattr(chat, "speaker")
    with pytest.raises(NotLoadedError, match=r"chat\.load"):
        _ = chat.speaker


def test_the_published_switch_interrupts_what_runs(standard: Chat) -> None:
    standard.context.set(False)
    # Long enough that a busy machine does not find its end before the switch.
    lengths = {"min_new_token": 1500, "max_new_token": 1500}
    params = standard.InferCodeParams(**{**LIVELY, **lengths})
    stream = standard.infer(TEXT, True, skip_refine_text=True, params_infer_code=params)
    next(stream)
    standard.context.set(True)
    list(stream)
    assert stream.finish_reasons == ["abort"]
    assert not standard.context.get()
    assert len(speak(standard, TEXT)[0]) == 79 * 256


def test_a_normalizer_is_destroyed() -> None:
    chat = Chat()
    assert chat.normalizer.register("en", lambda text: "first")
    chat.normalizer.destroy()
    assert chat.normalizer("second word.") == "second word."
    assert chat.normalizer.register("en", lambda text: "third")
