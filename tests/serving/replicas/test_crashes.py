"""Replicas on the real Ray: they are killed in the middle of streams, and nobody hears it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ...support.replica_tools import (
    CLIENTS,
    Crowd,
    ReplicatedProcess,
    Task,
)
from ...support.serving_tools import eventually

pytest.importorskip("ray", reason="replicas need Ray: pip install 'chattts-velocity[serve,scale]'")

pytestmark = pytest.mark.slow

REPLICAS = 2
STREAMS = 50
TEXTS = (
    "The lighthouse had been dark for eleven years. Then somebody lit the lamp again.",
    "We walk along the river, and then we walk back home again. It takes an hour.",
    "The sun is up, and the boats come home. Nobody knows where they have been.",
    "A letter came from the island. It was short, and it was not signed.",
    "The old man looked at the sea for a long time. Then he went inside.",
)
TASKS = [Task(text, 7 + number) for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedProcess]:
    started = ReplicatedProcess(tmp_path_factory.mktemp("voices"), REPLICAS, "--max-running", "50")
    try:
        yield started
    finally:
        started.close()


def nothing() -> None:
    pass


@pytest.fixture(scope="module")
def undisturbed(process: ReplicatedProcess) -> list[list[bytes]]:
    """The sound of each task, by the interfaces in their order."""
    return [[client(process, task, nothing) for client in CLIENTS] for task in TASKS]


def test_the_interfaces_give_the_tasks_their_sound(undisturbed: list[list[bytes]]) -> None:
    for sounds in undisturbed:
        assert all(len(sound) > 24_000 for sound in sounds)
    assert len({sounds[0] for sounds in undisturbed}) == len(TASKS)


@pytest.mark.parametrize("begun", [1, 20, 45])
def test_streams_survive_the_crash_of_a_replica(
    process: ReplicatedProcess, undisturbed: list[list[bytes]], begun: int
) -> None:
    before = process.all_replicas()
    asks = [(place % 3, place % len(TASKS)) for place in range(STREAMS)]
    crowd = Crowd()
    with crowd.listening(process, [(client, TASKS[task]) for client, task in asks]):
        assert eventually(lambda: crowd.begun >= begun or len(crowd.results) == STREAMS)
        killed = process.kill_replica()
    for place, (client, task) in enumerate(asks):
        heard = crowd.results[place]
        assert isinstance(heard, bytes), heard
        assert heard == undisturbed[task][client], (place, len(heard))
    process.said("a replica was lost")
    assert eventually(lambda: killed not in process.replicas())
    assert process.all_replicas() != before
