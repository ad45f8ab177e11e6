"""Files of packed weights that are written while the engine already computes."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ChatTTS.model.kernels.cpu.library import Team
from ChatTTS.model.velocity.backends.cpu import packing
from ChatTTS.utils.cache_files import UNFINISHED
from ChatTTS.weights.fingerprint import PageChecksum

from .....support.mutation import changed_bytes
from .....support.native_tools import run_python
from .....support.velocity_models import (
    make_shape,
    packed_weights,
    save_llama,
    wait_for_writers,
)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Lets the writing of files go on, once it is set."""
    event = threading.Event()
    real = PageChecksum.digest

    def wait(sums: PageChecksum) -> bytes:
        if threading.current_thread() is not threading.main_thread():
            assert event.wait(60)
        return real(sums)

    monkeypatch.setattr(PageChecksum, "digest", wait)
    yield event
    event.set()


def test_a_start_does_not_wait_for_the_file(
    team: Team, tmp_path: Path, cache: Path, gate: threading.Event
) -> None:
    file = save_llama(tmp_path, make_shape())
    weights = packing.packed_weights(team, file, "float32")
    assert not any(not path.name.startswith(UNFINISHED) for path in cache.iterdir())
    gate.set()
    wait_for_writers()
    (finished,) = cache.iterdir()
    assert not finished.name.startswith(UNFINISHED)
    assert packed_weights(team, file, "float32").data.equal(weights.data)


def test_two_starts_at_once_write_one_file(
    team: Team,
    tmp_path: Path,
    cache: Path,
    gate: threading.Event,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = save_llama(tmp_path, make_shape())
    both = [packing.packed_weights(team, file, "float32") for _ in range(2)]
    gate.set()
    wait_for_writers()
    (path,) = cache.iterdir()
    assert path.stat().st_size == len(both[0].data) + PageChecksum.size
    assert packed_weights(team, file, "float32").data.equal(both[0].data)
    assert caplog.messages == []


ENDS_MEANWHILE = """
import os, sys, threading
from pathlib import Path
from ChatTTS.model.velocity.backends.cpu import packed_files, packing
from tests.support.velocity_models import make_shape, make_team, save_llama, wait_for_writers
packing._MIN_CACHED = 0
if sys.argv[2] == "slow":
    packed_files._SECONDS_AT_EXIT = 0
team, file = make_team(1), save_llama(Path(sys.argv[1]), make_shape())
os.environ["XDG_CACHE_HOME"] = sys.argv[1]
reached, ending = threading.Event(), threading.Event()
class Sums(packed_files.PageChecksum):
    def update(self, data):
        super().update(data)
        reached.set()
        ending.wait()
packed_files.PageChecksum = Sums
weights = packing.packed_weights(team, file, "float32")
assert reached.wait(60)
if sys.argv[2] == "fork":
    child = os.fork()
    if child == 0:
        wait_for_writers()  # it has none
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
end = threading.Timer(0.2, ending.set)
end.daemon = True
end.start()
"""


def ended(tmp_path: Path, how: str) -> list[Path]:
    """Let a process end while it writes; return the files that it leaves."""
    done = run_python(ENDS_MEANWHILE, str(tmp_path), how)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return list((tmp_path / "chattts-velocity" / "packed").iterdir())


@pytest.mark.parametrize("how", ["end", "fork"])
@pytest.mark.slow
def test_a_process_that_ends_meanwhile_finishes_its_file(tmp_path: Path, how: str) -> None:
    """Otherwise short scripts would pack at every start. A child of a fork touches nothing."""
    if how == "fork" and not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    (path,) = ended(tmp_path, how)
    assert not path.name.startswith(UNFINISHED)


@pytest.mark.slow
def test_a_process_does_not_wait_for_a_slow_disk(tmp_path: Path) -> None:
    assert ended(tmp_path, "slow") == []


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.thorough)])
def test_a_changed_file_never_gives_other_weights(
    team: Team, tmp_path: Path, cache: Path, count: int
) -> None:
    file = save_llama(tmp_path, make_shape())
    expected = packed_weights(team, file, "float32").data.clone()
    (path,) = cache.iterdir()
    whole, rng = path.read_bytes(), random.Random(0)
    for number in range(count):
        changed = changed_bytes(whole, rng)
        if number % 3 == 0:  # two words of one page change their places
            page = whole[: 8 * rng.randrange(2, 512)]
            changed = page[-8:] + page[8:-8] + page[:8] + whole[len(page) :]
        path.unlink()  # not overwritten: it is mapped
        path.write_bytes(changed)
        path.chmod(0o600)
        assert packed_weights(team, file, "float32").data.equal(expected)
