"""A fake of the hub library, which downloads nothing."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import huggingface_hub.constants
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from ChatTTS.config import published_facts

PUBLISHED = tuple(published_facts()["sha256"])
STORED = "models--2Noise--ChatTTS"  # the folder of the checkpoint in the library's cache


@dataclass
class Hub:
    """A fake of the hub library: its cache, its files online, and the requests that it got."""

    cached: Path | None = None
    online: Path | None = None
    asked: list[str] = field(default_factory=list)
    caches: dict[Path, Path] = field(default_factory=dict)

    def snapshot_download(
        self,
        repo_id: str,
        *,
        allow_patterns: list[str],
        cache_dir: Path | None = None,
        local_dir: Path | None = None,
        local_files_only: bool = False,
        force_download: bool = False,
    ) -> str:
        assert repo_id == "2Noise/ChatTTS"
        assert set(allow_patterns) == set(PUBLISHED)
        if local_files_only:
            cached = self.cached if cache_dir is None else self.caches.get(cache_dir)
            if cached is None:
                raise LocalEntryNotFoundError("not here")
            return str(cached)
        self.asked.append("forced download" if force_download else "download")
        if self.online is None:
            raise ConnectionError("the cable is out")
        if cache_dir is not None:
            (cache_dir / STORED).mkdir(parents=True)
            self.caches[cache_dir] = self.online
        if local_dir is not None:
            shutil.copytree(self.online, local_dir, dirs_exist_ok=True)
            return str(local_dir)
        return str(self.online)

    def model_info(self, repo_id: str) -> None:
        if self.online is None:
            raise ConnectionError("the cable is out")

    def instead_of_the_real_one(self, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Hub:
        """Replace the functions of the hub library, and its cache, until the test ends."""
        (cache / STORED).mkdir(parents=True)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(huggingface_hub, "snapshot_download", self.snapshot_download)
        monkeypatch.setattr(huggingface_hub, "model_info", self.model_info)
        return self
