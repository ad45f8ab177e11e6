"""Voices as strings: what is read, what is refused and how."""

import lzma
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.errors import VoiceError
from ChatTTS.model.legacy_speaker import read_legacy_speaker
from ChatTTS.model.speaker import Speaker, decode_sample, encode_sample
from ChatTTS.utils import base16384

from ..support.bundled_voice import BUNDLED, WIDTH


@pytest.fixture
def speaker() -> Speaker:
    return Speaker(WIDTH, BUNDLED.spk_stat, torch.device("cpu"))


def test_a_string_is_its_vector(speaker: Speaker) -> None:
    vector = torch.randn(WIDTH, dtype=torch.float16)
    text = speaker.encode(vector)
    expected = (vector / vector.norm()).float().numpy()
    np.testing.assert_array_equal(speaker.vector(text), expected)


def test_tensors_keep_their_precision(speaker: Speaker) -> None:
    vector = torch.randn(WIDTH, dtype=torch.float32)
    found = speaker.vector(vector)
    np.testing.assert_allclose(found, (vector / vector.norm()).numpy(), atol=1e-7)
    np.testing.assert_array_equal(found, speaker.vector(vector.numpy()))
    np.testing.assert_array_equal(found, speaker.vector(vector.reshape(1, WIDTH)))


def test_the_same_seed_draws_the_same_voice(speaker: Speaker) -> None:
    voices = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        voices.append(speaker.sample_random())
    assert voices[0] == voices[1] != voices[2]


def test_without_statistics_there_is_no_random_voice() -> None:
    with pytest.raises(VoiceError, match="spk_stat"):
        Speaker(256, "", torch.device("cpu")).sample_random()
    with pytest.raises(VoiceError, match="needs 1536"):
        Speaker(768, BUNDLED.spk_stat, torch.device("cpu"))


def test_sample_prompts_round_trip() -> None:
    codes = np.random.default_rng(0).integers(0, 625, (4, 57))
    np.testing.assert_array_equal(decode_sample(encode_sample(codes), 4, 625), codes.T)


@pytest.mark.parametrize("length", [1, 700, 9000])
def test_strings_are_those_of_the_preset(length: int) -> None:
    """Smaller tables of the encoder change no byte."""
    codes = np.random.default_rng(length).integers(0, 625, (4, length)).astype("<u2")
    preset = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    packed = lzma.compress(codes.tobytes(), lzma.FORMAT_RAW, filters=preset)
    header = np.array(codes.shape, dtype="<u2").tobytes()
    assert encode_sample(codes) == base16384.encode(header + packed)


@pytest.mark.parametrize(
    ("voice", "message"),
    [
        ("", "not a speaker string"),
        ("hello", "not a speaker string"),
        ("一丁丂七", "not a speaker string"),
        (torch.randn(WIDTH - 1), f"has {WIDTH} values, this one {WIDTH - 1}"),
        (torch.zeros(WIDTH), "all zero"),
        (torch.full((WIDTH,), torch.nan), "finite"),
        (torch.ones(WIDTH, dtype=torch.int64), "floats"),
        (object(), "floats, not object"),
    ],
)
def test_what_is_no_speaker(speaker: Speaker, voice: Any, message: str) -> None:
    with pytest.raises(VoiceError, match=message):
        speaker.vector(voice)


def test_a_speaker_of_another_model(speaker: Speaker) -> None:
    other = Speaker(64, "", torch.device("cpu"))
    with pytest.raises(VoiceError, match="belongs to another model"):
        speaker.vector(other.encode(torch.randn(64)))


def test_mixed_up_voices_are_told_apart(speaker: Speaker) -> None:
    sample = encode_sample(np.random.default_rng(0).integers(0, 625, (4, 57)))
    with pytest.raises(VoiceError, match="give it as spk_smp"):
        speaker.vector(sample)
    with pytest.raises(VoiceError, match="was a speaker string"):
        decode_sample(speaker.encode(torch.randn(WIDTH)), 4, 625)


def test_damaged_speakers(speaker: Speaker) -> None:
    text = speaker.encode(torch.arange(WIDTH).half())
    for kept in (len(text) - 1, len(text) // 2, len(text) // 2 + 1, 5):
        with pytest.raises(VoiceError, match="was cut off: give all of its text"):
            speaker.vector(text[:kept])
    other_end = text[:-1] + chr(ord(text[-1]) + 1)
    for damaged in (other_end, text[:99] + text[100:], text[:50] + "\u8dff" * 9 + text[59:]):
        with pytest.raises(VoiceError, match="not a speaker string, or"):
            speaker.vector(damaged)


def test_damaged_samples() -> None:
    codes = np.random.default_rng(0).integers(0, 625, (4, 57))
    text = encode_sample(codes)
    with pytest.raises(VoiceError, match="sample prompt"):
        decode_sample(text[: len(text) // 2], 4, 625)
    with pytest.raises(VoiceError, match="damaged"):
        decode_sample(encode_sample(codes + 600), 4, 625)


def test_legacy_files_run_no_code(tmp_path: Path) -> None:
    path, trace = tmp_path / "voice.pt", tmp_path / "trace"
    torch.save(torch.ones(256), path)
    assert read_legacy_speaker(path).tolist() == [1.0] * 256

    class Mischief:
        def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
            return (Path.touch, (trace,))

    path.write_bytes(pickle.dumps(Mischief(), protocol=2))
    with pytest.raises(VoiceError, match="not a saved speaker"):
        read_legacy_speaker(path)
    assert not trace.exists()
    torch.save({"a": torch.ones(2)}, path)
    with pytest.raises(VoiceError, match="more than a tensor"):
        read_legacy_speaker(path)
