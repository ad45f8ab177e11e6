"""Attention to the text is computed by the workers, or their engine says that they give none.

Its memory holds a mark until a worker writes it, so that a worker that only hands it out is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.input_batch import AttentionProbe
from ChatTTS.model.velocity.model_loader import ModelLoader
from ChatTTS.model.velocity.plan import SequenceData
from ChatTTS.model.velocity.worker import Worker

from .....support.places import DATA
from .....support.rank_tools import RankedWorker
from .....support.torch_references import use_torch_references
from .....support.velocity_driver import Driver, make_data

MARK = 777
# Of more than one layer, and of the heads of more than one rank.
HEADS = ((1, 0), (0, 3), (1, 2))


def native(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute with the CPU kernels."""


def plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelLoader, "_team", lambda loader: None)


def triton(monkeypatch: pytest.MonkeyPatch) -> None:
    plain_torch(monkeypatch)
    monkeypatch.setattr(ModelLoader, "_has_triton", lambda *_: True)
    use_torch_references(monkeypatch)


def datas() -> list[SequenceData]:
    """Prompts of which two ask for the attention of heads."""
    return [
        replace(data, request=replace(data.request, alignment_heads=heads))
        for data, heads in (
            (make_data(0, length=5), HEADS),
            (make_data(1, length=9), ()),
            (make_data(2, length=13), HEADS[:1]),
        )
    ]


def config_of(ranks: int = 1, stages: int = 1) -> Any:
    return EngineArgs(
        DATA / "model-a",
        device="cpu",
        dtype="float32",
        block_size=8,
        kv_memory="8MB",
        max_num_seqs=3,
        max_num_batched_tokens=32,
        tensor_parallel_size=ranks,
        pipeline_parallel_size=stages,
    ).create_engine_config()


def attention_of(worker: object) -> list[dict[int, np.ndarray[Any, Any]]]:
    """Return the attention of the prompts' step and of two steps that follow."""
    driver = Driver(cast(Worker, worker), datas())
    return [dict(driver.step().attention) for _ in range(3)]


def in_one_process() -> Worker:
    worker = Worker(config_of())
    worker.init_cache(worker.plan_cache())
    return worker


@pytest.fixture(autouse=True)
def _marked(monkeypatch: pytest.MonkeyPatch) -> None:
    again = AttentionProbe.again

    def marked(probe: AttentionProbe) -> AttentionProbe:
        found = again(probe)
        found.out.fill(MARK)
        return found

    monkeypatch.setattr(AttentionProbe, "again", marked)


@pytest.mark.parametrize("sizes", [None, (1, 1), (2, 1), (1, 2), (2, 2)], ids=str)
@pytest.mark.parametrize("use", [native, plain_torch, triton])
def test_attention_is_computed_or_refused(
    monkeypatch: pytest.MonkeyPatch,
    use: Callable[[pytest.MonkeyPatch], None],
    sizes: tuple[int, int] | None,
) -> None:
    """Of ranks and stages; without sizes, of the worker in the engine's own process.

    On Triton kernels captured steps alone give attention, and ranks capture none: a single rank of
    an executor has a communicator as well.
    """
    expected = attention_of(in_one_process())
    use(monkeypatch)
    if sizes is None:
        worker: Any = in_one_process()
        gives = worker.model.gives_attention
    else:
        worker = RankedWorker(config_of(*sizes))
        gives = worker.gives_attention
    if gives:
        for found, wanted in zip(attention_of(worker), expected, strict=True):
            assert found.keys() == wanted.keys() == {0, 2}
            for place, own in found.items():
                assert np.abs(own - wanted[place]).max() < 1e-5
    else:
        with pytest.raises(AssertionError, match="gives no attention"):
            attention_of(worker)
    assert gives == (sizes is None or use is not triton)
