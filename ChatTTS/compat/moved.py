"""Modules under the names by which scripts import them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# The names that scripts know, and where the modules are.
MOVED: Mapping[str, str] = {
    "ChatTTS.audio.marks_found": "ChatTTS.audio.mark_detection",
    "ChatTTS.mark": "ChatTTS.config.mark",
    "ChatTTS.norm": "ChatTTS.compat.norm",
    "ChatTTS.model.velocity.llama": "ChatTTS.compat.velocity_llama",
    "ChatTTS.model.velocity.sampler": "ChatTTS.model.velocity.loaded_model",
    "ChatTTS.model.velocity.sampling_params": "ChatTTS.model.sampling_params",
    "ChatTTS.pipeline.head_scores": "ChatTTS.pipeline.alignment.head_scores",
    "ChatTTS.results": "ChatTTS.compat.results",
    "ChatTTS.utils.dl": "ChatTTS.compat.dl",
    "ChatTTS.utils.gpu": "ChatTTS.compat.gpu",
    "ChatTTS.utils.gpu_utils": "ChatTTS.compat.gpu",
    "ChatTTS.utils.io": "ChatTTS.compat.io",
    "ChatTTS.utils.log": "ChatTTS.compat.log",
}


class MovedModules(MetaPathFinder, Loader):
    """Imports a module by its earlier name; both names are one module."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return how a moved module is imported; ``None`` for all others."""
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module itself in the place of the new, empty one."""
        sys.modules[module.__name__] = import_module(MOVED[module.__name__])
