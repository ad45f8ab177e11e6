"""Choose the checkpoint of a command, and load it into a ``Chat``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import Config
from ..errors import AssetError
from .console import Console
from .options import adapter_options, named_normalizers

if TYPE_CHECKING:
    from ..checkpoints.assets import AssetFolder
    from ..core import Chat

FULL_MODEL_HINT = (
    "this is the small model of the package; for the full ChatTTS model: `chattts download` once, "
    "then `--model huggingface`"
)


@dataclass(frozen=True)
class ModelChoice:
    """A checkpoint, named by arguments of ``Chat.load``."""

    source: str
    path: Path | None = None

    @property
    def label(self) -> str:
        """Its name in ``--model``."""
        return self.source if self.path is None else str(self.path)

    def find(self, *, download: bool = True) -> AssetFolder:
        """Return its folder.

        Args:
            download: download the published checkpoint if it is not cached.

        Raises:
            AssetError: it is missing or incomplete.
        """
        from ..checkpoints import assets

        if self.source == "huggingface" and not download and not assets.is_cached():
            raise AssetError(
                "the full ChatTTS model is missing or incomplete: `chattts download` fetches it"
            )
        return assets.locate(self.source, self.path)


def choose_model(name: str | None) -> ModelChoice:
    """Return the checkpoint that ``--model`` names.

    Without a name it is the full model if that is cached, otherwise the bundled one.
    """
    if name is None:
        from ..checkpoints import assets

        return ModelChoice("huggingface" if assets.is_cached() else "bundled")
    if name in ("bundled", "huggingface"):
        return ModelChoice(name)
    return ModelChoice("custom", Path(name))


def read_config(choice: ModelChoice, *, download: bool = True) -> Config:
    """Return a checkpoint's configuration; raise errors as :meth:`ModelChoice.find` does."""
    return Config.from_file(choice.find(download=download).config)


def check_engine_options(args: argparse.Namespace) -> None:
    """Check the options of :func:`~.options.add_engine_options` that need no checkpoint.

    Raises:
        ConfigError: a value is invalid; the message names it.
        UsageError: an adapter's name is invalid, or a normalizer is.
    """
    named_normalizers(args.normalizer)
    from ..model.velocity.configs import EngineArgs

    EngineArgs(
        model="",
        num_threads=args.threads,
        kv_memory=args.memory,
        kv_cache_dtype=args.kv_cache_dtype,
        tensor_parallel_size=args.tensor_parallel_size,
        pipeline_parallel_size=args.pipeline_parallel_size,
        distributed_executor_backend=args.distributed_executor_backend,
        adapters=adapter_options(args.adapter),
    ).create_engine_config()


def load_chat(choice: ModelChoice, args: argparse.Namespace, console: Console) -> Chat:
    """Load the checkpoint by the options of :func:`~.options.add_engine_options`, and say so."""
    console.note(f"loading the model: {choice.label}")
    return new_chat(choice, args)


def new_chat(choice: ModelChoice, args: argparse.Namespace) -> Chat:
    """Load the checkpoint by the options of :func:`~.options.add_engine_options`."""
    from ..core import Chat
    from ..model.cuda.triton_folder import keep_triton_kernels
    from ..text.named_functions import register_named

    keep_triton_kernels()
    chat = Chat()
    register_named(chat.normalizer, named_normalizers(args.normalizer))
    chat.load_or_raise(
        choice.source,
        custom_path=choice.path,
        device=args.device,
        use_vllm=args.engine == "velocity",
        dtype=args.dtype,
        num_threads=args.threads,
        kv_memory=args.memory,
        kv_cache_dtype=args.kv_cache_dtype,
        tensor_parallel_size=args.tensor_parallel_size,
        pipeline_parallel_size=args.pipeline_parallel_size,
        distributed_executor_backend=args.distributed_executor_backend,
        adapter=adapter_options(args.adapter) or None,
    )
    return chat
