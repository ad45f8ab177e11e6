"""Files of other users, without other users."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ANOTHER = 4242


def give_to_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``path`` belong to another user; without the right to that, become another one."""
    if os.geteuid() == 0:
        os.chown(path, ANOTHER, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: ANOTHER)
