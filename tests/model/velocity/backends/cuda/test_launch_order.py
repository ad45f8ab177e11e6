"""The launches of a decode step, in their order; no kernel computes anything here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ChatTTS.model.embed import RowKind
from ChatTTS.model.velocity.input_batch import InputBatch

from .....support.kernel_tools import DEVICE, EMULATED
from .test_engine import make_worker, take_triton

from ChatTTS.model.kernels.cuda import dependent_launch, prefetch, prefill, products  # isort: skip
from ChatTTS.model.velocity.backends.cuda import prompt_steps  # isort: skip


@dataclass(frozen=True)
class Noted:
    """A launch: the addresses of its tensors by their names, and whether it overlaps."""

    kernel: str
    places: dict[str, int]
    overlaps: bool


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[Noted]:
    """The launches that follow, which are noted in the place of being carried out."""
    if DEVICE.type == "cuda" or EMULATED:
        pytest.skip("the interpreter is replaced")
    from triton.runtime.interpreter import InterpretedFunction

    launches: list[Noted] = []

    def launcher(kernel: Any, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, **options: Any) -> None:
            given = dict(zip(kernel.arg_names, args, strict=False)) | options
            places = {n: v.data_ptr() for n, v in given.items() if hasattr(v, "data_ptr")}
            launches.append(Noted(kernel.fn.__name__, places, "launch_pdl" in options))

        return launch

    for module in (dependent_launch, products):
        monkeypatch.setattr(module, "capability", lambda x: 90)
    monkeypatch.delenv(dependent_launch.OVERLAP_VARIABLE, raising=False)
    monkeypatch.setattr(InterpretedFunction, "__getitem__", launcher)
    return launches


def test_a_launch_without_overlap_parts_the_end_of_a_step_from_attention(
    monkeypatch: pytest.MonkeyPatch, noted: list[Noted]
) -> None:
    """Attention reads the positions before it waits, and the end of a step writes them."""
    take_triton(monkeypatch)
    worker: Any = make_worker()
    passes = list(worker._runner._step_runner._decode.values())
    assert len(passes) == 2
    for steps in passes:
        noted.clear()
        for _ in range(2):
            steps.compute(2)
        names = [launch.kernel for launch in noted]
        end = names.index("_store_results")
        attention = names.index("_attend_splits", end)
        assert noted[attention].overlaps
        assert noted[attention].places["positions"] == noted[end].places["positions"]
        assert not all(launch.overlaps for launch in noted[end + 1 : attention])


def prompt_of(rows: int, block_size: int, model: Any) -> InputBatch:
    """Return a batch with one prompt of `rows` positions, in the first blocks."""
    blocks = -(-rows // block_size)
    return InputBatch(
        kinds=np.full(rows, RowKind.TEXT, dtype=np.uint8),
        ids=np.zeros((rows, model.embed.num_codebooks), dtype=np.int32),
        vectors=np.empty((0, model.shape.hidden_size), dtype=np.float32),
        positions=np.arange(rows, dtype=np.int32),
        tables=np.arange(blocks, dtype=np.int32).reshape(1, blocks),
        table_of=np.zeros(rows, dtype=np.int32),
        draws=np.array([rows - 1], dtype=np.int32),
    )


@pytest.mark.parametrize("batch_invariant", [True, False])
def test_a_prompt_ends_with_its_layers(
    monkeypatch: pytest.MonkeyPatch, noted: list[Noted], batch_invariant: bool
) -> None:
    """Its last position is computed elsewhere, so no hidden state is wanted here."""
    take_triton(monkeypatch)
    worker: Any = make_worker(batch_invariant=batch_invariant)
    tiled: list[int] = []

    def tiles_of(table_of: Any) -> Any:
        tiled.append(len(table_of))
        return prefill.tiles_of(table_of)

    monkeypatch.setattr(prompt_steps, "tiles_of", tiles_of)
    noted.clear()
    worker._runner._step_runner._prompts.launch(prompt_of(9, 8, worker.model))
    names = [launch.kernel for launch in noted]
    layers = worker.model.shape.num_hidden_layers
    assert names.count("_rotate_and_store") == layers
    assert "_rms_norm" not in names, "the final norm is for rows that draw"
    assert names.count("_attend_tiles") == (0 if batch_invariant else layers)
    assert tiled == ([] if batch_invariant else [9])


def test_attention_fetches_the_weights_of_the_launches_that_follow_it(
    monkeypatch: pytest.MonkeyPatch, noted: list[Noted]
) -> None:
    """Up to the next attention; behind the last layer comes the first one of the next step."""
    monkeypatch.setattr(prefetch, "cache_bytes", lambda x: 1 << 30)
    monkeypatch.delenv(prefetch.FETCH_VARIABLE, raising=False)
    take_triton(monkeypatch)
    worker: Any = make_worker()
    steps = next(iter(worker._runner._step_runner._decode.values()))
    noted.clear()
    steps.compute(2)
    at = [number for number, each in enumerate(noted) if each.kernel == "_attend_splits"]
    assert len(at) >= 2
    names = [f"{which}_ahead" for which in ("first", "second", "third", "fourth")]
    fetched = [[noted[number].places[name] for name in names] for number in at]
    for own, number, end in zip(fetched, at, at[1:], strict=False):
        between = noted[number + 1 : end]
        assert own == [each.places["weight"] for each in between if "weight" in each.places]
    out_projection = [each for each in noted[at[-1] + 1 :] if "weight" in each.places][:3]
    assert fetched[-1][:3] == [each.places["weight"] for each in out_projection]
    first = next(each for each in noted if "weight" in each.places)
    assert fetched[-1][3] == first.places["weight"]
