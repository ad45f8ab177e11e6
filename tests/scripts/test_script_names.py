"""The names on a model's parts that scripts for the published package use."""

import hashlib
import json
import logging
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ChatTTS
from ChatTTS.checkpoints import assets
from ChatTTS.checkpoints.assets import published_hashes
from ChatTTS.compat.moved import MOVED
from ChatTTS.config import published_facts
from ChatTTS.core import Chat
from ChatTTS.errors import VoiceError
from ChatTTS.model.dvae import GFSQ, DVAEDecoder
from ChatTTS.model.speaker import Speaker
from ChatTTS.norm import Normalizer  # type: ignore[import-not-found]
from ChatTTS.utils.gpu_utils import select_device  # type: ignore[import-not-found]

from ..support.chat_tools import LIVELY, TEXT, Recording, equal, speak
from ..support.places import DATA

TEXTS = ["hello the [laugh] world, one day.", "[Stts] water [spk_emb]"]


# ---------------------------------------------------------------- the speaker


def test_statistics_draw_the_known_voice(standard: Chat) -> None:
    speaker = standard.speaker
    torch.manual_seed(7)
    known = standard.sample_random_speaker()
    generator = torch.Generator().manual_seed(7)
    noise = torch.randn(speaker.dim, dtype=speaker.std.dtype, generator=generator)
    drawn = noise.mul_(speaker.std).add_(speaker.mean)
    assert speaker._encode(drawn) == Speaker._encode(drawn) == known
    np.testing.assert_array_equal(speaker._decode(known), drawn.numpy())
    torch.manual_seed(7)
    assert torch.equal(speaker._sample_random(), drawn)
    with pytest.raises(VoiceError, match="spk_stat"):
        _ = Speaker(8, "", torch.device("cpu")).std


def test_sample_prompts_as_tensors(standard: Chat) -> None:
    codes = torch.randint(0, 625, (4, 9))
    prompt = standard.speaker.encode_prompt(codes)
    again = Speaker.decode_prompt(prompt)
    assert again.dtype is torch.int32
    assert torch.equal(again, codes.int())
    with pytest.raises(VoiceError, match="2 dimensions"):
        standard.speaker.encode_prompt(codes.unsqueeze(0))
    with pytest.raises(VoiceError, match="not a sample prompt"):
        standard.speaker.decode_prompt("hello")


def test_decorated_prompts(standard: Chat) -> None:
    texts = list(TEXTS)
    assert Speaker.decorate_code_prompts(texts, "[speed_3]", "hm.", "voice") == [
        "[Stts][spk_emb]hm.[speed_3]hello the [laugh] world, one day.[Ptts]",
        "[Stts][spk_emb]hm.[speed_3]water[Ptts]",
    ]
    assert texts == TEXTS
    assert standard.speaker.decorate_code_prompts(["a"], None, None, None) == [
        "[Stts][empty_spk]a[Ptts]"
    ]
    assert standard.speaker.decorate_text_prompts(["a"], "[oral_2]") == [
        "[Sbreak]a[Pbreak][oral_2]"
    ]


# ---------------------------------------------------------------- a prompt, by hand


def test_a_batch_by_hand_is_what_the_engine_reads(standard: Chat) -> None:
    voice = standard.sample_random_speaker()
    sample = standard.speaker.encode_prompt(torch.randint(0, 625, (4, 5)))
    ids, mask, is_text = standard.tokenizer.encode(
        standard.speaker.decorate_code_prompts(["hello the world.", "one."], "", "day.", voice),
        standard.config.gpt.num_vq,
        prompt=standard.speaker.decode_prompt(sample),
        device=standard.device_gpt,
    )
    with Recording(standard) as recording:
        params = {**LIVELY, "spk_emb": voice, "spk_smp": sample, "txt_smp": "day.", "prompt": ""}
        standard.infer(["hello the world.", "one."], False, None, True, params_infer_code=params)
    vectors = standard.embed(ids, is_text)
    standard.speaker.apply(vectors, voice, ids, standard.tokenizer.spk_emb_ids, standard.device_gpt)
    assert (mask.dtype, is_text.dtype) == (torch.int64, torch.bool)
    for row, request in enumerate(recording.requests):
        prompt = request.prompt
        start = ids.shape[1] - len(prompt)
        assert not mask[row, :start].any()
        assert mask[row, start:].all()
        assert int(is_text[row].sum()) == len(prompt.text)
        texts = torch.from_numpy(prompt.text).unsqueeze(1).expand(-1, 4)
        assert torch.equal(ids[row, start : start + len(texts)], texts)
        assert torch.equal(ids[row, start + len(texts) :], torch.from_numpy(prompt.codes))
        embedded = standard.embed.embed_text(torch.from_numpy(prompt.text))
        embedded[torch.from_numpy(prompt.speaker_slots)] = torch.from_numpy(prompt.speaker)
        assert torch.equal(vectors[row, start : start + len(texts)], embedded)
        codes = standard.embed.embed_codes(torch.from_numpy(prompt.codes))
        torch.testing.assert_close(vectors[row, start + len(texts) :], codes)


def test_without_inplace_the_vectors_stay(standard: Chat) -> None:
    ids, _, is_text = standard.tokenizer.encode(["[spk_emb] one"], 4)
    vectors = standard.embed(ids, is_text)
    before = vectors.clone()
    voice = torch.randn(standard.speaker.dim)
    slot = standard.tokenizer.spk_emb_ids
    spoken = standard.speaker.apply(vectors, voice, ids, slot, torch.device("cpu"), inplace=False)
    assert torch.equal(vectors, before)
    torch.testing.assert_close(spoken[0, 0], voice / voice.norm())
    assert torch.equal(spoken[0, 1:], before[0, 1:])


def test_ids_back_to_texts(standard: Chat) -> None:
    tokenizer = standard.tokenizer
    ids, _, _ = tokenizer.encode(["hello [laugh] world."], 4)
    ends = torch.tensor([ids.shape[1]])
    outputs = standard.gpt._prepare_generation_outputs(ids, 0, ends, [], [], True)
    assert tokenizer.decode(outputs.ids) == [tokenizer.text(ids[0, :, 0].numpy())]
    assert tokenizer.decode(ids[:, :, 0].tolist(), skip_special_tokens=True) != tokenizer.decode(
        ids[:, :, 0].tolist()
    )
    hiddens = [torch.full((1, 2), float(i)) for i in range(3)]
    outputs = standard.gpt._prepare_generation_outputs(
        ids, 1, torch.tensor([2]), [], hiddens, False
    )
    assert torch.equal(outputs.ids[0], ids[0, 1:3])
    assert outputs.hiddens[0].tolist() == [[0, 0], [1, 1]]
    outputs.destroy()
    assert outputs.ids == []
    assert (tokenizer.len, tokenizer.eos_token) == (tokenizer.size, tokenizer.end_of_refine)
    assert tokenizer.break_0_ids == tokenizer.id("[break_0]")
    with pytest.raises(VoiceError, match="4, frames"):
        tokenizer.encode(["a"], 4, prompt=torch.zeros(3, 5))


def test_an_engine_does_not_need_what_scripts_patch(
    standard: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = speak(standard, TEXT)

    def patched(self: Any, text: list[str], num_vq: int) -> None:
        raise AssertionError("an engine called it")

    monkeypatch.setattr(type(standard.tokenizer), "encode", patched)
    assert equal(before, speak(standard, TEXT))


# ---------------------------------------------------------------- codec and vocoder


def test_sound_to_codes_step_by_step(standard: Chat) -> None:
    wav = speak(standard, TEXT)[0] + np.random.default_rng(0).normal(0, 0.1, 79 * 256).astype("f4")
    dvae = standard.dvae
    codes = dvae.sample_audio(wav)
    assert codes.shape == (4, 40)
    assert torch.equal(codes, dvae.sample_audio(torch.from_numpy(wav)))
    assert torch.equal(codes, dvae(torch.from_numpy(wav), "encode")[0])
    mel = dvae.preprocessor_mel(torch.from_numpy(wav).unsqueeze(0))
    scaled = mel / dvae.coef.view(100, 1).expand(mel.shape)
    assert torch.equal(codes, dvae.vq_layer(dvae.encoder(dvae.downsample_conv(scaled)))[0])
    assert isinstance(dvae.vq_layer, GFSQ)
    assert isinstance(dvae.encoder, DVAEDecoder)
    heard = standard.vocos.decode(dvae(codes.unsqueeze(0)))
    assert heard.shape == (1, 79 * 256)
    torch.testing.assert_close(heard[0], standard.vocos(dvae.decode(codes[None]))[0])
    smp = standard.speaker.encode_prompt(codes)
    assert torch.equal(standard.speaker.decode_prompt(smp), codes.int())


# ---------------------------------------------------------------- ChatTTS.utils, ChatTTS.norm


def test_modules_are_there_without_an_import() -> None:
    assert ChatTTS.utils.select_device(experimental=False).type in ("cpu", "cuda")
    assert select_device is ChatTTS.utils.select_device
    assert ChatTTS.core.Chat is ChatTTS.Chat
    assert ChatTTS.norm.Normalizer is Normalizer
    assert ChatTTS.config.Config.published().gpt.hidden_size == 768


@pytest.mark.parametrize(("name", "home"), MOVED.items())
def test_a_module_that_moved_is_one_module_under_both_names(name: str, home: str) -> None:
    assert import_module(name) is import_module(home)
    package, _, last = name.rpartition(".")
    assert getattr(import_module(package), last) is import_module(home)


def test_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    utils = ChatTTS.utils
    tensors = utils.load_safetensors(str(DATA / "model-a" / "asset" / "Vocos.safetensors"))
    assert isinstance(tensors["head.out.bias"], torch.Tensor)
    assert utils.get_latest_modified_file(tmp_path) is None
    assert str(tmp_path) in caplog.text
    (tmp_path / "a").touch()
    assert utils.get_latest_modified_file(str(tmp_path)) == str(tmp_path / "a")


def test_emptying() -> None:
    @dataclass
    class Thing:
        values: list[int]

    inner, thing = [1, 2], Thing([3])
    outer = {"inner": inner, "thing": thing, "n": 4}
    ChatTTS.utils.del_all(outer)
    assert (outer, inner, vars(thing)) == ({}, [], {})
    ChatTTS.utils.del_all(5)


def test_checking_a_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check = ChatTTS.utils.check_all_assets
    expected = {}
    for name in published_facts()["sha256"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
        expected[assets.hash_key(name)] = hashlib.sha256(name.encode()).hexdigest()
    assert set(expected) == set(published_hashes())
    ChatTTS.utils.logger.set_logger(logging.getLogger("mine"))
    assert check(tmp_path, expected)
    assert not check(tmp_path)
    assert {record.name for record in caplog.records} == {"mine"}
    vocos = tmp_path / "asset" / "Vocos.safetensors"
    vocos.write_bytes(b"other")
    assert not check(str(tmp_path), expected, update=True)
    assert not vocos.exists()
    assert (vocos.parent / "Vocos.safetensors.bak").exists()
    assert not check(tmp_path, expected)


def test_downloading_goes_where_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(
        "ChatTTS.utils.dl.locate", lambda source, custom_path: asked.append((source, custom_path))
    )
    ChatTTS.utils.download_all_assets(tmpdir="x", homedir=tmp_path)
    assert asked == [("local", tmp_path)]


def test_the_normalizer_by_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = tmp_path / "map.json"
    table.write_text(json.dumps({"a": "e"}), encoding="utf-8")
    normalize = Normalizer(str(table), logging.getLogger("mine"))
    assert normalize("a cat!", do_text_normalization=False) == "e cet."
    assert normalize.register("en", str)
    normalize.destroy()
    assert normalize.normalizers == {}
    assert Normalizer(tmp_path / "none.json", logging.getLogger("mine"))("a 5") == "a five"
    assert [record.name for record in caplog.records] == ["mine"]
