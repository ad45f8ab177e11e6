"""Frames to samples on one device: captured launches over the next frames of many utterances.

A launch has room for a few utterances and a few frames of each, in one of few shapes. An utterance
with fewer frames moves on by those alone; one with more takes part in several launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ...utils.locks import new_lock
from ..cuda.failures import patience, wait_for
from ..cuda.graphs import CapturedGraph, GraphCapturer
from ..devices.tf32 import ieee_float32
from ..dvae import MelDecoder
from .code_tables import FrameFeatures
from .cuda_layers import CudaLayer, cuda_layers, total_delay
from .launch_shapes import LaunchShapes
from .layer_operations import LayerOperations
from .layers import mel_layers
from .streaming_decoder import DecoderInput, DecoderState, StreamingDecoder, check_inputs

# The length of an utterance that has not ended.
_UNKNOWN = 2**62
# Columns of a launch's metadata before those that say where the frames are.
_COUNTS = 3


class _PendingInput:
    """The part of an input that is not decoded yet. Its state changes when all of it is decoded.

    Args:
        given: the input.
        frames: its features [n, dim], on the CPU or the device.
        flush: frames of zeros behind the last one that bring out all samples.

    Attributes:
        need: frames to decode, with the zeros behind the last one.
        length: rows of the whole utterance, two for each frame, where it is known.
        seen: frames of the utterance that are decoded, those of this input among them.
        kept: the rows of all layers that later outputs need again, float32 [n] on the device;
            ``None`` before the first frames.
        hops: [m, hop] of each launch so far, on the host. The device may still have to write them.
    """

    def __init__(self, given: DecoderInput, frames: Tensor, flush: int) -> None:
        state = given.state
        total = state.seen + len(frames)
        self._given, self._frames, self._done = given, frames, 0
        self.length = 2 * total if given.last else _UNKNOWN
        self.need = len(frames) + (flush if given.last and total else 0)
        self.seen, self.kept = state.seen, next(iter(state.kept), None)
        self.hops: list[Tensor] = []

    def frames(self, count: int) -> Tensor:
        """Return the next ``count`` frames, without the zeros behind the last one."""
        return self._frames[self._done : self._done + count]

    def move_on(self, count: int) -> None:
        """Note that ``count`` more frames are decoded."""
        self._done += count
        self.seen += count

    @property
    def is_needed(self) -> bool:
        """Return whether the kept state will be read again."""
        return not self._given.last or self._done < self.need

    def finish(self) -> None:
        """Put the state behind the whole input."""
        state = self._given.state
        state.kept = () if self._given.last else (self.kept,)
        state.seen, state.ended = self.seen, self._given.last


class CudaStreamingDecoder(StreamingDecoder):
    """The streaming decoder of captured launches; see ``streaming_decoder.py``.

    One call at a time launches. Calls work on the calling thread's current stream, behind the
    launches of other streams, and frames on the device must be there for it.

    Args:
        mel_decoder: the Decoder or the DVAE, whose device is used.
        vocoder: from :func:`~.cuda_layers.cuda_layers`; two decoders may share them.
        operations: that the layers are computed with, those of the vocoder as well.
        capturer: of launches, for this decoder alone.
        dtype: of the products in the mel decoder's blocks; all else is float32.
        shapes: of launches; by default :class:`LaunchShapes`.
    """

    by_launches = True

    def __init__(
        self,
        mel_decoder: MelDecoder,
        vocoder: Sequence[CudaLayer],
        operations: LayerOperations,
        capturer: GraphCapturer,
        *,
        dtype: torch.dtype = torch.float32,
        shapes: LaunchShapes | None = None,
    ) -> None:
        self._layers = [*cuda_layers(mel_layers(mel_decoder), operations, dtype), *vocoder]
        self.exact = operations.exact
        self._capturer, self._shapes = capturer, shapes or LaunchShapes()
        self._delay = total_delay(self._layers)
        self._device = device = mel_decoder.coef.device
        self._features = FrameFeatures(mel_decoder, 2 * self._layers[0].channels)
        # What all launches have in common: the frames, behind one of zeros, and the kept rows.
        kept = sum(layer.kept for layer in self._layers)
        frames = self._shapes.max_frames + 1
        self._frames = torch.zeros(frames, self._features.channels, device=device)
        self._kept = torch.zeros(self._shapes.sizes[-1], kept, device=device)
        self._nothing = torch.zeros(kept, device=device)
        delays = [total_delay(self._layers[:index]) for index in range(len(self._layers))]
        self._delays = torch.tensor(delays, device=device).unsqueeze(1)
        # Captured launches know where all of this lies, so it lives as long as they do.
        self._history = max(layer.span for layer in self._layers) - 1
        self._ticks = torch.arange(-self._history, 2 * self._shapes.chunks[-1], device=device)
        self._launches: dict[tuple[int, int], _Launch] = {}
        self._last: torch.cuda.Event | None = None  # behind the latest launch
        self._patience = patience()
        self._lock = new_lock()

    def begin(self) -> DecoderState:
        """Return the state of an utterance that has had no frame yet."""
        return DecoderState(self)

    def warm_up(self, sizes: Sequence[int] = (1,)) -> None:
        """Capture the launches of each of these sizes of the shapes, of all chunks.

        Launches that are not captured yet are done operator by operator, to the same samples.

        Raises:
            ConfigError: the device has not enough memory.
        """
        with self._lock:
            # The largest first: the others fit into its memory.
            for size, chunk in reversed(self._missing()):
                if size in sizes:
                    self._capture(self._metadata(size, chunk), warm_up=None)

    @property
    def left(self) -> int:
        """The number of launches that are not captured yet."""
        return len(self._missing())

    def capture_next(self) -> bool:
        """Capture one launch that is not captured yet; return False where all are.

        Other threads may call :meth:`advance` meanwhile. One thread may call this at a time.

        Raises:
            ConfigError: the device has not enough memory.
        """
        if not (missing := self._missing()):
            return False
        metadata = self._metadata(*missing[0])
        spare = torch.zeros_like(self._kept[: len(metadata)])
        self._capture(metadata, warm_up=self._work(metadata, spare))
        return True

    def advance(self, inputs: Sequence[DecoderInput]) -> list[Tensor]:
        """See :meth:`~ChatTTS.model.synthesis.streaming_decoder.StreamingDecoder.advance`.

        Raises:
            ChatTTSError: frames have another width, too.
            DeviceLostError: the GPU does not answer.
        """
        return self.launch(inputs)()

    @torch.inference_mode()
    def launch(self, inputs: Sequence[DecoderInput]) -> Callable[[], list[Tensor]]:
        """Launch what :meth:`advance` does; return what waits for it, and raises its errors."""
        check_inputs(self, inputs)
        # The last place has no samples: one row less than the delay brings all others out.
        flush = self._delay // 2
        pending = [_PendingInput(given, self._features(given.frames), flush) for given in inputs]
        done: torch.cuda.Event | None = None
        with self._lock:
            stream = self._stream_behind_last()
            plan = list(self._shapes.plan([each.need for each in pending]))
            for launch in plan:
                members = [(pending[number], count) for number, count in launch.counts.items()]
                self._run(self._launch(launch.size, launch.chunk), members)
            if plan and stream is not None:
                done = self._last = stream.record_event()
        for each in pending:
            each.finish()
        return partial(self._samples, pending, done)

    def _stream_behind_last(self) -> torch.cuda.Stream | None:
        """Return the current stream of CUDA, behind the last launch, whose memory is used again."""
        if self._device.type != "cuda":
            return None
        stream = torch.cuda.current_stream(self._device)
        if self._last is not None:
            stream.wait_event(self._last)
        return stream

    @torch.inference_mode()
    def _samples(
        self, pending: Sequence[_PendingInput], done: torch.cuda.Event | None
    ) -> list[Tensor]:
        """Wait for launches, and return the samples of their inputs."""
        if done is not None:
            wait_for(done, self._patience)
        silence = torch.empty(0, dtype=torch.float32, device="cpu")
        return [torch.cat([silence, *(hops.flatten() for hops in p.hops)]) for p in pending]

    def _run(self, captured: _Launch, members: Sequence[tuple[_PendingInput, int]]) -> None:
        """Run a launch over some frames of each member: states and frames in, samples and
        states out.

        Nothing here waits for the device.
        """
        pieces = [pending.frames(count) for pending, count in members]
        metadata = np.zeros(captured.metadata.shape, dtype=np.int64)
        row = 1
        for place, ((pending, count), piece) in enumerate(zip(members, pieces, strict=True)):
            metadata[place, :_COUNTS] = 2 * pending.seen, pending.length, 2 * count
            metadata[place, _COUNTS : _COUNTS + len(piece)] = range(row, row + len(piece))
            row += len(piece)
        self._send(torch.from_numpy(metadata), captured.metadata)
        if row > 1:  # else all are at their ends
            if any(piece.device.type != "cpu" for piece in pieces):
                pieces = [piece.to(self._device) for piece in pieces]
            self._send(torch.cat(pieces), self._frames[1:row])
        kept = [self._nothing if pending.kept is None else pending.kept for pending, _ in members]
        torch.stack(kept, out=self._kept[: len(members)])
        captured.graph.replay()
        hops = self._fetch(captured.graph.result[: len(members)])
        for (pending, count), own in zip(members, hops, strict=True):
            # The place of the first hop, and those that are there: one less than rows.
            place = 2 * pending.seen - self._delay
            end = min(2 * count, pending.length - 1 - place)
            pending.hops.append(own[max(0, -place) : max(0, end)])
            pending.move_on(count)
        needed = [place for place, (pending, _) in enumerate(members) if pending.is_needed]
        fresh = [torch.empty_like(self._nothing) for _ in needed]
        if needed:
            torch._foreach_copy_(fresh, [self._kept[place] for place in needed])
        for place, tensor in zip(needed, fresh, strict=True):
            members[place][0].kept = tensor

    def _send(self, source: Tensor, target: Tensor) -> None:
        """Copy to the device, without waiting."""
        if target.device.type == "cuda" and source.device.type == "cpu":
            source = source.pin_memory()
        target.copy_(source, non_blocking=True)

    def _fetch(self, source: Tensor) -> Tensor:
        """Copy to the host, without waiting."""
        pinned = source.device.type == "cuda"
        target = torch.empty(source.shape, dtype=source.dtype, device="cpu", pin_memory=pinned)
        return target.copy_(source, non_blocking=True)

    def _missing(self) -> list[tuple[int, int]]:
        """Return the shapes that are not captured yet; those of the fewest frames first."""
        return [pair for pair in self._shapes.pairs if pair not in self._launches]

    def _capture(self, metadata: Tensor, warm_up: Callable[[], Tensor] | None) -> None:
        """Capture the launch that has this metadata."""
        size, chunk = len(metadata), metadata.shape[1] - _COUNTS
        with ieee_float32():
            graph = self._capturer.capture(self._work(metadata, self._kept[:size]), warm_up)
        self._launches[size, chunk] = _Launch(metadata, graph)

    def _launch(self, size: int, chunk: int) -> _Launch:
        """Return the captured launch of a shape, or one that is done operator by operator."""
        if (captured := self._launches.get((size, chunk))) is not None:
            return captured
        metadata = self._metadata(size, chunk)
        return _Launch(metadata, _Uncaptured(self._work(metadata, self._kept[:size])))

    def _metadata(self, size: int, chunk: int) -> Tensor:
        return torch.zeros(size, _COUNTS + chunk, dtype=torch.int64, device=self._device)

    def _work(self, metadata: Tensor, all_kept: Tensor) -> Callable[[], Tensor]:
        """Return what a launch does: hops [B, T, hop] from its metadata, the frames and the rows
        ``all_kept`` [B, n] of all layers, which it replaces."""
        rows, history = 2 * (metadata.shape[1] - _COUNTS), self._history
        ticks = self._ticks[: history + rows]

        def work() -> Tensor:
            seen, length, count = metadata[:, :_COUNTS, None].unbind(1)  # [B, 1]
            # Rows of a window to keep: an utterance with fewer new frames keeps earlier rows.
            kept_rows = count + ticks[:history] + history  # [B, history]
            places = (seen + ticks).unsqueeze(1) - self._delays  # [B, layers, history + T]
            there = ((places >= 0) & (places < length.unsqueeze(1))).float().unsqueeze(3)
            x: Tensor = self._frames[metadata[:, _COUNTS:]].unflatten(2, (2, -1)).flatten(1, 2)
            at = 0
            for index, layer in enumerate(self._layers):
                before, channels = layer.span - 1, layer.channels
                kept = all_kept[:, at : at + layer.kept].unflatten(1, (before, channels))
                at += layer.kept
                window = torch.cat([kept, x], 1)
                moved = kept_rows[:, :before, None].expand(-1, -1, channels)
                torch.gather(window, 1, moved, out=kept)
                x = layer.compute(window, there[:, index, history - before :])
            return x

        return work


class _Uncaptured:
    """Work that is done anew each time, in the place of a graph.

    Attributes:
        result: of the latest replay.
    """

    result: Tensor

    def __init__(self, work: Callable[[], Tensor]) -> None:
        self._work = work

    def replay(self) -> None:
        """Do the work."""
        with ieee_float32():
            self.result = self._work()


@dataclass(frozen=True)
class _Launch:
    """A graph, or what stands for it, and its metadata, int64 [B, 3 + chunk].

    For each utterance these are its rows so far, the rows of the whole utterance, the rows that it
    moves on by, and where its frames are.
    """

    metadata: Tensor
    graph: CapturedGraph[Tensor]
