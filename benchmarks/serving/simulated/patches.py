"""The places of the package that a simulated device takes; all others stay as they are.

Each patch ends the program if its place is gone, so that nothing else is measured by accident.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial, wraps
from typing import Any
from weakref import WeakKeyDictionary

from .device import Counters, SimulatedDevice, SimulatedEvent, SimulatedStream, event_query
from .steps import StepTimes

Put = Callable[[Any, str, Any], None]
"""Sets an attribute, as ``setattr`` does."""


def simulate(times: StepTimes, counters: Counters, put: Put = setattr) -> None:
    """Have models that are loaded on a CPU from now on take a GPU's path, on a simulated device.

    Args:
        times: of the device.
        counters: of its launches.
        put: sets the attributes; a test undoes what it sets.

    Raises:
        SystemExit: a place is gone, or Triton is not installed.
    """
    try:
        import triton  # noqa: F401  imported by the kernels, of which none is launched
    except ImportError as error:
        raise SystemExit("a simulated GPU needs Triton: pip install triton") from error
    from ChatTTS.loading import model as loading
    from ChatTTS.loading import synthesizers
    from ChatTTS.model import gpt
    from ChatTTS.model.cuda import failures, graphs
    from ChatTTS.model.cuda.driver import wait_by
    from ChatTTS.model.synthesis import cuda_decoder
    from ChatTTS.model.synthesis.cuda_decoder import CudaStreamingDecoder
    from ChatTTS.model.velocity.backends.cuda import decode_steps
    from ChatTTS.model.velocity.backends.cuda.text_attention import TextAttention
    from ChatTTS.model.velocity.configs import EngineArgs
    from ChatTTS.model.velocity.model_loader import ModelLoader
    from ChatTTS.pipeline.decode.worker import MAX_FRAMES_ON_GPU
    from ChatTTS.utils.fair_lock import NoLock

    from .graphs import DecoderWork, SimulatedCapturer

    replace = partial(_replace, put)
    device = SimulatedDevice(counters)
    engine, decoder = SimulatedStream(device), SimulatedStream(device)

    # Loading: what asks for the type of the device.
    replace(ModelLoader, "_team", lambda loader: None)
    replace(ModelLoader, "_has_triton", lambda *_: True)
    replace(gpt, "FairLock", NoLock)
    limits: Any = EngineArgs._limits
    on_gpu = property(lambda args: limits.fget(dataclasses.replace(args, device="cuda")))
    replace(EngineArgs, "_limits", on_gpu)
    replace(loading, "MAX_FRAMES", MAX_FRAMES_ON_GPU)
    replace(loading, "load_synthesizers", partial(_synthesizers, synthesizers))

    # Launches.
    def capturer(stream: SimulatedStream, *_: Any, **__: Any) -> SimulatedCapturer:
        return SimulatedCapturer(stream, times)

    replace(graphs, "CudaGraphCapturer", partial(capturer, engine))
    replace(synthesizers, "CudaGraphCapturer", partial(capturer, decoder))
    # Voices with alignment heads would get none.
    replace(TextAttention, "launch", lambda *_: None)
    work, hops = CudaStreamingDecoder._work, WeakKeyDictionary[CudaStreamingDecoder, int]()

    def decoder_work(own: CudaStreamingDecoder, metadata: Any, kept: Any) -> DecoderWork:
        chunk = metadata.shape[1] - cuda_decoder._COUNTS
        operators = work(own, metadata[:0], kept[:0])
        if own not in hops:
            hops[own] = operators().shape[2]
        return DecoderWork(decoder, times, len(metadata), chunk, operators, hops[own])

    replace(CudaStreamingDecoder, "_work", decoder_work)

    # Waiting, as the package waits for CUDA's events.
    driver_wait = wait_by(event_query(), 1)
    replace(failures, "driver_wait", lambda: driver_wait)

    def wait(event: SimulatedEvent) -> None:
        counters.add("waits")
        failures.wait_for(event, failures.patience())

    sample, launch = decode_steps.DecodeSteps.sample, CudaStreamingDecoder.launch

    @wraps(sample)
    def sample_step(*args: Any, **kwargs: Any) -> Callable[[], Any]:
        pending = sample(*args, **kwargs)
        done = engine.record_event()

        def result() -> Any:
            wait(done)
            return pending()

        return result

    @wraps(launch)
    def launch_decoder(*args: Any) -> Callable[[], Any]:
        pending = launch(*args)
        done = decoder.record_event()

        def samples() -> Any:
            wait(done)
            return pending()

        return samples

    replace(decode_steps.DecodeSteps, "sample", sample_step)
    replace(CudaStreamingDecoder, "launch", launch_decoder)


def simulate_model_process(put: Put = setattr) -> None:
    """Have the model's processes that are started from now on run on a simulated device.

    Args:
        put: sets the attribute.

    Raises:
        SystemExit: the place is gone.
    """
    from ChatTTS.serving.replicas.model_process import supervisor

    program = f"{__package__}.model_process"
    started = partial(supervisor.model_in_process, program=program)
    _replace(put, supervisor, "model_in_process", started)


def _replace(put: Put, owner: Any, name: str, new: Any) -> None:
    """Put ``new`` into the place of an attribute."""
    if name not in vars(owner):
        place = f"{owner.__name__}.{name}"
        raise SystemExit(f"{__name__} patches {place}, which is gone: patch what replaced it")
    put(owner, name, new)


def _synthesizers(
    module: Any, decoder: Any, dvae: Any, vocos: Any, placement: Any, *_: Any, **__: Any
) -> Any:
    """As ``load_synthesizers`` of ``ChatTTS.loading.synthesizers`` on CUDA."""
    # Operators run on the host for launches that are not captured, as those of torch.
    operations = module.TORCH_OPERATIONS
    layers = module.cuda_layers(module.vocoder_layers(vocos), operations, placement.dtype)
    decoders = module._cuda_decoders(decoder, dvae, layers, operations, placement)
    return tuple(
        module.Synthesizer(mel, vocos, each)
        for mel, each in zip((decoder, dvae), decoders, strict=True)
    )
