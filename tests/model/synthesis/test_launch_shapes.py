"""The choice of the captured launches that decode a batch."""

import random
from dataclasses import replace
from typing import Any

import pytest

from ChatTTS.errors import ConfigError
from ChatTTS.model.synthesis.launch_shapes import LaunchShapes

SHAPES = LaunchShapes(sizes=(1, 2, 4), chunks=(1, 3, 8), max_frames=24, launch_frames=0)


def test_a_plan_gives_each_what_it_needs() -> None:
    generator = random.Random(1)
    for shapes in (SHAPES, LaunchShapes()):
        for _ in range(50):
            count = generator.randint(0, 90)
            needs = [generator.choice([0, 1, 2, 3, 9, 70, 200]) for _ in range(count)]
            given = [0] * count
            for planned in shapes.plan(needs):
                assert (planned.size, planned.chunk) in shapes.pairs
                assert 0 < len(planned.counts) <= planned.size
                assert planned.size * planned.chunk <= shapes.max_frames
                for number, frames in planned.counts.items():
                    assert 0 < frames <= planned.chunk
                    given[number] += frames
            assert given == needs


def test_few_frames_do_not_wait_in_long_launches() -> None:
    plan = list(SHAPES.plan([1, 10, 1, 1, 8]))
    assert [(p.size, p.chunk, p.counts) for p in plan] == [
        (2, 8, {1: 8, 4: 8}),
        (1, 3, {1: 2}),
        (4, 1, {0: 1, 2: 1, 3: 1}),
    ]


@pytest.mark.parametrize(
    ("launch_frames", "longest", "plan"),
    [
        # Together they have room for 4 * 6 frames, apart for 6 and 2, and another launch.
        (16, 6, [{0: 6, 1: 1, 2: 1}]),
        (15, 6, [{0: 6}, {1: 1, 2: 1}]),
        (1000, 8, [{0: 8}, {1: 1, 2: 1}]),  # no launch has room for 4 * 8
    ],
)
def test_a_launch_is_shared_where_its_waste_costs_less_than_another_one(
    launch_frames: int, longest: int, plan: list[dict[int, int]]
) -> None:
    shapes = replace(SHAPES, chunks=(1, longest), launch_frames=launch_frames)
    assert [launch.counts for launch in shapes.plan([longest, 1, 1])] == plan


def test_all_shapes_are_known() -> None:
    """Those of the fewest frames come first, and those of too many are none."""
    assert SHAPES.pairs == ((1, 1), (2, 1), (1, 3), (4, 1), (2, 3), (1, 8), (4, 3), (2, 8))
    assert {(64, 24), (32, 64), (16, 128)} < set(LaunchShapes().pairs)
    assert {(64, 64), (32, 128)}.isdisjoint(LaunchShapes().pairs)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"sizes": ()}, "sizes"),
        ({"sizes": (0, 1)}, "sizes"),
        ({"chunks": (8, 2)}, "chunks"),
        ({"chunks": (2, 2)}, "chunks"),
        ({"max_frames": 127}, "at least 128"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(shapes: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LaunchShapes(**shapes)
