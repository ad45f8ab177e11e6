"""Files that seem to belong to another user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ANOTHER = 4242


def give_to_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``path`` belong to another user; without that right, pretend to be another user."""
    if os.geteuid() == 0:
        os.chown(path, ANOTHER, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: ANOTHER)
