"""The files that say how long a checkpoint speaks."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from ChatTTS.checkpoints.assets import AssetFolder, Origin, locate
from ChatTTS.errors import ConfigError
from ChatTTS.loading.sidecar_files import stored_lengths
from ChatTTS.model.tokenizer import Tokenizer
from ChatTTS.pipeline.speech_lengths import Pace, SpeechLengths, Units, units_of
from ChatTTS.utils.folders import cache_folder

from ..make_lengths import learned
from ..support.places import DATA

pytestmark = pytest.mark.usefixtures("empty_home")

LENGTHS = SpeechLengths(
    0.2, 0.06, 0.1, 0.3, (Pace("[speed_9]", 0.7), Pace("", 1.0), Pace("[speed_1][speed_2]", 1.2))
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    shutil.copytree(DATA / "model-a", path)
    return path


def known(folder: Path, origin: Origin = "custom") -> SpeechLengths | None:
    return stored_lengths(AssetFolder(folder, origin)).known


def beside(folder: Path) -> Path:
    return folder / "asset" / "speech_lengths.json"


@pytest.mark.parametrize(
    ("spoken", "units"),
    [
        ("the day.", Units(0, 2, 0)),
        ("the day, the day.", Units(0, 4, 1)),
        ("你好，day", Units(2, 1, 1)),
        ("…", Units(0, 0, 0)),
    ],
)
def test_units_are_characters_tokens_and_the_marks_between(spoken: str, units: Units) -> None:
    assert units_of(Tokenizer(DATA / "model-a" / "asset" / "tokenizer"), spoken) == units


def test_lengths_are_kept_beside_a_checkpoint_of_the_users(folder: Path) -> None:
    assert known(folder) is None
    assert stored_lengths(AssetFolder(folder, "custom")).put(LENGTHS, LENGTHS) == beside(folder)
    assert known(folder) == LENGTHS
    assert not cache_folder().exists()
    assert known(folder, "huggingface") is None  # no published file


def test_other_lengths_are_kept_in_the_cache(folder: Path) -> None:
    path = stored_lengths(AssetFolder(folder, "huggingface")).put(LENGTHS, LENGTHS)
    assert path is not None
    assert path.parent == cache_folder() / "lengths"
    assert known(folder, "huggingface") == LENGTHS
    assert not beside(folder).exists()


def test_the_bundled_voice_has_lengths_of_all_its_paces() -> None:
    lengths = stored_lengths(locate("bundled")).known
    assert lengths is not None
    factors = [pace.factor for pace in lengths.paces]
    assert factors == sorted(factors)
    assert factors[0] < 0.85
    assert factors[-1] > 1.4
    # Pauses and a change of the tempo by three percent close what is left.
    gaps = [slower / faster for faster, slower in pairwise(factors)]
    assert max(gaps) < 1.08


@pytest.mark.thorough
def test_the_file_of_the_bundled_voice_is_what_it_shows() -> None:
    """`python -m tests.make_lengths` writes it."""
    kept, now = stored_lengths(locate("bundled")).known, learned()
    assert kept is not None
    assert [pace.tags for pace in kept.paces] == [pace.tags for pace in now.paces]
    assert [pace.factor for pace in kept.paces] == pytest.approx(
        [pace.factor for pace in now.paces], rel=0.02
    )
    assert now.per_utterance == pytest.approx(kept.per_utterance, rel=0.05)


WHOLE = {
    "version": 1,
    "per_han": 0.2,
    "per_letter": 0.06,
    "per_mark": 0.1,
    "per_utterance": 0.3,
    "paces": [{"tags": "", "factor": 1.0}],
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "version 1"),
        ({"per_han": "0.2"}, "per_han must be a number"),
        ({"per_han": -1}, "per_han must be a number from 0 to 60"),
        ({"paces": []}, "paces must be a list"),
        ({"paces": [3]}, "at most two tags"),
        ({"paces": [{"tags": "[laugh]", "factor": 1.0}]}, "at most two tags"),
        ({"paces": [{"tags": "", "factor": 0}]}, "factor must be a number from 0.1 to 10"),
    ],
)
def test_a_damaged_file_is_one_error_with_the_remedy(
    folder: Path, change: dict[str, object], reason: str
) -> None:
    beside(folder).write_text(json.dumps({**WHOLE, **change}), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        known(folder)
    assert str(beside(folder)) in str(caught.value)
    assert reason in str(caught.value)
    assert "delete the file" in str(caught.value)
