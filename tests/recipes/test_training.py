"""The loop that trains every stage of every recipe."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ChatTTS.errors import AssetError, ConfigError
from recipes.voice.checkpoints import load_average, read_origin, read_position
from recipes.voice.training import Budget, Moment, Objective, Schedule, generator_for

from ..support.recipe_tools import CPU, lines, trained


class Line:
    """A task that learns y = 3x; its updates depend on batch, generator and learning rate."""

    name = "line"

    def __init__(self, rate: float = 0.1, width: int = 1) -> None:
        model = nn.Linear(width, 1)
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        self.model = model
        self.modules = {"line": model}
        self.optimizers = {"adamw": torch.optim.AdamW(model.parameters(), lr=rate)}
        self.steps: list[int] = []

    def batch(self, step: int) -> Tensor:
        return torch.randn(8, self.model.in_features, generator=generator_for(CPU, 1, step))

    def objectives(self, batch: Tensor, moment: Moment) -> Iterator[Objective]:
        self.steps.append(moment.step)
        noise = torch.randn(8, 1, generator=moment.generator)
        error = self.model(batch) - 3 * batch - 0.1 * noise
        yield Objective({"square": error.square().mean()}, counts={"points": 8})


# The loop


def test_a_training_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole, halves = Line(), [Line(), Line()]
    assert trained(whole, tmp_path / "a", Budget(steps=40), log_every=4)

    # Each look at the clock takes ten seconds: the first run ends in the middle.
    ticks = itertools.count(0, 10)
    budget = Budget(steps=40, run_minutes=5)
    first = trained(halves[0], tmp_path / "b", budget, clock=lambda: next(ticks), log_every=4)
    assert not first
    assert 0 < len(halves[0].steps) < 40
    assert trained(halves[1], tmp_path / "b", Budget(steps=40), log_every=4)

    assert halves[0].steps + halves[1].steps == list(range(40))
    for name in ("weight", "bias"):
        assert torch.equal(getattr(whole.model, name), getattr(halves[1].model, name))
    averages = [nn.Linear(1, 1), nn.Linear(1, 1)]
    for folder, average in zip("ab", averages, strict=True):
        load_average(tmp_path / folder / "line.safetensors", "line", average)
    assert torch.equal(averages[0].weight, averages[1].weight)
    assert not torch.equal(averages[0].weight, whole.model.weight)
    assert [line["step"] for line in lines(tmp_path / "b", "line")][-1] == 40


@pytest.mark.slow
def test_batches_from_processes_are_those_of_a_thread(tmp_path: Path) -> None:
    here, elsewhere = Line(), Line()
    here.batch = partial(drawn, 8)  # type: ignore[method-assign]
    elsewhere.batch = here.batch  # type: ignore[method-assign]
    trained(here, tmp_path / "a", Budget(steps=9))
    trained(elsewhere, tmp_path / "b", Budget(steps=9), workers=2)
    assert elsewhere.steps == list(range(9))
    assert torch.equal(here.model.weight, elsewhere.model.weight)


def drawn(count: int, step: int) -> Tensor:
    return torch.randn(count, 1, generator=generator_for(CPU, 2, step))


def test_a_finished_stage_is_not_trained_again(tmp_path: Path) -> None:
    assert trained(Line(), tmp_path, Budget(steps=3))
    again = Line()
    assert trained(again, tmp_path, Budget(steps=3))
    assert again.steps == []
    more = Line()
    assert trained(more, tmp_path, Budget(steps=5))
    assert more.steps == [3, 4]


def test_the_loss_falls_and_is_logged_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    trained(Line(), tmp_path, Budget(steps=60), log_every=10)
    found = lines(tmp_path, "line")
    assert [line["step"] for line in found] == [10, 20, 30, 40, 50, 60]
    assert found[-1]["square"] < 0.5 * found[0]["square"]
    assert {"seconds", "gradient", "rate", "points_per_second"} <= found[0].keys()
    assert (tmp_path / "plots" / "line.png").stat().st_size > 1000


def test_lines_of_lost_steps_are_dropped(tmp_path: Path) -> None:
    trained(Line(), tmp_path, Budget(steps=4), log_every=2)
    with (tmp_path / "log" / "line.jsonl").open("a") as file:
        file.write(json.dumps({"step": 6, "seconds": 9.0, "square": 1.0}) + "\n")
        file.write('{"step": 8, "secon')
    trained(Line(), tmp_path, Budget(steps=8), log_every=4)
    assert [line["step"] for line in lines(tmp_path, "line")] == [2, 4, 8]


def test_control_c_saves_after_the_step(tmp_path: Path) -> None:
    class Interrupted(Line):
        def objectives(self, batch: Tensor, moment: Moment) -> Iterator[Objective]:
            if moment.step == 5:
                signal.raise_signal(signal.SIGINT)
            yield from super().objectives(batch, moment)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        trained(Interrupted(), tmp_path, Budget(steps=50))
    assert read_position(tmp_path / "line.safetensors").step == 6
    assert signal.getsignal(signal.SIGINT) is before


def test_updates_without_finite_gradients_are_left_out(tmp_path: Path) -> None:
    class Spiked(Line):
        def objectives(self, batch: Tensor, moment: Moment) -> Iterator[Objective]:
            factor = float("nan") if moment.step % 2 else 1.0
            for objective in super().objectives(batch, moment):
                yield Objective({"square": objective.losses["square"] * factor})

    task = Spiked()
    assert trained(task, tmp_path, Budget(steps=10))
    assert torch.isfinite(task.model.weight).all()


def test_a_hopeless_training_ends_with_the_remedy(tmp_path: Path) -> None:
    class Lost(Line):
        def objectives(self, batch: Tensor, moment: Moment) -> Iterator[Objective]:
            yield Objective({"square": self.model(batch).sum() * float("inf")})

    with pytest.raises(RuntimeError, match="lower the learning rate"):
        trained(Lost(), tmp_path, Budget(steps=500))
    assert not (tmp_path / "line.safetensors").exists()


def test_a_state_of_other_sizes_is_refused(tmp_path: Path) -> None:
    trained(Line(), tmp_path, Budget(steps=2))
    with pytest.raises(AssetError, match="does not fit"):
        trained(Line(width=2), tmp_path, Budget(steps=4))


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "line.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(AssetError, match="delete the file"):
        trained(Line(), tmp_path, Budget(steps=4))


def test_errors_while_making_data_come_through(tmp_path: Path) -> None:
    class NoData(Line):
        def batch(self, step: int) -> Tensor:
            if step == 3:
                raise OSError("the disk is full")
            return super().batch(step)

    with pytest.raises(OSError, match="the disk is full"):
        trained(NoData(), tmp_path, Budget(steps=10))


def test_minutes_count_over_all_runs(tmp_path: Path) -> None:
    def ticks() -> Any:
        return itertools.count(0, 6).__next__

    budget = Budget(minutes=2, run_minutes=1)
    finished = [trained(Line(), tmp_path, budget, clock=ticks()) for _ in range(3)]
    assert finished == [False, True, True]
    assert 120 <= read_position(tmp_path / "line.safetensors").seconds < 160


def test_a_budget_needs_an_end() -> None:
    with pytest.raises(ConfigError, match="steps or minutes"):
        Budget(run_minutes=3)


@pytest.mark.parametrize("wrong", [{"steps": -1}, {"minutes": -2.0}])
def test_a_budget_below_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must not be below 0"):
        Budget(**wrong)


@pytest.mark.slow
def test_a_raised_budget_ends_no_phase_unless_it_was_a_trial(tmp_path: Path) -> None:
    class Phases(Line):
        def objectives(self, batch: Tensor, moment: Moment) -> Iterator[Objective]:
            spent.append(moment.spent)
            return super().objectives(batch, moment)

    spent: list[float] = []
    trained(Phases(), tmp_path, Budget(steps=10))
    assert spent[-1] == 0.9
    trained(Phases(), tmp_path, Budget(steps=30))
    assert spent == sorted(spent)
    assert len(spent) == 30
    trained(Phases(), tmp_path, Budget(steps=200))
    assert spent[30:] == [step / 200 for step in range(30, 200)]


def test_a_changed_origin_of_a_stage_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained(Line(), tmp_path, Budget(steps=2), origin={"codec": "a"})
    trained(Line(), tmp_path, Budget(steps=3), origin={"codec": "a"})
    assert not caplog.messages
    trained(Line(), tmp_path, Budget(steps=4), origin={"codec": "b"})
    assert ["learned from another codec" in message for message in caplog.messages] == [True]
    state = tmp_path / "line.safetensors"
    assert read_origin(state) == {"codec": "b"}
    save_file({"weight": torch.zeros(1)}, state, metadata={"position": '{"step": 4}'})
    assert read_origin(state) == {}  # of an older state


def test_schedule_rises_stays_and_ends_low() -> None:
    schedule = Schedule(warmup=10, decay=0.25, floor=0.1)
    factors = [schedule.factor(step, step / 100) for step in range(101)]
    assert factors[0] == pytest.approx(1 / 11)
    assert factors[:10] == sorted(factors[:10])
    assert factors[11:] == sorted(factors[11:], reverse=True)
    assert max(factors) <= 1.0
    assert factors[-1] == pytest.approx(0.1)
    assert factors[60] == 1.0


def test_generators_are_functions_of_their_numbers() -> None:
    def draw(*numbers: int) -> list[float]:
        return torch.rand(4, generator=generator_for(CPU, *numbers)).tolist()

    assert draw(1, 2) == draw(1, 2)
    assert len({tuple(draw(seed, step)) for seed in range(4) for step in range(4)}) == 16
