"""The language model of both passes, on the engine that the caller or the machine chose."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..config import Config
from ..errors import ConfigError, EngineUnavailableError
from ..utils.device_loop import DeviceLoop
from ..utils.fair_lock import ComputeLock, FairLock, NoLock
from ..utils.locks import new_lock
from .cuda.capture_thread import Capturable
from .devices.placement import Placement
from .embed import Embed, load_embed
from .engine_choice import (
    EngineOptions,
    asks_for_standard,
    asks_for_velocity,
    velocity_is_faster,
)
from .generation import Cancellation, Delta, GenerationRequest, Generator, PushingGenerator
from .llama.config import LlamaShape, llama_config, read_llama_shape
from .lora.names import Adapters
from .lora.reader import read_adapter
from .standard.engine import StandardEngine, load_llama
from .standard.lora import LlamaAdapters
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .velocity.generator import VelocityGenerator

__all__ = ["GPT", "EngineOptions"]

logger = logging.getLogger(__name__)


class GPT:
    """The language model on an engine, which is chosen when it is loaded.

    Attributes:
        engine: the :class:`~ChatTTS.model.generation.Generator` behind it.
        compute_lock: held by the engine, and by all other work that needs the same cores.
        batches_itself: whether the engine takes any number of requests and decides by itself how
            many run side by side.
        gives_attention: whether requests may have alignment heads.
        adapters: the loaded adapters by their names.
        kv_cache_dtype: that of keys and values, where another one than usual was asked for.

    Args:
        standard: loads the standard engine, where velocity was chosen without being asked for.
    """

    def __init__(
        self,
        engine: StandardEngine | VelocityGenerator,
        compute_lock: ComputeLock,
        standard: Callable[[], StandardEngine] | None = None,
        kv_cache_dtype: str = "auto",
    ) -> None:
        self._use(engine)
        self.kv_cache_dtype = kv_cache_dtype
        self.compute_lock = compute_lock
        self._load_standard = standard
        self._lock = new_lock()

    def _use(self, engine: StandardEngine | VelocityGenerator) -> None:
        self._loaded = engine
        self.adapters: Adapters = engine.adapters
        self.gives_attention = engine.gives_attention
        self.batches_itself = not isinstance(engine, StandardEngine)
        self.engine: Generator = engine

    @classmethod
    def load_pretrained(
        cls,
        *,
        weights: Path,
        llama_file: Path,
        embed_weights: Path,
        config: Config,
        tokenizer: Tokenizer,
        placement: Placement,
        options: EngineOptions,
    ) -> GPT:
        """Load the Llama and the embeddings for the engine that ``options`` name.

        Where they name none, it is velocity if that is faster here and does what the options ask
        for, else the standard engine.

        Args:
            tokenizer: the checkpoint's, checked against ``config``.

        Raises:
            AssetError: a file cannot be used.
            EngineUnavailableError: only the standard engine supports this kind of Llama.
            ConfigError: the engine does not support an option.
        """
        # On a GPU the engine leaves the cores to other work.
        compute_lock: ComputeLock = FairLock() if placement.device.type == "cpu" else NoLock()
        asset = weights.parent.parent
        shape = read_llama_shape(llama_file, config.gpt)
        standard = partial(
            _standard_engine,
            shape,
            weights,
            embed_weights,
            config,
            tokenizer,
            placement,
            options,
            compute_lock,
        )
        wanted = options.use_vllm
        if wanted is None and asks_for_standard(options, placement):
            wanted = False
        if wanted is None and asks_for_velocity(options, placement):
            wanted = True
        if wanted:
            engine = _velocity(asset, tokenizer, placement, options, compute_lock)
            return cls(engine, compute_lock, kv_cache_dtype=options.kv_cache_dtype)
        if wanted is None and velocity_is_faster(shape, placement):
            try:
                engine = _velocity(asset, tokenizer, placement, options, compute_lock)
            except (EngineUnavailableError, ConfigError) as error:
                # No warning: the caller asked for no engine, and the standard one does everything
                # that was asked for. One that asks for velocity, or for what only velocity has,
                # got the error above.
                logger.info("the standard engine computes, since velocity cannot: %s", error)
            else:
                return cls(engine, compute_lock, standard)
        return cls(standard(), compute_lock)

    @property
    def embed(self) -> Embed:
        """The embeddings and heads; with several ranks a copy, which is read at the first use."""
        return self._loaded.embed

    @property
    def pushes(self) -> PushingGenerator | None:
        """Return the engine, if it can push its answers."""
        return self.engine if isinstance(self.engine, PushingGenerator) else None

    @property
    def shared_loop(self) -> DeviceLoop | None:
        """Return the loop of an engine whose device works by itself: others may share it."""
        return None if isinstance(self._loaded, StandardEngine) else self._loaded.shared_loop

    @property
    def capturable(self) -> Capturable | None:
        """Return the steps of the engine that are still to be captured, if they ever are."""
        return None if isinstance(self._loaded, StandardEngine) else self._loaded.capturable

    @property
    def may_change_engine(self) -> bool:
        """Return whether the caller asked for no engine, so the standard one may replace it."""
        return self._load_standard is not None

    def use_modules(self) -> None:
        """Switch to the standard engine, for a script that touches the language model's modules.

        Velocity has packed copies of the weights, so what a script changes in a module would have
        no effect. An engine that the caller asked for stays. Calls that run end where they began.

        Raises:
            ChatTTSError: the files cannot be loaded any more.
        """
        with self._lock:
            if self._load_standard is None:
                return
            self._use(self._load_standard())
            self._load_standard = None
        logger.info(
            "the standard engine goes on, since the script uses modules of the language model; "
            "load with use_vllm=True to stay on velocity"
        )

    def close(self) -> None:
        """End all requests, and release the engine's threads and memory."""
        self.engine.close()

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        """Run ``requests``; see :class:`~ChatTTS.model.generation.Generator`."""
        return self.engine.generate(requests, cancelled)


def _velocity(
    asset: Path,
    tokenizer: Tokenizer,
    placement: Placement,
    options: EngineOptions,
    compute_lock: ComputeLock,
) -> VelocityGenerator:
    """Load the velocity engine from the folder ``asset``."""
    from .velocity.configs import EngineArgs
    from .velocity.generator import VelocityGenerator

    for name in ("compile", "use_flash_attn", "experimental"):
        if getattr(options, name):
            is_usual = name != "use_flash_attn" and options.use_vllm is None
            logger.log(
                logging.DEBUG if is_usual else logging.WARNING,
                "%s=True is not used: the velocity engine has its own kernels",
                name,
            )
    if not options.enable_cache:
        logger.warning("enable_cache=False is not used: velocity always has a KV cache")
    args = EngineArgs(
        model=asset,
        dtype=str(placement.dtype).removeprefix("torch."),
        quantization=placement.quantization,
        batch_invariant=options.batch_invariant is not False,
        device=str(placement.device),
        num_threads=options.num_threads,
        kv_memory=options.kv_memory,
        kv_cache_dtype=options.kv_cache_dtype,
        tensor_parallel_size=options.tensor_parallel_size,
        pipeline_parallel_size=options.pipeline_parallel_size,
        distributed_executor_backend=options.distributed_executor_backend,
        adapters=options.adapters,
    )
    return VelocityGenerator.load(args, compute_lock, tokenizer)


def _standard_engine(
    shape: LlamaShape,
    weights: Path,
    embed_weights: Path,
    config: Config,
    tokenizer: Tokenizer,
    placement: Placement,
    options: EngineOptions,
    compute_lock: ComputeLock,
) -> StandardEngine:
    """Load the standard engine.

    Raises:
        AssetError: a file cannot be used.
        ConfigError: it does not support an option.
    """
    if options.is_divided:
        raise ConfigError(
            "tensor_parallel_size, pipeline_parallel_size and distributed_executor_backend "
            "need the velocity engine: load with use_vllm=True, or leave them out"
        )
    if placement.quantization is not None:
        raise ConfigError(
            f"dtype={placement.quantization!r} needs the velocity engine: load with "
            "use_vllm=True, or take another dtype"
        )
    if options.kv_cache_dtype != "auto":
        raise ConfigError(
            f"kv_cache_dtype={options.kv_cache_dtype!r} needs the velocity engine: load with "
            "use_vllm=True, or leave it out"
        )
    embed = load_embed(embed_weights, config.embed, placement)
    _explain(options)
    model, observed, new_cache = _llama(shape, weights, placement, options)
    adapters = None
    if options.adapters:
        read = [read_adapter(path, name, shape) for name, path in options.adapters.items()]
        adapters = LlamaAdapters(model, read)
    # Threads that the caller asked for are the caller's decision.
    is_free = placement.device.type == "cpu" and options.num_threads is None
    return StandardEngine(
        model,
        embed,
        observed=observed,
        end_of_text=tokenizer.end_of_refine,
        max_positions=config.gpt.max_position_embeddings,
        new_cache=new_cache if options.enable_cache else lambda: None,
        compute_lock=compute_lock,
        adapters=adapters,
        max_threads=shape.useful_threads if is_free else None,
    )


def _llama(
    shape: LlamaShape, weights: Path, placement: Placement, options: EngineOptions
) -> tuple[Callable[..., Any], torch.nn.Module, Callable[[], Any]]:
    """Load transformers' Llama.

    Returns:
        The Llama, its module that is not compiled, whose heads give attention, and a function that
        makes the KV cache of a batch for it.
    """
    from transformers import DynamicCache

    from .standard.kv_cache import GrowingCache

    config = llama_config(shape, _attention(options, placement))
    llama = load_llama(config, weights, placement.device, placement.dtype)
    if options.compile and placement.device.type != "cuda":
        logger.debug("compile=True is not used: it is for CUDA")
    elif options.compile and options.adapters:
        logger.warning("compile=True is not used: adapters differ from row to row")
    elif options.compile:
        # torch.compile traces DynamicCache. With GrowingCache it would trace again at every step,
        # since Python code changes the counters there.
        return _compiled(llama), llama, DynamicCache
    return llama, llama, GrowingCache


def _attention(options: EngineOptions, placement: Placement) -> str:
    """Return the name of transformers' attention; flash attention only where it can work."""
    if not options.use_flash_attn:
        return "sdpa"
    hindrances = [
        reason
        for hinders, reason in (
            (placement.device.type != "cuda", f"it needs CUDA, not {placement.device.type}"),
            (placement.dtype is torch.float32, "it needs dtype float16 or bfloat16"),
            (importlib.util.find_spec("flash_attn") is None, "flash-attn is not installed"),
        )
        if hinders
    ]
    if hindrances:
        logger.warning("use_flash_attn=True is not used: %s", "; ".join(hindrances))
        return "sdpa"
    return "flash_attention_2"


def _explain(options: EngineOptions) -> None:
    """Warn of options that have no effect on the standard engine."""
    if options.experimental:
        logger.warning(
            "experimental=True is not used: velocity has the kernels for a GPU; load without "
            "use_vllm=False"
        )
    if options.kv_memory is not None:
        logger.warning("kv_memory is not used: the standard engine's cache grows as it needs")
    if options.batch_invariant:
        logger.warning(
            "batch_invariant=True is not used: on the standard engine rows agree with their "
            "lone runs up to rounding; only velocity promises every bit"
        )


def _compiled(model: torch.nn.Module) -> Any:
    """Return the model under ``torch.compile``, or as it is if no compiler works here."""
    probe = torch.compile(torch.nn.GELU())
    try:
        probe(torch.zeros(8))
    except Exception as error:  # whatever a missing or broken compiler raises
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        logger.warning("compile=True is not used: torch.compile does not work here (%s)", reason)
        return model
    return torch.compile(model, dynamic=True)
