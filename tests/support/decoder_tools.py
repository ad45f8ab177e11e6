"""Streaming decoders of each backend, modules and frames for them, and ways to cut the frames."""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor

from ChatTTS.checkpoints.assets import AssetFolder
from ChatTTS.config import ConvNetConfig, MelConfig, VocosConfig
from ChatTTS.core import Chat
from ChatTTS.loading import load_model
from ChatTTS.model.cuda.graphs import GraphCapturer
from ChatTTS.model.devices.placement import choose_placement
from ChatTTS.model.dvae import DVAE, MelDecoder
from ChatTTS.model.generation import Cancellation
from ChatTTS.model.gpt import EngineOptions
from ChatTTS.model.synthesis.cpu_convnext import accelerate
from ChatTTS.model.synthesis.cpu_decoder import NativeStreamingDecoder
from ChatTTS.model.synthesis.cuda_decoder import CudaStreamingDecoder
from ChatTTS.model.synthesis.cuda_layers import cuda_layers
from ChatTTS.model.synthesis.launch_shapes import LaunchShapes
from ChatTTS.model.synthesis.layer_operations import (
    TORCH_OPERATIONS,
    LayerOperations,
    kernel_operations,
)
from ChatTTS.model.synthesis.layers import vocoder_layers
from ChatTTS.model.synthesis.streaming_decoder import DecoderInput, StreamingDecoder
from ChatTTS.model.synthesis.torch_decoder import TorchStreamingDecoder
from ChatTTS.model.synthesis.vocoder import Vocoder
from ChatTTS.pipeline.model import Model

from .capture_tools import new_capturer
from .chat_tools import TEXT, Recording, speak
from .kernel_tools import DEVICE
from .places import DATA
from .velocity_models import make_team

HOP = 256
LENGTHS = (1, 2, 3, 17, 40, 90)


# Small, so that a few frames already take several launches.
SHAPES = LaunchShapes(sizes=(1, 2, 4), chunks=(1, 3, 8), max_frames=24)


@cache
def small(name: str) -> Model:
    return load_model(
        AssetFolder(DATA / name, "custom"), choose_placement("cpu"), EngineOptions(use_vllm=False)
    )


def modules(use_decoder: bool, name: str = "model-a") -> tuple[MelDecoder, Vocoder]:
    model = small(name)
    return model.decoder if use_decoder else model.dvae, model.vocos


def random_modules(hop: int, overlap: int, mels: int, width: int) -> tuple[MelDecoder, Vocoder]:
    sizes = ConvNetConfig(idim=width - 1, odim=width - 3, hidden=width, n_layer=2, bn_dim=5)
    mel = MelConfig(n_fft=hop * overlap, hop_length=hop, n_mels=mels)
    config = VocosConfig(mel=mel, dim=width, intermediate_dim=2 * width + 1, num_layers=2)
    mel_decoder, vocoder = MelDecoder(sizes, mels), Vocoder(config)
    generator = torch.Generator().manual_seed(3)
    for parameter in [*mel_decoder.parameters(), *vocoder.parameters()]:
        spread = 0.3 if parameter.dim() == 1 else parameter[0].numel() ** -0.5
        parameter.data.normal_(0, spread, generator=generator)
    mel_decoder.coef.uniform_(0.5, 2, generator=generator)
    return mel_decoder.eval(), vocoder.eval()


def some_frames(mel_decoder: MelDecoder, count: int, seed: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if isinstance(mel_decoder, DVAE):
        return torch.randint(0, 625, (count, 4), generator=generator)
    return torch.randn(count, 2 * mel_decoder.config.idim, generator=generator)


@torch.inference_mode()
def by_torch(mel_decoder: MelDecoder, vocoder: Vocoder, frames: Tensor) -> Tensor:
    columns = frames.T.unsqueeze(0)
    samples: Tensor = vocoder(
        mel_decoder.decode(columns) if isinstance(mel_decoder, DVAE) else mel_decoder(columns)
    )
    return samples[0]


@cache
def little() -> tuple[MelDecoder, Vocoder]:
    """Small modules whose sizes fill no whole vector."""
    return random_modules(hop=10, overlap=4, mels=9, width=19)


def spoken_frames(chat: Chat, name: str, count: int = 60) -> Tensor:
    """Return ``ids`` or ``hiddens`` of ``count`` frames that the voice generates for a text."""
    return _spoken(chat, count)[name]


@cache
def _spoken(chat: Chat, count: int) -> dict[str, Tensor]:
    with Recording(chat) as seen:
        speak(chat, TEXT, min_new_token=count, max_new_token=count)
    steps = chat.gpt.generate(seen.requests[:1], Cancellation())
    deltas = [delta for step in steps for delta in step]
    return {name: torch.cat([getattr(d, name) for d in deltas]) for name in ("ids", "hiddens")}


# ---------------------------------------------------------------- decoders


kernel_team = cache(make_team)


def native_decoder(
    mel_decoder: MelDecoder, vocoder: Vocoder, kind: str = "float32", threads: int = 2
) -> NativeStreamingDecoder:
    """Make a decoder of copies of the modules on the CPU kernels."""
    team = kernel_team(threads)
    mel_decoder, vocoder = copy.deepcopy((mel_decoder, vocoder))
    accelerate(mel_decoder, team, kind)
    accelerate(vocoder, team, kind)
    return NativeStreamingDecoder(mel_decoder, vocoder, team)


def cuda_decoder(
    mel_decoder: MelDecoder,
    vocoder: Vocoder,
    capturer: GraphCapturer | None = None,
    dtype: torch.dtype = torch.float32,
    shapes: LaunchShapes | None = SHAPES,
    operations: LayerOperations | None = None,
) -> CudaStreamingDecoder:
    """Make a decoder of copies of the modules with captured launches, on a GPU if there is one.

    Args:
        operations: by default kernels on a GPU, and their references on a CPU.
    """
    if operations is None:
        operations = TORCH_OPERATIONS if DEVICE.type == "cpu" else kernel_operations()
    mel_decoder = copy.deepcopy(mel_decoder).to(DEVICE)
    vocoder = copy.deepcopy(vocoder).to(DEVICE)
    layers = cuda_layers(vocoder_layers(vocoder), operations, dtype)
    capturer = capturer or new_capturer(DEVICE)
    return CudaStreamingDecoder(
        mel_decoder, layers, operations, capturer, dtype=dtype, shapes=shapes
    )


def captured_decoder(mel_decoder: MelDecoder, vocoder: Vocoder) -> CudaStreamingDecoder:
    """Make a decoder some of whose launches are captured, as after a start."""
    decoder = cuda_decoder(mel_decoder, vocoder)
    decoder.warm_up(SHAPES.sizes[:2])
    return decoder


@dataclass(frozen=True)
class Backend:
    """One way to decode.

    Attributes:
        make: makes a decoder of modules, which it does not change.
        is_exact: whether no bit depends on the pieces or on the other utterances of a batch.
        is_float32: whether its samples equal those of the modules up to rounding.
    """

    make: Callable[[MelDecoder, Vocoder], StreamingDecoder]
    is_exact: bool = False
    is_float32: bool = True

    def assert_decodes(
        self,
        decoder: StreamingDecoder,
        modules: tuple[MelDecoder, Vocoder],
        frames: Tensor,
        samples: Tensor,
        tolerance: float = 2e-5,
    ) -> None:
        """Raise unless the samples are those of the frames."""
        if self.is_float32:
            expected = by_torch(*modules, frames)
            torch.testing.assert_close(samples, expected, rtol=0, atol=tolerance)
        if self.is_exact:
            assert torch.equal(samples, whole(decoder, frames))


# On a GPU these are the kernels, whose rows do not depend on each other.
ON_GPU = DEVICE.type == "cuda"

BACKENDS = {
    "torch": Backend(TorchStreamingDecoder),
    "native": Backend(native_decoder, is_exact=True),
    "native-bfloat16": Backend(partial(native_decoder, kind="bfloat16"), True, False),
    "cuda": Backend(captured_decoder, is_exact=ON_GPU),
    "cuda-default-shapes": Backend(partial(cuda_decoder, shapes=None), is_exact=ON_GPU),
}


# ---------------------------------------------------------------- ways to decode


def whole(decoder: StreamingDecoder, frames: Tensor) -> Tensor:
    return decoder.advance([DecoderInput(decoder.begin(), frames, last=True)])[0]


def streamed(
    decoder: StreamingDecoder, parts: Sequence[Tensor], reach: int, hop: int = HOP
) -> Tensor:
    """Return the joined samples; check that no sample with its whole context is held back."""
    state, samples, seen, given = decoder.begin(), [], 0, 0
    for number, part in enumerate(parts, 1):
        (piece,) = decoder.advance([DecoderInput(state, part, last=number == len(parts))])
        assert piece.dtype == torch.float32
        assert piece.device.type == "cpu"
        samples.append(piece)
        seen, given = seen + len(part), given + len(piece)
        if number < len(parts):
            assert given == max(0, 2 * seen - reach) * hop
    return torch.cat(samples)


def dice(seed: int, most: int) -> Iterator[int]:
    generator = random.Random(seed)
    while True:
        yield generator.randint(0, most)


def pieces(frames: Tensor, sizes: Iterator[int]) -> list[Tensor]:
    parts, at = [], 0
    while at < len(frames):
        parts.append(frames[at : at + next(sizes)])
        at += len(parts[-1])
    return parts


def in_company(
    decoder: StreamingDecoder, utterances: Sequence[Tensor], seed: int | str
) -> list[Tensor]:
    """Decode utterances in batches of random members; return the samples of each utterance."""
    generator = random.Random(seed)
    waiting = {number: pieces(frames, dice(number, 20)) for number, frames in enumerate(utterances)}
    states = [decoder.begin() for _ in utterances]
    samples: list[list[Tensor]] = [[] for _ in utterances]
    while waiting:
        chosen = generator.sample(sorted(waiting), generator.randint(1, len(waiting)))
        inputs = []
        for number in chosen:
            part = waiting[number].pop(0)
            inputs.append(DecoderInput(states[number], part, last=not waiting[number]))
            if not waiting[number]:
                del waiting[number]
        for number, piece in zip(chosen, decoder.advance(inputs), strict=True):
            samples[number].append(piece)
    return [torch.cat(parts) for parts in samples]


def copies_going_their_own_ways(
    decoder: StreamingDecoder, frames: Tensor
) -> list[tuple[Tensor, Tensor]]:
    """Return the samples of three copies of a state, and the frames that each one got.

    Args:
        frames: the 90 frames that the copies take parts of.
    """
    ways = [frames[:60], torch.cat([frames[:30], frames[80:]]), frames[:30]]
    state = decoder.begin()
    start = decoder.advance([DecoderInput(state, frames[:30])])[0]
    states = [state, state.copy(), state.copy()]
    samples: list[list[Tensor]] = [[start], [start], [start]]
    for step in range(30, 65, 5):  # by turns, so that an effect of one copy on another would show
        for way, own, out in zip(ways, states, samples, strict=True):
            if step <= len(way):
                part = way[step : step + 5]
                out += decoder.advance([DecoderInput(own, part, last=step + 5 > len(way))])
    return [(torch.cat(out), way) for out, way in zip(samples, ways, strict=True)]
