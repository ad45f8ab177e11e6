"""The benchmark of codes by variants of the kernels, and what it must find in eight bits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.cpu.variants import compare, parting, runnable

from ..support.places import ROOT


@pytest.mark.smoke
def test_sequences_part_at_the_first_other_frame() -> None:
    codes = [[1, 2], [3, 4], [5, 6]]
    assert parting(codes, codes) is None
    assert parting(codes, [[1, 2], [3, 5], [5, 6]]) == 1
    assert parting(codes, codes[:2]) == 2
    assert parting([], codes) == 0


def test_variants_are_compared_with_the_last_one() -> None:
    last = [[[1]], [[2]], [[3], [4]]]
    first = [[[1]], [[9]], [[3], [5]]]
    assert compare({"first": first, "same": last, "last": last}) == {
        "first": {"sequences": 3, "parted": 2, "frames_before_parting": 0.5},
        "same": {"sequences": 3, "parted": 0, "frames_before_parting": None},
    }


@pytest.mark.thorough
def test_in_eight_bits_no_variant_parts(tmp_path: Path) -> None:
    names = runnable()
    if len(names) < 2:
        pytest.skip("one variant runs here")
    plainest, fastest = names[0], names[-1]
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "benchmarks.cpu.variants", "--dtypes", "int8"]
    command += ["--variants", plainest, fastest, "--seeds", "1", "--json", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=900)
    found = json.loads(out.read_text())["results"]["int8"]
    assert found == {plainest: {"sequences": 4, "parted": 0, "frames_before_parting": None}}
