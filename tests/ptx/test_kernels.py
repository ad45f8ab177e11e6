"""The tests of the kernels and of the engine, on kernels compiled for GPUs."""

from __future__ import annotations

import ast
import re

import pytest

from .children import needs_emulator, run_tests

pytestmark = needs_emulator

# By capability, which cases of each test run: all on one, and each once more on one of the others.
CASES = {90: "0/1", 80: "0/2", 120: "1/2"}
# GPUs with the instructions of 8.0 and less shared memory.
SMALLER = (86, 89)
# The cases in bfloat16, by the places of the dtype in the parameters of each file's tests.
IN_BFLOAT16 = (
    "(test_attention and (dtype3 or (dtype2 and not dtype2-16)))"
    " or (test_products and (configs0 or (dtype2 and not configs)))"
    " or (test_prompt_attention and (dtype3 or anywhere))"
)
KERNELS = (
    "attention",
    "decoder_layers",
    "elementwise",
    "int8",
    "int8_weights",
    "prefetch",
    "products",
    "prompt_attention",
    "sampling",
    "step_results",
    "text_attention",
    "text_sampling",
)


# One process for all files: they share the programs that it has read.
@pytest.mark.slow
@pytest.mark.parametrize(("capability", "share"), CASES.items())
def test_the_tests_of_kernels(capability: int, share: str) -> None:
    printed = run_tests(capability, *_files(*KERNELS), share=share)
    assert _launches(printed) >= 100
    assert _kernels(printed) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("capability", SMALLER)
def test_the_tests_of_kernels_in_bfloat16(capability: int) -> None:
    files = _files("attention", "products", "prompt_attention")
    printed = run_tests(capability, *files, "-k", IN_BFLOAT16)
    assert _launches(printed) >= 10
    assert "product_by_lanes" not in printed  # the kernel of float32


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "model"), [(90, ""), (80, "model-a"), (120, "model-b"), (89, "model-b")]
)
def test_the_whole_engine_gives_the_codes_of_the_cpu(capability: int, model: str) -> None:
    _run_engine(capability, f"test_the_kernels_themselves and {model}".removesuffix(" and "))


@pytest.mark.slow
def test_no_bit_of_the_whole_engine_depends_on_the_batch() -> None:
    _run_engine(90, "test_bits_of_compiled_kernels")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "model"), list(zip(SMALLER, ("model-a", "model-b"), strict=True))
)
def test_no_bit_depends_on_the_batch_in_bfloat16(capability: int, model: str) -> None:
    _run_engine(capability, f"test_bits_of_compiled_kernels and bfloat16 and {model}")


@pytest.mark.slow
def test_products_of_rows_with_adapters() -> None:
    assert _launches(run_tests(90, "tests/model/kernels/cuda/test_low_rank.py")) > 100


@pytest.mark.slow
def test_no_bit_of_the_whole_engine_depends_on_adapters() -> None:
    file = "tests/model/velocity/backends/cuda/test_adapters.py"
    printed = run_tests(90, file, "-k", "test_bits_beside_adapters", races=False)
    assert _launches(printed) > 200


@pytest.mark.slow
@pytest.mark.parametrize("capability", CASES)
def test_no_bit_of_the_audio_decoder_depends_on_the_batch(capability: int) -> None:
    file = "tests/model/synthesis/test_cuda_decoder.py"
    printed = run_tests(capability, file, "-k", "test_no_bit_of_the_kernels", races=False)
    assert _launches(printed) > 200


@pytest.mark.slow
def test_no_bit_depends_on_the_number_of_ranks() -> None:
    printed = run_tests(90, "tests/model/velocity/executor/ranks/test_triton.py", races=False)
    assert _launches(printed) > 200


def _files(*kernels: str) -> list[str]:
    return [f"tests/model/kernels/cuda/test_{name}.py" for name in kernels]


def _run_engine(capability: int, test: str) -> None:
    file = "tests/model/velocity/backends/cuda/test_engine.py"
    printed = run_tests(capability, file, "-k", test, races=False)
    assert _launches(printed) > 100


@pytest.mark.slow
def test_some_of_each_kernel() -> None:
    printed = run_tests(
        90,
        "tests/model/kernels/cuda",
        "-k",
        "(test_norms and 17-48) or test_an_id_goes_into_the_window or "
        "(test_a_row_does_not_see_its_neighbours and dtype1) or "
        "(test_a_prompt_may_be_cut_anywhere and 5-dtype1)",
    )
    assert _launches(printed) >= 4


def _launches(printed: str) -> int:
    return int(_told(printed)[1])


def _kernels(printed: str) -> int:
    return len(ast.literal_eval(_told(printed)[2]))


def _told(printed: str) -> re.Match[str]:
    matched = re.search(r"^launches: (\d+) of (.*)", printed, re.M)
    assert matched is not None, printed
    return matched
