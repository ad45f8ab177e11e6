"""Products on the CPU kernels.

They are exact up to rounding, their bits depend neither on other rows nor on the number of threads,
and damage stays visible.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ChatTTS.model.kernels.cpu.library import KINDS, Team
from ChatTTS.model.velocity.backends.cpu.packing import PackedLinear

from ....support.native_tools import output_of
from ....support.velocity_models import make_team

# Outputs and inputs: below a panel, a panel and its neighbours, odd, longer than a stretch.
SHAPES = [(1, 1), (3, 5), (17, 2), (47, 7), (48, 64), (49, 33), (100, 513), (65, 1025), (130, 1)]
KINDS_OF_WEIGHTS = sorted(KINDS)


@pytest.fixture(scope="module")
def teams() -> dict[int, Team]:
    return {size: make_team(size) for size in (1, 2, 3)}


def make_case(outputs: int, inputs: int, rows: int = 40) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(outputs * 10_000 + inputs)
    rows_ = torch.randn(rows, inputs, generator=generator)
    weight = torch.randn(outputs, inputs, generator=generator)
    return rows_ * 2 ** torch.randint(-4, 5, (rows, 1), generator=generator), weight


def packed(team: Team, weight: Tensor, kind: str) -> Tensor:
    room = torch.full((team.packed_bytes(kind, *weight.shape),), 0x5A, dtype=torch.uint8)
    team.pack(weight, kind, room)
    return room


def product(team: Team, rows: Tensor, weight: Tensor, kind: str) -> Tensor:
    return team.product(rows, packed(team, weight, kind), kind, len(weight))


def int8_scales(weight: Tensor) -> Tensor:
    """The int8 scale of each output, [outputs, 1]."""
    return weight.abs().amax(dim=1, keepdim=True) / 127


def kept(weight: Tensor, kind: str) -> Tensor:
    """The weights in double, after they were rounded to a kind of storage."""
    if kind.endswith("bfloat16"):
        return weight.bfloat16().double()
    if kind == "int8":
        scales = int8_scales(weight)
        return (weight / scales).round().double() * scales.double()
    return weight.double()


def given(team: Team, rows: Tensor, kind: str) -> Tensor:
    """The inputs in double, after they were rounded for a kind of product."""
    if kind == "int8":
        whole, scale = plain_rows(rows)
        return whole * scale
    rounds = kind == "bfloat16" and "bfloat16 products" in team.about
    return (rows.bfloat16() if rounds else rows).double()


def plain_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows as whole numbers and their scales, in double, by float32 arithmetic."""
    limit = torch.tensor(float(min(32767, (2**31 - 1) // (127 * rows.shape[1]))))
    peak = rows.abs().amax(dim=1, keepdim=True)
    scale = torch.where(peak > 1e-30, peak / limit, 0)
    factor = torch.where(peak > 1e-30, limit / peak, 0)
    scale[~rows.isfinite().all(dim=1)] = float("nan")
    whole = (rows * factor).round().nan_to_num(0, 0, 0)
    return whole.double(), scale.double()


@pytest.mark.parametrize(("outputs", "inputs"), [*SHAPES, (20, 3072)])
def test_eight_bits_equal_whole_numbers_to_the_bit(
    teams: dict[int, Team], outputs: int, inputs: int
) -> None:
    """The sums are exact on every processor; what follows them are three float32 operations."""
    rows, weight = make_case(outputs, inputs)
    rows[3], rows[4], rows[5, 0] = 0, 1e-35, 1e6
    rows[6], weight[0] = 1, 1  # the largest sum that there can be
    rows[7], weight[-1] = -1, -1
    whole, scale = plain_rows(rows)
    weights, scales = plain_int8(weight)
    sums = whole @ weights.T  # exact: all are below 2^53
    assert sums.abs().max() < 2**31
    expected = sums.float() * scales.float().T * scale.float()
    assert product(teams[2], rows, weight, "int8").equal(expected)


@pytest.mark.parametrize("kind", KINDS_OF_WEIGHTS)
@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
def test_products_equal_those_in_double_precision(
    teams: dict[int, Team], kind: str, outputs: int, inputs: int
) -> None:
    """Each of ``inputs`` additions rounds once or twice, by 2^-22 of the sum of all magnitudes."""
    rows, weight = make_case(outputs, inputs)
    found = product(teams[2], rows, weight, kind).double()
    x, w = given(teams[2], rows, kind), kept(weight, kind)
    bound = (inputs + 2) * 2.0**-22 * (x.abs() @ w.abs().T) + 1e-30
    assert found.shape == (40, outputs)
    assert ((found - x @ w.T).abs() <= bound).all()


@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
def test_eight_bits_err_by_half_a_step_a_weight(
    teams: dict[int, Team], outputs: int, inputs: int
) -> None:
    rows, weight = make_case(outputs, inputs)
    found = product(teams[2], rows, weight, "int8").double()
    x, w = rows.double(), weight.double()
    of_weights = x.abs().sum(dim=1, keepdim=True) @ (int8_scales(weight).double() / 2).T
    of_inputs = plain_rows(rows)[1] / 2 * w.abs().sum(dim=1)
    assert ((found - x @ w.T).abs() <= 1.01 * (of_weights + of_inputs)).all()


@pytest.mark.parametrize("kind", KINDS_OF_WEIGHTS)
@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
def test_a_row_has_the_same_bits_in_any_company(
    teams: dict[int, Team], kind: str, outputs: int, inputs: int
) -> None:
    rows, weight = make_case(outputs, inputs)
    held = packed(teams[1], weight, kind)
    whole = teams[1].product(rows, held, kind, outputs)
    for count in range(1, 41):
        assert teams[1].product(rows[:count], held, kind, outputs).equal(whole[:count])
    for row in range(0, 40, 3):  # at another place, too
        assert teams[1].product(rows[row : row + 1], held, kind, outputs).equal(whole[row:][:1])
        last = torch.cat([rows[:7], rows[row : row + 1]])
        assert teams[1].product(last, held, kind, outputs)[7].equal(whole[row])


@pytest.mark.parametrize("kind", KINDS_OF_WEIGHTS)
@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
def test_the_number_of_threads_changes_no_bit(
    teams: dict[int, Team], kind: str, outputs: int, inputs: int
) -> None:
    rows, weight = make_case(outputs, inputs)
    held = packed(teams[1], weight, kind)
    for team in teams.values():
        assert packed(team, weight, kind).equal(held)
        for count in (1, 8, 9, 40):
            expected = teams[1].product(rows[:count], held, kind, outputs)
            assert team.product(rows[:count], held, kind, outputs).equal(expected)


@pytest.mark.parametrize("kind", KINDS_OF_WEIGHTS)
@pytest.mark.parametrize("damage", [float("nan"), float("inf"), -float("inf")])
def test_damaged_weights_show_in_their_output_alone(
    teams: dict[int, Team], kind: str, damage: float
) -> None:
    rows, weight = make_case(100, 513)
    sound = product(teams[2], rows, weight, kind)
    weight[53, 200] = damage
    found = product(teams[2], rows, weight, kind)
    assert not found[:, 53].isfinite().any()
    others = [n for n in range(100) if n != 53]
    assert found[:, others].equal(sound[:, others])


@pytest.mark.parametrize("kind", KINDS_OF_WEIGHTS)
@pytest.mark.parametrize("damage", [float("nan"), float("inf"), -float("inf")])
def test_damaged_inputs_show_in_their_row_alone(
    teams: dict[int, Team], kind: str, damage: float
) -> None:
    rows, weight = make_case(100, 513)
    sound = product(teams[2], rows, weight, kind)
    rows[11, 512] = damage
    found = product(teams[2], rows, weight, kind)
    assert not found[11].isfinite().any()
    others = [n for n in range(40) if n != 11]
    assert found[others].equal(sound[others])


def plain_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return int8 values and scales of rows, in double, by float32 arithmetic step by step."""
    peak = weight.abs().amax(dim=1, keepdim=True)
    scale = (peak.double() / 127).float().clamp(min=torch.finfo(torch.float32).tiny)
    scale[peak == 0] = 1
    scale[~weight.isfinite().all(dim=1)] = float("nan")
    whole = (weight.double() / scale.double()).float().round().nan_to_num(0)
    return whole.double(), scale.double()


def test_eight_bits_of_extreme_rows(teams: dict[int, Team]) -> None:
    """Rows of zeros, of subnormal and of the largest numbers, and with infinity and NaN."""
    smallest, tiny, huge = 2.0**-149, torch.finfo(torch.float32).tiny, 3.4028234e38
    _, weight = make_case(96, 20)
    weight = weight / weight.abs().amax(dim=1, keepdim=True)
    sizes = [0.0, *(smallest * 2**n for n in range(24)), *(tiny * 2**n for n in range(10)), huge]
    rows = [weight[i] * size for i, size in enumerate(sizes)]
    for damage in (float("nan"), float("inf"), -float("inf")):
        rows.append(weight[len(rows)].clone())
        rows[-1][7] = damage
    rows.append(torch.full((20,), smallest))
    rows.append(torch.full((20,), -huge))
    weight = torch.cat([torch.stack(rows), weight[len(rows) :]])

    whole, scale = plain_int8(weight)
    assert whole.abs().max() == 127
    assert ((whole * scale - weight.double()).abs() <= 0.5001 * scale)[scale.isfinite()[:, 0]].all()
    found = product(teams[1], torch.eye(20), weight, "int8").double().T
    expected = (whole * 32767).float() * scale.float() * plain_rows(torch.eye(20))[1].float().T
    # The processor may flush subnormal numbers to 0; all other numbers have one value.
    expected = expected.double()
    same = (found == expected) | ((expected.abs() < tiny) & (found == 0))
    assert (same | expected.isnan() & found.isnan()).all()


def test_bfloat16_rounds_to_nearest_and_ties_to_even(teams: dict[int, Team]) -> None:
    bits = torch.arange(0x3F800000, 0x3F800000 + (4 << 16), 1 << 12, dtype=torch.int32)
    near = torch.cat([bits - 1, bits, bits + 1]).view(torch.float32)
    extremes = torch.tensor([3.4028e38, -3.4028e38, 1e-37, -0.0, 1 + 2**-8, 1 + 3 * 2**-8])
    values = torch.cat([near, -near, extremes])
    one = torch.ones(1, 1)
    found = product(teams[1], one, values[:, None], "bfloat16")[0]
    assert found.equal(values.bfloat16().float())


def test_a_layer_takes_any_float_and_gives_float32(teams: dict[int, Team]) -> None:
    rows, weight = make_case(49, 33)
    layer = PackedLinear(teams[2], weight.bfloat16(), "bfloat16")
    strided = rows.T.contiguous().T
    assert layer(strided).equal(layer(rows))
    assert layer(rows.bfloat16()).dtype is torch.float32
    assert layer(rows[:0]).shape == (0, 49)
    assert (layer.in_features, layer.out_features) == (33, 49)


# ---------------------------------------------------------------- threads


def count_threads_of_teams() -> None:
    """Make teams and let them go; a team of n members takes n - 1 threads."""

    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    def check(expected: int) -> None:
        """A thread is listed for a moment after it has ended, even after it was joined."""
        deadline = time.monotonic() + 20
        while threads() != expected:
            assert time.monotonic() < deadline, (threads(), expected)
            time.sleep(0.001)

    rows, weight = make_case(100, 33)
    expected = product(make_team(1), rows, weight, "float32")
    gc.collect()
    before = threads()
    for size in [1, 2, 3, 5] * 8:
        team = Team(size)
        if size < 5:  # those of five never work
            assert product(team, rows, weight, "float32").equal(expected)
        check(before + size - 1)
        del team
    check(before)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system lists no threads")
def test_teams_take_their_threads_with_them() -> None:
    # In a process of its own: objects that other tests left may start threads at any time.
    code = "from tests.model.kernels.cpu.test_products import *; count_threads_of_teams()"
    output_of(code, timeout=120)


def test_a_team_serves_one_thread_after_another(teams: dict[int, Team]) -> None:
    rows, weight = make_case(100, 33)
    expected = product(teams[1], rows, weight, "float32")
    found: list[Tensor] = []
    for _ in range(5):
        thread = threading.Thread(
            target=lambda: found.append(product(teams[3], rows, weight, "float32"))
        )
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
    assert len(found) == 5
    assert all(part.equal(expected) for part in found)


def test_a_team_serves_threads_that_come_at_once(teams: dict[int, Team]) -> None:
    """The threads wait for their turn."""
    rows, weight = make_case(100, 33)
    held = packed(teams[1], weight, "float32")
    expected = teams[1].product(rows, held, "float32", 100)
    same: list[bool] = []

    def work() -> None:
        for _ in range(50):
            same.append(teams[3].product(rows, held, "float32", 100).equal(expected))

    callers = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(60)
    assert same == [True] * 200


def test_many_small_steps_one_after_another(teams: dict[int, Team]) -> None:
    """Members of the team sleep and wake in every order; none is lost or comes too early."""
    rows, weight = make_case(100, 5)
    held = packed(teams[3], weight, "float32")
    expected = teams[1].product(rows, held, "float32", 100)
    for count in range(400):
        rows_now = rows[: count % 5 + 1]
        assert teams[3].product(rows_now, held, "float32", 100).equal(expected[: count % 5 + 1])


FORK = """
import os, torch
from ChatTTS.model.kernels.cpu.library import Team
team = Team(3)
weight, rows = torch.arange(200.0).view(100, 2), torch.ones(2, 2)
held = torch.empty(team.packed_bytes("float32", 100, 2), dtype=torch.uint8)
team.pack(weight, "float32", held)
before = team.product(rows, held, "float32", 100)
pid = os.fork()
if pid == 0:
    same = team.product(rows, held, "float32", 100).equal(before)
    del team
    os._exit(0 if same else 1)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, "the child"
assert team.product(rows, held, "float32", 100).equal(before), "the parent"
print("both")
"""


MANY = """
import resource
from ChatTTS.errors import ConfigError
from ChatTTS.model.kernels.cpu.library import Team
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.RLIM_INFINITY))
try:
    Team(1000)
except ConfigError as error:
    print(error)
print(Team(2).size)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system tells no sizes")
def test_more_threads_than_the_system_gives() -> None:
    make_team(1)
    refusal, size = output_of(MANY).splitlines()
    assert refusal == "1000 threads cannot be started here: ask for less (num_threads)"
    assert size == "2"


END = """
import threading, torch
from ChatTTS.model.kernels.cpu.library import Team, address
busy = threading.Event()
def work():  # without torch in the loop, which does not bear the end of the interpreter
    team, rows, out = Team(2), torch.ones(64, 2048), torch.ones(64, 2048)
    held = torch.zeros(team.packed_bytes("float32", 2048, 2048), dtype=torch.uint8)
    given = team.handle, 0, address(rows), 64, address(held), 2048, 2048, address(out)
    while True:
        team.library.chattts_product(*given)
        busy.set()
threading.Thread(target=work, daemon=True).start()
busy.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_the_end_of_the_interpreter_leaves_a_busy_team_alone(times: int) -> None:
    make_team(1)
    for _ in range(times):
        assert output_of(END) == ""


def test_results_are_float32_whatever_torch_makes_by_default(teams: dict[int, Team]) -> None:
    rows, weight = make_case(100, 33)
    held = packed(teams[1], weight, "float32")
    expected = teams[1].product(rows, held, "float32", 100)
    torch.set_default_dtype(torch.float64)
    try:
        found = teams[1].product(rows, held, "float32", 100)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype is torch.float32
    assert found.equal(expected)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_team_survives_a_fork() -> None:
    make_team(1)
    assert output_of(FORK) == "both\n"
