"""Memory that threads have freed."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    getattr(ctypes.CDLL(None) if sys.platform == "linux" else None, "mallopt", None) is None,
    reason="only glibc has several heaps",
)

# Prints how many heaps twelve threads have allocated from, as the C library tells it.
_HEAPS = """
import ctypes, threading
from ChatTTS.utils.garbage import share_free_memory
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
share_free_memory()
barrier = threading.Barrier(12)
def allocate():
    barrier.wait()
    libc.malloc(100_000)
    barrier.wait()
threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
file = ctypes.c_void_p(libc.fopen({path!r}.encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
print(open({path!r}).read().count("<heap nr="))
"""


def heaps(folder: Path, **environment: str) -> int:
    inherited = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    script = _HEAPS.format(path=str(folder / "heaps.xml"))
    told = subprocess.run(
        [sys.executable, "-c", script],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(told.stdout)


def test_threads_allocate_from_two_heaps(tmp_path: Path) -> None:
    assert heaps(tmp_path) <= 2


def test_the_variable_of_the_c_library_is_heeded(tmp_path: Path) -> None:
    assert heaps(tmp_path, MALLOC_ARENA_MAX="5") == 5
