"""The synthesizers of a model: how its sound is decoded on the device where it is placed."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch

from ..errors import ConfigError
from ..model.cuda.graphs import CudaGraphCapturer
from ..model.cuda.support import why_no_kernels
from ..model.devices.placement import Placement
from ..model.dvae import DVAE, MelDecoder
from ..model.gpt import EngineOptions
from ..model.kernels.cpu.build import BuildError
from ..model.kernels.cpu.library import Team
from ..model.synthesis.cpu_convnext import accelerate
from ..model.synthesis.cpu_decoder import NativeStreamingDecoder, PackedLayers
from ..model.synthesis.cuda_decoder import CudaStreamingDecoder
from ..model.synthesis.cuda_layers import CudaLayer, cuda_layers
from ..model.synthesis.layer_operations import (
    TORCH_OPERATIONS,
    LayerOperations,
    kernel_operations,
)
from ..model.synthesis.layers import vocoder_layers
from ..model.synthesis.streaming_decoder import StreamingDecoder
from ..model.synthesis.synthesizer import Synthesizer
from ..model.synthesis.vocoder import Vocoder
from ..utils import machine

logger = logging.getLogger(__name__)


def load_synthesizers(
    decoder: MelDecoder,
    dvae: DVAE,
    vocos: Vocoder,
    placement: Placement,
    options: EngineOptions,
    *,
    has_kernels: bool,
) -> tuple[Synthesizer, Synthesizer]:
    """Return the synthesizers of hidden states and of codes.

    They are captured on CUDA. On a CPU they use the kernels beside velocity, where these work.
    Elsewhere they run as plain modules.

    Where the language model has a smaller dtype than float32, the Decoder and the vocoder have one
    too. The DVAE stays in float32: codes carry less information than hidden states, and lose more.
    """
    decoders: tuple[StreamingDecoder | None, StreamingDecoder | None] = None, None
    operations, layers = TORCH_OPERATIONS, list[CudaLayer]()
    try:
        if placement.audio_device.type == "cuda" and torch.version.hip is None:
            operations = _layer_operations(placement, options)
            layers = cuda_layers(vocoder_layers(vocos), operations, placement.dtype)
        elif has_kernels:
            decoders = _native_decoders(decoder, dvae, vocos, placement, options)
    except BuildError:
        pass  # the engine has logged it
    except ConfigError as error:
        logger.warning("this checkpoint's sound is decoded whole, not in pieces: %s", error)
    if layers:
        decoders = _cuda_decoders(decoder, dvae, layers, operations, placement)
    return Synthesizer(decoder, vocos, decoders[0]), Synthesizer(dvae, vocos, decoders[1])


def _layer_operations(placement: Placement, options: EngineOptions) -> LayerOperations:
    """Return the operations of the layers on CUDA.

    They are kernels where these run, unless the caller lets rows depend on each other.
    """
    if options.batch_invariant is False or why_no_kernels(placement.audio_device) is not None:
        return TORCH_OPERATIONS
    return kernel_operations()


# Utterances in the launches of the Decoder and the DVAE that are captured at a load, for requests
# that come at once. Launches of all sizes take the same kernels, so none is compiled behind it.
_CAPTURED_FIRST = (1, 4, 16)


def _cuda_decoders(
    decoder: MelDecoder,
    dvae: DVAE,
    vocoder: Sequence[CudaLayer],
    operations: LayerOperations,
    placement: Placement,
) -> tuple[StreamingDecoder, StreamingDecoder]:
    """Return decoders of captured launches, of which those of some sizes are captured.

    Raises:
        ConfigError: the device has not enough memory.
    """
    advice = "leave more of it free, for example with a smaller kv_memory"
    capturers = [CudaGraphCapturer(placement.audio_device, advice=advice) for _ in range(2)]
    from_hiddens = CudaStreamingDecoder(
        decoder, vocoder, operations, capturers[0], dtype=placement.dtype
    )
    from_codes = CudaStreamingDecoder(dvae, vocoder, operations, capturers[1])
    for each in (from_hiddens, from_codes):
        each.warm_up(_CAPTURED_FIRST)
    logger.info(
        "captured %d launches of the audio decoders in %.1f s",
        sum(capturer.captures for capturer in capturers),
        sum(capturer.seconds for capturer in capturers),
    )
    return from_hiddens, from_codes


def _native_decoders(
    decoder: MelDecoder,
    dvae: DVAE,
    vocos: Vocoder,
    placement: Placement,
    options: EngineOptions,
) -> tuple[StreamingDecoder, StreamingDecoder]:
    """Return decoders on the CPU kernels, and put the modules on these kernels, too."""
    team = Team(options.num_threads or max(1, int(machine.usable_cores())))
    kind = "float32" if placement.dtype is torch.float32 else "bfloat16"
    accelerate(decoder, team, kind)
    accelerate(vocos, team, kind)
    accelerate(dvae, team, "float32")
    layers = PackedLayers(vocoder_layers(vocos), team)
    return (
        NativeStreamingDecoder(decoder, layers, team),
        NativeStreamingDecoder(dvae, layers, team),
    )
