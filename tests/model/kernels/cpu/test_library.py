"""Sizes and counts for the kernels: refused where ctypes would cut off their upper bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ChatTTS.errors import ConfigError
from ChatTTS.model.kernels.cpu import library
from ChatTTS.model.kernels.cpu.library import Team
from ChatTTS.model.llama.rotary import rotary_tables
from ChatTTS.model.velocity.backends.cpu.llama import NativeLlama
from ChatTTS.model.velocity.backends.cpu.packing import packed_weights

from ....support.velocity_models import make_embed, make_shape, make_team, save_llama

TOO_MANY = [2**30, 2**31 - 1, 2**31, 2**32 + 1, 2**63, 2**64 + 1, 10**30, -1, -(2**32) + 1]


@pytest.mark.parametrize("size", [*TOO_MANY, 0])
def test_threads_that_are_no_number_of_threads(size: int) -> None:
    make_team(1)
    with pytest.raises(ConfigError, match=r"num_threads must be a whole number from 1"):
        Team(size)


@pytest.mark.parametrize("size", TOO_MANY)
def test_a_block_of_a_size_that_would_be_cut(tmp_path: Path, size: int) -> None:
    """A block of 2^32 + 1 positions would be taken for a block of one."""
    team, file = make_team(1), save_llama(tmp_path, make_shape())
    weights = packed_weights(team, file, "float32")
    embed, rotary = make_embed(64), rotary_tables(file.shape)
    with pytest.raises(ConfigError, match=f"block_size .* not {size}"):
        NativeLlama(team, file.shape, weights, "float32", embed, rotary, size)


STRUCTURES = (
    library.NativeSizes,
    library.NativeBatch,
    library.NativeConvNeXtBlock,
    library.NativeDecoderLayer,
    library.NativeDecoderInput,
)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_number_of_a_structure_is_checked(structure: Any) -> None:
    kinds = {"c_int": 2**31, "c_long": 2**63, "c_longlong": 2**63}
    numbers = {name: kind.__name__ for name, kind in structure._fields_ if kind.__name__ in kinds}
    assert numbers
    made = structure()
    for name, kind in numbers.items():
        for value in (2 * kinds[kind] + 1, kinds[kind], -1):
            with pytest.raises(ConfigError, match=f"^{name} must be at least 0"):
                structure(**{name: value})
            with pytest.raises(ConfigError, match=name):
                setattr(made, name, value)
        setattr(made, name, 7)
        assert getattr(made, name) == 7


@pytest.mark.parametrize("size", TOO_MANY)
@pytest.mark.parametrize(
    "call",
    [
        lambda team, size: team.packed_bytes("int8", size, 3),
        lambda team, size: team.packed_bytes("int8", 3, size),
    ],
)
def test_sizes_of_matrices(call: Callable[[Team, int], object], size: int) -> None:
    with pytest.raises(ConfigError, match="must be at least 0"):
        call(make_team(1), size)


def test_every_number_of_a_function_is_checked() -> None:
    kernels = library.load()
    for name, (_, arguments) in library._SIGNATURES.items():
        for place, kind in enumerate(arguments):
            if kind not in library._LIMITS:
                continue
            given = [None if a not in library._LIMITS else 1 for a in arguments]
            given[place] = 2**32 + 1
            with pytest.raises(ConfigError, match=name):
                getattr(kernels, name)(*given)


@pytest.mark.parametrize("name", library._BYTES)
def test_a_structure_that_differs_from_that_of_the_sources(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = library.load().source
    found = library._opened(source)
    library.Kernels(source, found)
    monkeypatch.setitem(library._BYTES, name, library._BYTES[name] + 8)
    with pytest.raises(TypeError, match=f"{name} of library.py has .* give both the same fields"):
        library.Kernels(source, found)


def test_numbers_that_are_no_whole_ones() -> None:
    with pytest.raises(ConfigError):
        Team(1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        library.NativeSizes(layers="3")


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no function chattts_flight"):
        library.load().chattts_flight  # noqa: B018
