"""Base16384: what its description says, strings of the published package, and damaged ones."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from ChatTTS.utils import base16384

from ..support.places import DATA, ROOT

VECTORS = [
    (b"", ""),
    (b"\x00", "\u4e00\u3d01"),
    (b"\xff", "\u8dc0\u3d01"),  # eight ones, then six zeros
    (b"\x20\x82", "\u5620\u6e00\u3d02"),
    (b"\x00\x03\xff", "\u4e00\u8df0\u3d03"),
    (bytes(6), "\u4e00" * 4 + "\u3d06"),
    (bytes(7), "\u4e00" * 4),
    (bytes([255]) * 7, "\u8dff" * 4),
    (bytes([0, 4, 0, 16, 0, 64, 1]), "\u4e01" * 4),
    (bytes(7) + b"\x01", "\u4e00" * 4 + "\u4e40\u3d01"),
]


def published(file: Path) -> list[str]:
    """Return the texts of base16384 in a file that the published package gave."""
    found: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for part in value:
                collect(part)
        elif isinstance(value, str) and len(value) > 40 and base16384.TEXT.fullmatch(value):
            found.append(value)

    collect(json.loads(file.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize(("data", "text"), VECTORS, ids=lambda value: repr(value)[:20])
def test_vectors(data: bytes, text: str) -> None:
    assert base16384.encode(data) == text
    assert base16384.decode(text) == data


@pytest.mark.parametrize(
    "file",
    [
        ROOT / "ChatTTS" / "published_model.json",
        *(DATA / f"model-{name}" / "expected.json" for name in "ab"),
    ],
    ids=lambda file: file.parent.name,
)
def test_strings_of_the_published_package(file: Path) -> None:
    texts = published(file)
    assert texts
    for text in texts:
        assert base16384.encode(base16384.decode(text)) == text


def test_every_length_comes_back() -> None:
    draw = random.Random(0)
    for length in range(60):
        data = draw.randbytes(length)
        text = base16384.encode(data)
        assert len(text) == -(-8 * length // 14) + bool(length % 7)
        assert base16384.decode(text) == data


def test_the_same_as_pybase16384() -> None:
    peer = pytest.importorskip("pybase16384", reason="pybase16384, the reference, is not installed")
    draw = random.Random(1)
    for length in [*range(1, 60), 1000, 4093]:
        data = draw.randbytes(length)
        text = base16384.encode(data)
        assert text == peer.encode_to_string(data)
        assert base16384.decode(text) == peer.decode_from_string(text)


@pytest.mark.parametrize("length", range(1, 22))
def test_a_text_that_was_cut_gives_whole_groups_or_an_error(length: int) -> None:
    data = bytes(range(length))
    text = base16384.encode(data)
    for end in range(1, len(text)):
        if end % 4:
            with pytest.raises(base16384.IncompleteError):
                base16384.decode(text[:end])
        else:  # the bits that fill the last group may be a byte of zeros
            assert (data + b"\0")[: end // 4 * 7] == base16384.decode(text[:end])


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "\u4dff",
        "\u8e00",
        "\ud800",  # half of a character
        "\u3d01",
        "\u4e00\u3d07",
        "\u4e00\u3d00",
        "\u3d01\u4e00",
        "\u4e00\u3d02",  # two bytes need two characters
        "\u4e00" * 3 + "\u3d06",
        "\u4e00" * 4 + "\u3d05",
        "\u4e00" * 5 + "\u3d03",
        "\u4e00 \u3d01",
    ],
)
def test_what_is_no_base16384(text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        base16384.decode(text)
    assert not isinstance(caught.value, base16384.IncompleteError)
