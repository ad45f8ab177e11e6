"""The emulator finds what it is there for, and nothing else."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import numpy as np
import pytest

from .children import needs_emulator, run_child
from .formats import decode, encode, flush, joined, split
from .program import (
    Address,
    Number,
    PtxError,
    Register,
    Symbol,
    Vector,
    WithPredicate,
    parse,
)

PTX = """
.version 8.7
.visible .entry _kernel(
\t.param .u64 .ptr .global .align 1 _kernel_param_0,
\t.param .u32 _kernel_param_1
)
{
\t.reg .b32 \t%r<3>;
$L__BB0_1:                              // a loop
\t// begin inline asm
\t@!%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0x10 ];
\tshfl.sync.bfly.b32 \t%r3|%p2, %r1, 16, 31, -1;
\tmov.b32 \t%r4, 0f3F800000;
\t@%p2 bra \t$L__BB0_1;
\tret;
}
"""


def test_a_program_is_parsed() -> None:
    program = parse(PTX)
    assert program.parameters == ("_kernel_param_0", "_kernel_param_1")
    assert program.labels == {"$L__BB0_1": 0}
    load, shuffle, move, branch, end = program.code
    assert load.parts == ("ld", "global", "v2", "b32")
    assert (load.predicate, load.negated, load.vector_size) == (Register("%p1"), True, 2)
    assert load.operands == (
        Vector((Register("%r1"), Register("%r2"))),
        Address(Register("%rd1"), 16),
    )
    assert shuffle.operands[0] == WithPredicate(Register("%r3"), Register("%p2"))
    assert shuffle.operands[-1] == Number(-1)
    assert move.operands[1] == Number(0x3F800000)
    assert branch.operands == (Symbol("$L__BB0_1"),)
    assert end.parts == ("ret",)
    with pytest.raises(PtxError, match="no kernel"):
        parse("")


def test_registers_of_inline_assembly_are_registers_like_others() -> None:
    assembly = """{
.reg .s8 s<2>;
.reg .f32 f<2>;
mov.b16 {s0, s1}, %rs1;
cvt.rn.f32.s8 f0, s0;
prmt.b32 %r2, f0, s1, 0x7632;
}
"""
    whole = PTX.replace("\tret;\n", assembly + "$L__BB0_2:\n\tret;\n")
    program = parse(whole)
    move, convert, permute, end = program.code[-4:]
    assert convert.parts == ("cvt", "rn", "f32", "s8")
    assert move.operands[0] == Vector((Register("%s0"), Register("%s1")))
    assert permute.operands[:3] == (Register("%r2"), Register("%f0"), Register("%s1"))
    assert program.code[program.labels["$L__BB0_2"]] is end  # the brace is not the kernel's end


@pytest.mark.parametrize(
    ("kind", "value", "bits"),
    [
        ("bf16", 1 + 2**-8, 0x3F80),  # half way: to the even one
        ("bf16", 1 + 3 * 2**-8, 0x3F82),
        ("bf16", np.inf, 0x7F80),
        ("f16", 1 + 2**-11, 0x3C00),
        ("f32", -0.0, 0x80000000),
        ("s16", -2, 0xFFFE),
    ],
)
def test_values_and_their_bits(kind: str, value: float, bits: int) -> None:
    raw = encode(np.array([value]), kind)
    assert raw.tolist() == [bits]
    assert encode(decode(raw, kind), kind).tolist() == [bits]


def test_parts_of_numbers() -> None:
    whole = np.array([0x1122334455667788], dtype=np.uint64)
    assert [part.tolist() for part in split(whole, 2)] == [[0x55667788], [0x11223344]]
    assert joined(split(whole, 4)).tolist() == whole.tolist()
    tiny = np.array([1e-40, -1e-40, 1.0], dtype=np.float32)
    assert flush(tiny).tolist() == [0.0, 0.0, 1.0]
    assert np.signbit(flush(tiny)).tolist() == [False, True, False]


@pytest.mark.slow
@needs_emulator
def test_faults_are_found() -> None:
    printed = run_child("tests.ptx.faulty_kernels")
    for expected in (
        "within: right",
        "a sum: right",
        r"beyond the end: out of bounds in 1 threads, at 0x\w+: .*st\.global",
        r"misaligned: misaligned by \d+ bytes: .*st\.global",
        r"one place: .*: two programs write one address",
        r"a neighbour: .*: a program reads what another program writes",
        "another warp after a barrier: right",
        r"another warp: .*: reads what another warp wrote into a tensor, without a barrier",
        "a read and a write with a barrier: right",
        r"a read and a write: .*: writes what another warp read from a tensor, without a barrier",
        "waits first: right",
        "reads what is there: right",
        "reads behind a full launch: right",
        "early read: .*: reads before its wait what _adds_one writes$",
        "early read of the one before: .*: reads before its wait what _adds_one writes$",
        "early read of a full launch: .*: reads before its wait what _adds_one writes$",
        "early write of a result: .*: writes before its wait; .* what _adds_one writes$",
        "early write of an input: .*: writes before its wait; .* what _adds_one reads$",
        r"early write: _adds_one \(1, 1, 1\): writes before its wait$",
        "fetches within: right",
        r"fetches beyond the end: out of bounds in 1 threads, at 0x\w+: .*prefetch\.global\.L2",
        r"fetches before the beginning: out of bounds in 1 threads, .*prefetch\.global\.L2",
        "little shared memory: _adds: 16 bytes of shared memory, and 8 are there",
        r"no wait: .*: threads end without a wait for the previous launch",
        r"sum 256\.0 last 199\.0",
    ):
        assert re.search(f"^{expected}", printed, re.M), f"{expected}\n{printed}"


# ---------------------------------------------------------------- lines that are taken out

# Several threads hold each value, and the mask lets one of them store it. Without the mask all of
# them store it.
_ONE_OF_SEVERAL = (
    "_attend_splits",
    "_attend_tile",
    "_merge_splits",
    "_sample_codes",
    "sample_large_vocabulary",
)
# Keys and values that are not masked out of a fetch are those of the first block.
_HARMLESS = ("_attend_splits", "fetch")
# The last round of the loop has waited for all products.
_WAITS_TWICE = ("product_in_tiles", "wait")
# One warp reads and writes all ids of the window, and its threads are in step here.
_IN_STEP = ("sample_large_vocabulary", "barrier")


# At least so many lines of each scenario are noticed.
_LEAST: dict[str, dict[str, int]] = {
    "norm": {"barrier": 2, "mask": 1},
    "swiglu": {"barrier": 1, "mask": 1},
    "embedding": {"mask": 1},
    "product-once": {"barrier": 5, "mask": 1},
    "product-turns": {"barrier": 5, "wait": 2, "mask": 1},
    "product-lanes": {"barrier": 5, "wait": 2, "mask": 1},
    "product-tiles": {"barrier": 4, "wait": 4, "mask": 1},
    "adapters": {"barrier": 5, "mask": 2},
    "attention": {"barrier": 15},
    "new-rows": {"barrier": 20, "mask": 1, "fetch": 1},
    "prompts": {"barrier": 5, "wait": 2, "mask": 1},
    "prompt-rows": {"barrier": 40, "mask": 6},
    "product-once-8": {"barrier": 5, "mask": 1},
    "product-turns-8": {"barrier": 5, "wait": 2, "mask": 1},
    "product-lanes-8": {"barrier": 5, "wait": 2, "mask": 1},
    "new-rows-8": {"barrier": 20, "mask": 3, "fetch": 1},
    "stored-rows-8": {"mask": 4},
    "prompts-8": {"barrier": 5, "wait": 2, "mask": 1},
    "prompt-rows-8": {"barrier": 40, "mask": 6},
    "draws": {"barrier": 20},
    "draws-of-few": {},
    "draws-of-many": {"barrier": 20},
}


@needs_emulator
@pytest.mark.slow
def test_each_missing_line_is_noticed() -> None:
    noticed: defaultdict[str, Counter[str]] = defaultdict(Counter)
    missed: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    printed = run_child("tests.ptx.mutations", "90").splitlines()
    for scenario, outcome, kind, kernel, _ in (line.split(maxsplit=4) for line in printed):
        if outcome == "noticed":
            noticed[scenario][kind] += 1
        elif (kind != "mask" or kernel not in _ONE_OF_SEVERAL) and (kernel, kind) != _HARMLESS:
            missed[scenario].append((kernel, kind))
    assert noticed.keys() | missed.keys() <= _LEAST.keys()
    for scenario, least in _LEAST.items():
        assert Counter(missed[scenario]) <= Counter([_WAITS_TWICE, _IN_STEP]), scenario
        assert noticed[scenario] >= Counter(least), scenario


# ---------------------------------------------------------------- scales that are wrong

# How many of the scenarios notice each fault of what is in eight bits, at least.
_FAULTS = {
    "the next output's scale": 4,
    "unscaled sums": 4,
    "the next position's scale": 4,
    "an area that begins early": 4,
    "a scale of 128": 2,
    "a peak with its sign": 2,
    "numbers cut off": 2,
}


@needs_emulator
@pytest.mark.slow
def test_each_wrong_scale_is_noticed() -> None:
    *lines, without = run_child("tests.ptx.faulty_scales", "90").splitlines()
    assert without == "no fault: right"
    assert len(lines) >= 18
    for line in lines:
        fault, noticed = line.split(": ")
        assert noticed != "missed", fault
        assert len(noticed.split(", ")) >= _FAULTS.get(fault, 1), line


# ---------------------------------------------------------------- waits that come too late

# The kernels that begin while the previous launch runs.
_OVERLAPPING = {
    "_attend_splits",
    "_attend_tile",
    "_merge_splits",
    "_product_of_splits",
    "_rms_norm",
    "_rotate_and_store",
    "_to_ranks",
    "norm_rows",
    "product_at_once",
    "product_by_lanes",
    "product_in_tiles",
    "product_in_turns",
}


@needs_emulator
@pytest.mark.slow
def test_each_access_before_a_wait_is_noticed() -> None:
    right, *lines = run_child("tests.ptx.early", "90").splitlines()
    assert right.startswith("right: ")
    noticed = defaultdict(set)
    for line in lines:
        matched = re.fullmatch(r"(\w+) early, (\w+): (.*)", line)
        assert matched is not None, line
        what, kernel, found = matched.groups()
        assert f"{kernel} (" in found, line
        assert "reads before its wait what " in found, line
        assert ("; writes before its wait" in found) == (what == "written"), line
        noticed[what].add(kernel)
    assert noticed == {"read": _OVERLAPPING, "written": _OVERLAPPING}
