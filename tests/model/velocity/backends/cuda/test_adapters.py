"""Adapters on the engine as it runs on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.common.random_adapter import save_adapter
from ChatTTS.model.cuda import graphs
from ChatTTS.model.llama.config import LlamaShape
from ChatTTS.model.llama.weights import LlamaFile
from ChatTTS.model.random_numbers import Pass
from ChatTTS.model.velocity import model_loader
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.layers import Llama
from ChatTTS.model.velocity.plan import SequenceData
from ChatTTS.model.velocity.worker import Worker

from .....support.adapter_tools import MODEL, shape_of
from .....support.capture_tools import ForgetfulCapturer
from .....support.kernel_tools import DEVICE, EMULATED
from .....support.torch_references import use_torch_references
from .....support.velocity_driver import Driver, Told, alone, everything, make_data
from .....support.velocity_fakes import Joined, run_all
from .....support.velocity_models import LlamaDriver, make_embed, save_llama
from ...test_adapters import SHAPES, expected_of, sequences, two_adapters
from ..torch.test_llama import SINGLE, mixed_steps
from .test_engine import make_engine, make_requests, make_worker, take_triton

from ChatTTS.model.velocity.backends.cuda.operations import TritonOperations  # isort: skip

# The adapters of sequences, by turns.
NAMES = ("anna", None, "bert")
STEPS = 6


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_two(tmp_path_factory.mktemp("adapters"))


def save_two(folder: Path) -> dict[str, Path]:
    """Save one on all projections, and a small one on some."""
    return {
        "anna": save_adapter(folder / "anna", shape_of(), 1, 6),
        "bert": save_adapter(folder / "bert", shape_of(), 2, 3, {"k_proj", "up_proj", "down_proj"}),
    }


def with_adapters(datas: list[SequenceData]) -> list[SequenceData]:
    return [adapted(data, NAMES[i % len(NAMES)]) for i, data in enumerate(datas)]


def adapted(data: SequenceData, name: str | None) -> SequenceData:
    return replace(data, request=replace(data.request, adapter=name))


def triton_llama(
    file: LlamaFile, shape: LlamaShape, dtype: torch.dtype = torch.float32, **given: Any
) -> Llama[TritonOperations]:
    embed = make_embed(shape.hidden_size, dtype)
    operations = TritonOperations(shape, embed, torch.device("cpu"), **given)
    return Llama.load(file, dtype, operations, 32)


@pytest.mark.parametrize("batch_invariant", [True, False])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_as_recomputed_with_merged_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: LlamaShape, batch_invariant: bool
) -> None:
    """Prompts, parts of prompts and single rows, with adapters and without, in each step."""
    use_torch_references(monkeypatch)
    given = two_adapters(tmp_path, shape)
    file = save_llama(tmp_path, shape)
    llama = triton_llama(file, shape, adapters=given, batch_invariant=batch_invariant)
    driver = LlamaDriver(llama, 32, sequences(shape.hidden_size))
    found = mixed_steps(driver)
    for own, expected in zip(found, expected_of(driver, shape, given), strict=True):
        assert (own - expected[: len(own)]).abs().max() < 2 * SINGLE


def assert_near(told: Mapping[int, Told], expected: Mapping[int, Told]) -> None:
    for seq_id, own in told.items():
        assert own.ids == expected[seq_id].ids
        difference = torch.stack(own.hiddens) - torch.stack(expected[seq_id].hiddens)
        assert difference.abs().max() < 5e-5


def test_larger_steps_stand_for_those_that_are_not_captured_yet(
    monkeypatch: pytest.MonkeyPatch, adapters: dict[str, Path]
) -> None:
    """Those of rows with adapters among themselves, and so the others."""
    datas = with_adapters(everything())
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    expected = Driver(make_worker(adapters=adapters), datas).run(STEPS)
    worker = make_worker(behind=False, adapters=adapters)
    runner: Any = worker._runner
    for part in runner._step_runner._parts.all:
        taken = part._captured.taken
        assert set(taken) == {(size, kind) for size in part.buckets for kind in (False, True)}
        assert {step.rows for step in taken.values()} == {part.buckets[0], part.buckets[-1]}
        assert len({step.graph for step in taken.values()}) == 4
    assert_near(Driver(worker, datas).run(STEPS), expected)


@pytest.mark.parametrize("chunk", [3, 10_000])
@pytest.mark.slow_for("10000")
def test_the_ids_of_the_reference(
    monkeypatch: pytest.MonkeyPatch, adapters: dict[str, Path], chunk: int
) -> None:
    """Texts and codes of two adapters and of none, together, alone, and on the CPU kernels."""
    datas = with_adapters(everything())
    expected = Driver(make_worker(adapters=adapters), datas).run(STEPS)
    plain = Driver(make_worker(), everything()).run(STEPS)
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    worker = make_worker(adapters=adapters)
    told = Driver(worker, datas).run(STEPS, chunk=chunk)
    assert_near(told, expected)
    for data in datas:
        assert (told[data.seq_id].ids == plain[data.seq_id].ids) == (data.request.adapter is None)
    assert_near({data.seq_id: alone(worker, data, STEPS) for data in datas[:3]}, expected)


def test_steps_without_adapters_are_the_usual_ones(
    monkeypatch: pytest.MonkeyPatch, adapters: dict[str, Path]
) -> None:
    """The step of rows with adapters is replayed only while such rows are in the batch."""
    steps: list[bool] = []
    plain = Llama.apply_layers

    def apply_layers(
        llama: Llama[TritonOperations],
        x: Tensor,
        rows: Any,
        pool: Tensor,
        kept: Any = None,
        adapter_of: Any = None,
    ) -> Tensor:
        steps.append(adapter_of is not None)
        return plain(llama, x, rows, pool, kept, adapter_of)

    monkeypatch.setattr(Llama, "apply_layers", apply_layers)
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    worker = make_worker(adapters=adapters)
    driver = Driver(worker, with_adapters([make_data(i, length=9 + i) for i in range(3)]))

    def seen(seq_ids: list[int], **ended: Any) -> set[bool]:
        steps.clear()
        driver.step(seq_ids, **ended)
        return set(steps)

    assert seen([1]) == {False}
    assert seen([1, 0], chunk=4) == {False, True}  # a prompt with an adapter is read beside it
    assert seen([1]) == {False}
    assert seen([0, 1, 2]) == {True}
    assert seen([1, 2], ended=(0,)) == {True}
    own = worker._runner._step_runner._decode[Pass.CODE]  # type: ignore[union-attr]
    assert own._adapter_of[:2].tolist() == [-1, 1]
    assert seen([1]) == {False}
    assert own._adapter_of[:-1].max() == -1


@pytest.mark.slow
def test_without_adapters_nothing_more_is_captured(
    monkeypatch: pytest.MonkeyPatch, adapters: dict[str, Path]
) -> None:
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    counts = []
    for given in (None, adapters):
        capturer = ForgetfulCapturer()
        monkeypatch.setattr(graphs, "CudaGraphCapturer", lambda *_, own=capturer, **__: own)
        worker = make_worker(adapters=given)
        assert capturer.lost() == 0
        runner: Any = worker._runner._step_runner  # type: ignore[union-attr]
        parts = (runner._prompts, *runner._decode.values())
        counts.append([sorted(kind for _, kind in part._captured.taken) for part in parts])
    for without, both in zip(*counts, strict=True):
        assert without == [False] * len(without)
        assert both == without + [True] * len(without)


def test_requests_join_and_leave(
    monkeypatch: pytest.MonkeyPatch, adapters: dict[str, Path]
) -> None:
    """Plans of several steps ahead, with attention to the text where it is wanted."""
    requests = [
        replace(
            request,
            adapter=NAMES[number % 3],
            sampling=replace(request.sampling, max_new=min(request.sampling.max_new, 7)),
            alignment_heads=((1, 0), (0, 1)) if number % 2 else (),
        )
        for number, request in enumerate(make_requests(6))
    ]

    def run() -> tuple[Joined, dict[tuple[str, int], Tensor]]:
        engine, joined = make_engine(adapters=adapters)[0], Joined()
        attention: dict[tuple[str, int], list[Tensor]] = {}
        waiting = list(requests)
        while waiting or engine.has_unfinished_requests():
            if waiting:
                engine.add([waiting.pop(0)])
            outputs = engine.step()
            joined.take(outputs)
            for output in outputs:
                for delta in output.deltas:
                    if delta.attention is not None:
                        key = output.request_id, delta.index
                        attention.setdefault(key, []).append(delta.attention)
        return run_all(engine, joined), {key: torch.cat(own) for key, own in attention.items()}

    expected, attended = run()
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    found, own = run()
    for request in requests:
        for sample in range(request.sampling.n):
            assert found.ids(request, sample) == expected.ids(request, sample)
    assert own.keys() == attended.keys()
    for key, each in own.items():
        torch.testing.assert_close(each, attended[key], rtol=0, atol=5e-5)


def test_the_loader_keeps_the_kernels(
    monkeypatch: pytest.MonkeyPatch, adapters: dict[str, Path]
) -> None:
    monkeypatch.setattr(model_loader, "why_no_kernels", lambda *_: None)
    args = EngineArgs(MODEL, device="cpu", adapters=adapters)
    loader = model_loader.ModelLoader(args.create_engine_config())
    gpu = replace(loader._placement, device=torch.device("cuda"))
    monkeypatch.setattr(loader, "_placement", gpu)
    assert loader._has_triton(shape_of(MODEL))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bits_beside_adapters(
    monkeypatch: pytest.MonkeyPatch, adapters: dict[str, Path], dtype: str
) -> None:
    """On the kernels themselves: together, alone, and on an engine without adapters."""
    if not (EMULATED or torch.cuda.is_available()):
        pytest.skip("needs compiled kernels: tests/ptx runs it")
    datas = with_adapters([make_data(i, length=5 + 3 * i, codes=2 * (i % 2)) for i in range(3)])
    sizes: dict[str, Any] = {"dtype": dtype, "device": str(DEVICE)}
    sizes |= {"max_num_batched_tokens": 32, "max_num_seqs": 3}
    take_triton(monkeypatch, late=True)
    worker = make_worker(**sizes, adapters=adapters)
    together = Driver(worker, datas).run(2)
    for data in datas:
        alone(worker, data, 2).assert_equal(together[data.seq_id])
    without: Worker = make_worker(**sizes)
    alone(without, datas[1], 2).assert_equal(together[1])
    other = alone(without, adapted(datas[0], None), 2)
    assert other.hiddens[0].sub(together[0].hiddens[0]).abs().max() > 0.01
