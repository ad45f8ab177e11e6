"""Frames to samples on one device: recorded passes over the next frames of many utterances.

A pass takes so many utterances and so many frames of each, few sizes of both, and is one launch.
Whoever has fewer frames in it goes on by those alone; whoever has more takes part in several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from ...errors import ChatTTSError
from ...utils.locks import new_lock
from ..chain import Push, check
from ..code_tables import CodeTables
from ..dvae import DVAE, MelDecoder
from .graphs import Recorder, Recording
from .passes import Pass, PassShapes
from .precision import ieee_float32
from .stages import Stage, mel_stages, reach

# The length of an utterance that has not ended.
_UNKNOWN = 2**62
# What a pass is told of each utterance before it is told where its frames are.
_ROWS = 3


class DeviceState:
    """What decoding one utterance has to remember; its size does not grow with the utterance.

    Attributes:
        chain: which it belongs to.
        kept: the rows of all stages that later outputs need again, float32 [n] on the device;
            ``None`` before the first frames and after the last. It is replaced, never changed, so
            copies share it.
        seen: frames so far.
        ended: whether the utterance has had its last frame.
    """

    def __init__(
        self, chain: DeviceChain, kept: Tensor | None = None, seen: int = 0, ended: bool = False
    ) -> None:
        self.chain, self.kept, self.seen, self.ended = chain, kept, seen, ended

    def copy(self) -> DeviceState:
        """A state that goes on from here by itself."""
        return DeviceState(self.chain, self.kept, self.seen, self.ended)

    @property
    def kept_bytes(self) -> int:
        """Memory of the rows that are kept."""
        return 0 if self.kept is None else self.kept.nbytes


class _Work:
    """What is left of a push. The state goes on when all of it is done.

    Args:
        push: whose work it is.
        frames: features [n, dim] that it brings, on the CPU or the device.
        flush: frames of zeros behind the last one that bring out all samples.

    Attributes:
        need: frames to go on by, with the zeros behind the last one.
        length: rows of the whole utterance, two for each frame, where it is known.
        seen: frames that the state has gone on by, those of the push among them.
        kept: see :class:`DeviceState`.
        hops: [m, hop] of each pass so far, on the host; the device may still have to write them.
    """

    def __init__(self, push: Push, frames: Tensor, flush: int) -> None:
        state: DeviceState = push.state
        total = state.seen + len(frames)
        self._push, self._frames, self._done = push, frames, 0
        self.length = 2 * total if push.last else _UNKNOWN
        self.need = len(frames) + (flush if push.last and total else 0)
        self.seen, self.kept = state.seen, state.kept
        self.hops: list[Tensor] = []

    def frames(self, count: int) -> Tensor:
        """Of the next so many frames those that are not zeros behind the last one."""
        return self._frames[self._done : self._done + count]

    def go_on(self, count: int) -> None:
        """So many frames are done."""
        self._done += count
        self.seen += count

    @property
    def is_needed(self) -> bool:
        """Whether what is kept will be read again."""
        return not self._push.last or self._done < self.need

    def finish(self) -> None:
        """Let the state go on by the whole push."""
        state = self._push.state
        state.kept = None if self._push.last else self.kept
        state.seen, state.ended = self.seen, self._push.last


class DeviceChain:
    """The ``Chain`` of recorded passes; see ``model/chain.py``.

    Calls wait for each other. They work on the calling thread's current stream, and frames on the
    device must be there for it.

    Args:
        mel_decoder: the Decoder or the DVAE, whose device is used.
        vocoder: from :func:`~.stages.vocoder_stages`; two chains may share them.
        recorder: of passes; nobody else may use it.
        dtype: of the perceptrons in the mel decoder's blocks; all else is float32.
        shapes: of passes; by default :class:`PassShapes`.
    """

    exact = False

    def __init__(
        self,
        mel_decoder: MelDecoder,
        vocoder: Sequence[Stage],
        recorder: Recorder,
        *,
        dtype: torch.dtype = torch.float32,
        shapes: PassShapes | None = None,
    ) -> None:
        self._stages = [*mel_stages(mel_decoder, dtype), *vocoder]
        self._recorder, self._shapes = recorder, shapes or PassShapes()
        self._reach = reach(self._stages)
        self._device = device = mel_decoder.coef.device
        self._tables = CodeTables(mel_decoder.vq_layer) if isinstance(mel_decoder, DVAE) else None
        # The halves of a frame's features are two rows, one after the other.
        self._features = 2 * self._stages[0].channels
        self._width = self._features if self._tables is None else self._tables.num_codebooks
        # What all passes have in common: the frames, behind one of zeros, and the kept rows.
        kept = sum(stage.kept for stage in self._stages)
        self._frames = torch.zeros(self._shapes.most_frames + 1, self._features, device=device)
        self._kept = torch.zeros(self._shapes.sizes[-1], kept, device=device)
        self._nothing = torch.zeros(kept, device=device)
        delays = [reach(self._stages[:index]) for index in range(len(self._stages))]
        self._delays = torch.tensor(delays, device=device).unsqueeze(1)
        # Recorded passes know where all of this lies, so it lives as long as they do.
        self._history = max(stage.span for stage in self._stages) - 1
        self._ticks = torch.arange(-self._history, 2 * self._shapes.chunks[-1], device=device)
        self._passes: dict[tuple[int, int], _RecordedPass] = {}
        self._lock = new_lock()

    def begin(self) -> DeviceState:
        """The state of an utterance of which nothing is known yet."""
        return DeviceState(self)

    def warm_up(self, sizes: Sequence[int] = (1,)) -> None:
        """Record the passes of so many utterances, of all lengths, so that no push waits for it.

        Raises:
            ConfigError: the device has not enough memory.
        """
        with self._lock:
            for size, chunk in product(sizes, self._shapes.chunks):
                for planned in self._shapes.plan([chunk] * size):
                    self._recorded(planned)

    @torch.inference_mode()
    def advance(self, pushes: Sequence[Push]) -> list[Tensor]:
        """For each push the samples [m] that became final, float32 on the CPU, often none.

        Raises:
            ChatTTSError: an utterance has ended already, a state is in two pushes or belongs to
                another chain, or frames have another width; no state has changed then.
            ConfigError: a pass cannot be recorded for want of memory; the same.
        """
        check(pushes)
        if any(push.state.chain is not self for push in pushes):
            raise ChatTTSError("this state belongs to another chain: begin one here")
        # The last place has no samples: one row less than the reach brings all others out.
        works = [_Work(push, self._features_of(push), self._reach // 2) for push in pushes]
        with self._lock:
            plan = list(self._shapes.plan([work.need for work in works]))
            recorded = [self._recorded(planned) for planned in plan]  # before there is anything
            for planned, own in zip(plan, recorded, strict=True):
                members = [(works[number], count) for number, count in planned.counts.items()]
                self._run(own, members)
            if plan and self._device.type == "cuda":
                torch.cuda.current_stream(self._device).synchronize()
        for work in works:
            work.finish()
        silence = torch.empty(0, dtype=torch.float32, device="cpu")
        return [torch.cat([silence, *(hops.flatten() for hops in w.hops)]) for w in works]

    def _features_of(self, push: Push) -> Tensor:
        """Its frames as float32 features [n, dim], where they are; those of codes on the CPU."""
        if push.frames is None:
            return torch.empty(0, self._features, device="cpu")
        if push.frames.dim() != 2 or push.frames.shape[1] != self._width:
            raise ChatTTSError(
                f"this chain takes frames [n, {self._width}], not {list(push.frames.shape)}"
            )
        frames = push.frames.detach()
        return frames.float() if self._tables is None else self._tables(frames.cpu())

    def _run(self, recorded: _RecordedPass, members: Sequence[tuple[_Work, int]]) -> None:
        """One pass of so many frames of each: states and frames in, samples and states out.

        Nothing here waits for the device.
        """
        pieces = [work.frames(count) for work, count in members]
        told = np.zeros(recorded.told.shape, dtype=np.int64)
        row = 1
        for place, ((work, count), piece) in enumerate(zip(members, pieces, strict=True)):
            told[place, :_ROWS] = 2 * work.seen, work.length, 2 * count
            told[place, _ROWS : _ROWS + len(piece)] = range(row, row + len(piece))
            row += len(piece)
        self._send(torch.from_numpy(told), recorded.told)
        if row > 1:  # else all are at their ends
            if any(piece.device.type != "cpu" for piece in pieces):
                pieces = [piece.to(self._device) for piece in pieces]
            self._send(torch.cat(pieces), self._frames[1:row])
        kept = [self._nothing if work.kept is None else work.kept for work, _ in members]
        torch.stack(kept, out=self._kept[: len(members)])
        recorded.recording.replay()
        hops = self._fetch(recorded.recording.result[: len(members)])
        for (work, count), own in zip(members, hops, strict=True):
            # The place of the first hop, and those that are there: one less than rows.
            place = 2 * work.seen - self._reach
            work.hops.append(own[max(0, -place) : max(0, min(2 * count, work.length - 1 - place))])
            work.go_on(count)
        going = [place for place, (work, _) in enumerate(members) if work.is_needed]
        fresh = [torch.empty_like(self._nothing) for _ in going]
        if going:
            torch._foreach_copy_(fresh, [self._kept[place] for place in going])
        for place, tensor in zip(going, fresh, strict=True):
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

    def _recorded(self, planned: Pass) -> _RecordedPass:
        """The recording of a pass of this size; made now if there is none."""
        size, chunk = planned.size, planned.chunk
        if (size, chunk) not in self._passes:
            told = torch.zeros(size, _ROWS + chunk, dtype=torch.int64, device=self._device)
            with ieee_float32():
                recording = self._recorder.record(self._pass(told))
            self._passes[size, chunk] = _RecordedPass(told, recording)
        return self._passes[size, chunk]

    def _pass(self, told: Tensor) -> Callable[[], Tensor]:
        """What a pass does: hops [B, T, hop] from what it is told, the frames and the kept rows,
        which it replaces."""
        size, rows, history = len(told), 2 * (told.shape[1] - _ROWS), self._history
        ticks = self._ticks[: history + rows]

        def work() -> Tensor:
            seen, length, count = told[:, :_ROWS, None].unbind(1)  # [B, 1]
            # Which rows of a window are kept: whoever goes on by fewer frames keeps earlier ones.
            kept_rows = count + ticks[:history] + history  # [B, history]
            places = (seen + ticks).unsqueeze(1) - self._delays  # [B, stages, history + T]
            there = ((places >= 0) & (places < length.unsqueeze(1))).float().unsqueeze(3)
            x = self._frames[told[:, _ROWS:]].unflatten(2, (2, -1)).flatten(1, 2)
            at = 0
            for index, stage in enumerate(self._stages):
                before, channels = stage.span - 1, stage.channels
                kept = self._kept[:size, at : at + stage.kept].unflatten(1, (before, channels))
                at += stage.kept
                window = torch.cat([kept, x], 1)
                moved = kept_rows[:, :before, None].expand(-1, -1, channels)
                torch.gather(window, 1, moved, out=kept)
                x = stage.layer(window, there[:, index, history - before :])
            return x

        return work


@dataclass(frozen=True)
class _RecordedPass:
    """A recording, and where it is told of each utterance: int64 [B, 3 + chunk].

    These are the rows that it has seen, those that it has in all, those that it goes on by, and
    where its frames are.
    """

    told: Tensor
    recording: Recording[Tensor]
