"""The expected time of a decode step, and the counts that it rests on."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from benchmarks.gpu import step_model
from benchmarks.gpu.scale import FULL, TINY, Record, Task
from benchmarks.gpu.step_model import GPUS, Launch, Step, gpu_named

from ..ptx.children import needs_emulator
from ..ptx.program import parse

H100 = GPUS["H100"]
SMALL = Launch("small", 1, 4, 1980, 0, 0, 0)


def test_a_launch_takes_what_takes_longest() -> None:
    chain = 1e-6 + H100.start  # 1980 instructions at 1.98 GHz
    assert SMALL.seconds(H100) == pytest.approx(chain)
    many = replace(SMALL, programs=1320)
    fetching = replace(many, fetched=round(0.7 * 3.35e12 * 5e-6))
    assert fetching.seconds(H100) == pytest.approx(chain + 5e-6)
    moving = replace(fetching, moved=round(48 * 132 * 1.98e9 * 7e-6))
    assert moving.seconds(H100) == pytest.approx(chain + 7e-6)
    # One program cannot take as many bytes from the caches as all multiprocessors.
    assert replace(moving, programs=66).seconds(H100) == pytest.approx(chain + 14e-6)
    busy = replace(moving, issued=round(4 * 132 * 1.98e9 * 9e-6))
    assert busy.seconds(H100) == pytest.approx(chain + 9e-6)
    multiplying = replace(busy, operations=round(0.5 * 989e12 * 11e-6))
    assert multiplying.seconds(H100) == pytest.approx(chain + 11e-6)


def test_fetches_ahead_save_the_wait_but_no_byte() -> None:
    own = replace(SMALL, programs=1320, fetched=round(0.7 * 3.35e12 * 5e-6))
    fetched = replace(own, ahead=own.fetched)
    half = replace(own, ahead=own.fetched // 2)
    assert fetched.seconds(H100) == own.seconds(H100)
    chain = 1e-6 + H100.start
    assert fetched.seconds(H100, ahead=True) == pytest.approx(chain)
    assert half.seconds(H100, ahead=True) == pytest.approx(chain + 2.5e-6)
    assert Step([(3, half)]).least_seconds(H100) == pytest.approx(3 * (chain + 2.5e-6))
    # The memory takes longer for all bytes than the launches without them.
    assert Step([(3, fetched)]).least_seconds(H100) == pytest.approx(3 * 5e-6)


def test_launches_overlap_from_capability_9_on() -> None:
    older = replace(H100, capability=89)
    assert SMALL.seconds(older) - SMALL.seconds(H100) == pytest.approx(1.8e-6)


def step(launches: int, mb: float) -> Step:
    return Step([(launches, replace(SMALL, programs=1000, fetched=round(1e6 * mb / launches)))])


@pytest.mark.smoke
def test_a_slower_gpu_takes_longer() -> None:
    order = [step(150, 3000).seconds(gpu) for gpu in GPUS.values()]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("name", "multiprocessors", "known"),
    [
        ("NVIDIA H100 80GB HBM3", 132, "H100"),
        ("NVIDIA H100 PCIe", 114, None),
        ("NVIDIA H200", 132, "H200"),
        ("NVIDIA A100-SXM4-80GB", 108, "A100"),
        ("NVIDIA GeForce RTX 4090", 128, "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 76, None),
        ("NVIDIA GeForce RTX 3060", 28, "RTX 3060"),
        ("NVIDIA GeForce RTX 3060 Ti", 38, None),
        ("NVIDIA L4", 58, "L4"),
        ("NVIDIA L40S", 58, None),
    ],
)
def test_gpus_by_the_name_that_cuda_gives(
    name: str, multiprocessors: int, known: str | None
) -> None:
    assert gpu_named(name, multiprocessors) == (GPUS[known] if known else None)


def task(folder: Path, device: str = "cpu") -> Task:
    return Task(replace(TINY, device=device), folder, Record(folder / "x.json"), 0)


def test_the_expectation_is_left_for_the_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.gpu.report import table

    asked: list[int] = []

    def count_steps(capability: int, scale: Any) -> dict[int, Step]:
        asked.append(capability)
        return {1: step(10, 3), 3: step(20, 5)}

    monkeypatch.setattr(step_model, "count_steps", count_steps)
    own = task(tmp_path)
    step_model.measure(own)
    found = own.record.values["streams"]
    left = json.loads(step_model.expectation(own).read_text(encoding="utf-8"))
    assert left == {rows: each["ms"] for rows, each in found.items()}
    assert found["3"]["launches"] == 20
    assert "20 launches" in table({"parts": {"expected": own.record.values}})
    # On a GPU it is that GPU's, and none for one that is not known.
    about = SimpleNamespace(name="NVIDIA A100-SXM4-80GB", multi_processor_count=108)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: about)
    step_model.measure(task(tmp_path, "cuda:0"))
    about.name = "NVIDIA B200"
    other = task(tmp_path, "cuda:0")
    step_model.measure(other)
    assert "skipped" in other.record.values
    assert asked == [90, 80]


def test_a_step_that_cannot_be_counted_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess("", 1, "", "PtxError: not known: tcgen05")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match="not known: tcgen05"):
        step_model.count_steps(100, TINY)


# ---------------------------------------------------------------- counts

PTX = """
.visible .entry _kernel(
\t.param .u64 _kernel_param_0
)
{
\t@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
\tld.shared.b32 %r1, [ %r2 + 0 ];
\tst.global.b16 [ %rd1 + 0 ], %rs1;
\tcp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;
\tcp.async.commit_group;
\tmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %r1 }, { %r2 }, { %r3 }, { %r4 };
\twgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, %p1, 1, 1, 0, 0;
\tret;
}
"""


def test_bytes_and_operations_of_instructions() -> None:
    from benchmarks.gpu.step_counts import _moved, _operations

    code = parse(PTX).code
    assert [_moved(each) for each in code] == [16, 0, 2, 16, 0, 0, 0, 0]
    # A warp has a quarter of the product of its group.
    assert [_operations(each) for each in code[5:7]] == [2 * 16 * 8 * 16, 2 * 16 * 32 * 16]


def test_operators_that_launch_a_kernel() -> None:
    from benchmarks.gpu.step_counts import _Operators

    found = Counter[Launch]()
    x = torch.ones(4, 6)
    with torch.inference_mode(), _Operators(found):
        rows = x[:2].view(-1).unsqueeze(0)
        made = torch.empty(2)
        kept = rows.to(torch.float32), rows.contiguous()
        assert not found[Launch("torch")]
        x[:2] += 1  # ends with a copy of the slice to itself
        made.fill_(1)
        torch.cat([rows, rows])
        rows.to(torch.bfloat16)
    assert found == {Launch("torch"): 4}
    assert kept[0] is not None


@needs_emulator
@pytest.mark.thorough
def test_a_tiny_step_is_counted() -> None:
    gpt, steps = TINY.gpt, step_model.count_steps(90, TINY)
    assert list(steps) == list(TINY.streams)
    layer = gpt.hidden_size * (4 * gpt.hidden_size + 3 * gpt.intermediate_size)
    head = gpt.hidden_size * gpt.num_vq * gpt.num_audio_tokens
    numbers = gpt.num_hidden_layers * layer + head
    for own in steps.values():
        times: Counter[str] = Counter()
        for count, launch in own.launches:
            times[launch.kernel] += count
            assert launch.kernel == "torch" or launch.instructions > 0
            assert launch.fetched <= launch.moved
        assert times["_attend_splits"] == gpt.num_hidden_layers
        assert times["_sample_codes"] == 1
        assert own.count == times.total() > 5 * gpt.num_hidden_layers
        # All weights are read once, and keys, values and tables beside them.
        assert 2 * numbers < own.fetched < 4 * numbers
        # All but the heads' weights are fetched ahead, those of the first layer by the step before.
        ahead = sum(count * launch.ahead for count, launch in own.launches)
        assert ahead == 2 * gpt.num_hidden_layers * layer
        # Matrix units take 16 rows at least, and the kernels 256 inputs.
        operations = sum(count * launch.operations for count, launch in own.launches)
        assert 2 * 16 * numbers < operations < 8 * 2 * 16 * numbers


@needs_emulator
@pytest.mark.thorough
def test_a_tiny_step_of_text_is_counted() -> None:
    """It differs from a step of codes by the head, the draw and what is written of its result."""
    gpt = TINY.gpt
    codes, texts = (step_model.count_steps(90, TINY, text=text) for text in (False, True))
    for rows, own in texts.items():
        launches = [launch for _, launch in own.launches]
        others = [launch for _, launch in codes[rows].launches]
        assert own.count == codes[rows].count
        [draw] = [launch for launch in launches if launch.kernel == "_sample_codes"]
        assert draw.programs == rows
        new = [launch for launch in launches if launch not in others]
        heads = [launch for launch in new if launch.kernel.startswith("product")]
        assert [launch.kernel for launch in heads] == ["product_at_once"]
        assert heads[0].fetched >= 2 * gpt.hidden_size * gpt.num_text_tokens


@needs_emulator
@pytest.mark.thorough
def test_weights_in_eight_bits_are_half_of_what_is_fetched_ahead() -> None:
    gpt, steps = TINY.gpt, step_model.count_steps(90, TINY, int8_weights=True)
    layer = gpt.hidden_size * (4 * gpt.hidden_size + 3 * gpt.intermediate_size)
    for own in steps.values():
        ahead = sum(count * launch.ahead for count, launch in own.launches)
        assert ahead == gpt.num_hidden_layers * layer


@needs_emulator
@pytest.mark.thorough
def test_the_model_agrees_with_the_h100_that_was_measured() -> None:
    """The constants came from this run; since then the kernels may only have become faster."""
    file = Path(step_model.__file__).parents[1] / "results" / "gpu-nvidia-h100-80gb-hbm3.json"
    measured = json.loads(file.read_text(encoding="utf-8"))["parts"]["steps bfloat16"]["streams"]
    steps = step_model.count_steps(90, FULL)
    for rows, own in measured.items():
        expected = 1e3 * steps[int(rows)].seconds(H100)
        assert expected <= 1.1 * own["step_ms"]["median"]
