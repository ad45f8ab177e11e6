"""The tests of the kernels and of the engine, on kernels compiled for GPUs."""

from __future__ import annotations

import re

import pytest

from .children import needs_emulator, run_tests

pytestmark = needs_emulator

CAPABILITIES = (80, 90, 120)
KERNELS = ("attention", "elementwise", "products", "sampling")


@pytest.mark.slow
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("kernels", KERNELS)
def test_the_tests_of_kernels(kernels: str, capability: int) -> None:
    printed = run_tests(capability, f"tests/model/cuda/test_{kernels}.py")
    assert _launches(printed) > 20


@pytest.mark.slow
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_whole_engine(capability: int) -> None:
    """Codes are those of the CPU; bits do not depend on the batch."""
    names = "test_the_kernels_themselves or test_bits_of_compiled_kernels"
    printed = run_tests(
        capability, "tests/model/velocity/cuda/test_engine.py", "-k", names, races=False
    )
    assert _launches(printed) > 1000


def test_some_of_each_kernel() -> None:
    printed = run_tests(
        90,
        "tests/model/cuda",
        "-k",
        "(test_norms and 17-48) or test_an_id_goes_into_the_window or "
        "(test_a_row_does_not_see_its_neighbours and dtype1) or "
        "(test_a_prompt_may_be_cut_anywhere and 5-dtype1)",
    )
    assert _launches(printed) >= 4


def _launches(printed: str) -> int:
    matched = re.search(r"^launches: (\d+) of", printed, re.M)
    assert matched is not None, printed
    return int(matched[1])
