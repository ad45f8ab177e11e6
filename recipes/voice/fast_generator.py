"""The last part of the teacher's network in torch: frames with a pitch to samples.

Rows of a batch differ in length. What lies past the end of a row is zero wherever a convolution or
a mean reads it, so a row comes out as it would alone. The model of the packages has no noise in its
source of sines, and neither has this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from .units import SAMPLE_RATE

STYLE = 128
HIDDEN = 512
EPSILON = 1e-5
_CHANNELS = (256, 128)
_RATES = (10, 6)
_KERNELS, _DILATIONS = (3, 7, 11), (1, 3, 5)
_FFT, _HOP = 20, 5
_BINS = _FFT // 2 + 1
_PITCHED = 300  # samples of a value of the pitch
_HARMONICS, _LOUDNESS, _VOICED = 9, 0.1, 10.0

Snake = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Extent:
    """The lengths of the rows of a batch, on the device, with the shortest and the longest."""

    lengths: Tensor
    shortest: int
    longest: int

    @classmethod
    def of(cls, lengths: Tensor, device: torch.device) -> Extent:
        """Return the extent of rows whose lengths are known on the CPU."""
        return cls(lengths.to(device), int(lengths.min()), int(lengths.max()))

    def times(self, factor: int, more: int = 0) -> Extent:
        """Return the extent of rows that are so many times as long, and a little longer."""
        return Extent(
            self.lengths * factor + more,
            self.shortest * factor + more,
            self.longest * factor + more,
        )

    @property
    def counts(self) -> Tensor:
        """The lengths as float32 [rows, 1, 1]."""
        return self.lengths[:, None, None].float()

    @property
    def inside(self) -> Tensor:
        """Whether a place is within its row, [rows, longest]."""
        places = torch.arange(self.longest, device=self.lengths.device)
        return places < self.lengths[:, None]

    def clear(self, values: Tensor) -> Tensor:
        """Set values [rows, n, longest] to zero past the ends, in place, and return them."""
        if self.shortest < self.longest:
            past = ~self.inside[:, None, self.shortest :]
            values[..., self.shortest :].masked_fill_(past, 0.0)
        return values


def snake(values: Tensor, scale: Tensor, shift: Tensor, alpha: Tensor) -> Tensor:
    """Return values, scaled and shifted, with a squared sine of them added."""
    moved = torch.addcmul(shift, values, scale)
    return torch.addcdiv(moved, torch.sin(alpha * moved).square_(), alpha)


class Norm(nn.Module):
    """The scale and the shift [rows, n, 1] that norm each channel of a row and then style it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(STYLE, 2 * channels)

    def forward(self, values: Tensor, style: Tensor, extent: Extent) -> tuple[Tensor, Tensor]:
        single = torch.float32
        mean = values.sum(-1, keepdim=True, dtype=single) / extent.counts
        power = torch.linalg.vector_norm(values, dim=-1, keepdim=True, dtype=single).square()
        variance = (power / extent.counts - mean.square()).clamp_min(0.0)
        gamma, beta = self.fc(style).float()[..., None].chunk(2, 1)
        scale = (1 + gamma) * torch.rsqrt(variance + EPSILON)
        return scale.to(values.dtype), (beta - mean * scale).to(values.dtype)


class Residual(nn.Module):
    """Three pairs of convolutions, each beside a shortcut."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.convs1, self.convs2 = (
            nn.ModuleList(
                nn.Conv1d(channels, channels, kernel, dilation=d, padding=(kernel - 1) * d // 2)
                for d in dilations
            )
            for dilations in (_DILATIONS, [1] * len(_DILATIONS))
        )
        self.adain1, self.adain2 = (
            nn.ModuleList(Norm(channels) for _ in _DILATIONS) for _ in range(2)
        )
        self.alpha1, self.alpha2 = (
            nn.ParameterList(torch.empty(1, channels, 1) for _ in _DILATIONS) for _ in range(2)
        )

    def forward(self, values: Tensor, style: Tensor, extent: Extent, snake: Snake) -> Tensor:
        first = zip(self.adain1, self.alpha1, self.convs1, strict=True)
        second = zip(self.adain2, self.alpha2, self.convs2, strict=True)
        for pair in zip(first, second, strict=True):
            inner = values
            for norm, alpha, conv in pair:
                scale, shift = norm(inner, style, extent)
                inner = snake(inner, scale, shift, alpha)
                inner = extent.clear(conv(extent.clear(inner)))
            values = values + inner
        return values


class Source(nn.Module):
    """Harmonics of the pitch, as magnitudes and phases of short pieces."""

    basis: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.l_linear = nn.Linear(_HARMONICS, 1)
        self.register_buffer("basis", _waves().T.float(), persistent=False)

    def forward(self, pitch: Tensor, extent: Extent) -> Tensor:
        """Return magnitudes and phases [rows, 22, 60 longest + 1].

        Args:
            pitch: [rows, 1, longest].
            extent: of the pitch.
        """
        orders = torch.arange(1, _HARMONICS + 1, device=pitch.device)[:, None]
        # Turns add up to thousands: float32 would leave a noise of some hundredths of a radian.
        turns = (pitch.double() * orders / SAMPLE_RATE).cumsum(-1) * _PITCHED
        turns = F.interpolate(turns, scale_factor=float(_PITCHED), mode="linear") % 1.0
        voiced = (pitch > _VOICED).float().repeat_interleave(_PITCHED, -1)
        waves = torch.sin(2 * torch.pi * turns.float()) * (_LOUDNESS * voiced)
        mixed = torch.einsum("bht,h->bt", waves, self.l_linear.weight[0]) + self.l_linear.bias
        return self._pieces(torch.tanh(mixed), extent.times(_PITCHED))

    def _pieces(self, samples: Tensor, extent: Extent) -> Tensor:
        margin = _FFT // 2
        places = torch.arange(-margin, extent.longest + margin, device=samples.device).abs()
        last = extent.lengths[:, None] - 1
        mirrored = torch.where(places > last, 2 * last - places, places).clamp_min(0)
        pieces = samples.gather(1, mirrored).unfold(1, _FFT, _HOP) @ self.basis
        real, imaginary = pieces.mT.chunk(2, 1)
        phases = torch.atan2(imaginary, real)
        # Both ends of a spectrum are real; the sign of the zero beside them is chance.
        phases[:, :: _BINS - 1] = (real[:, :: _BINS - 1] < 0) * torch.pi
        pieces = torch.cat([torch.hypot(real, imaginary), phases], 1)
        return extent_of_pieces(extent).clear(pieces)


def extent_of_pieces(samples: Extent) -> Extent:
    """Return the extent of the short pieces of rows of samples."""
    return Extent(
        samples.lengths // _HOP + 1, samples.shortest // _HOP + 1, samples.longest // _HOP + 1
    )


class Generator(nn.Module):
    basis: Tensor

    def __init__(self, snake: Snake) -> None:
        super().__init__()
        self._snake = snake
        inputs = (HIDDEN, _CHANNELS[0])
        self.m_source = Source()
        self.noise_convs = nn.ModuleList(
            [
                nn.Conv1d(
                    2 * _BINS, _CHANNELS[0], 2 * _RATES[1], _RATES[1], padding=(_RATES[1] + 1) // 2
                ),
                nn.Conv1d(2 * _BINS, _CHANNELS[1], 1),
            ]
        )
        self.noise_res = nn.ModuleList([Residual(_CHANNELS[0], 7), Residual(_CHANNELS[1], 11)])
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(i, o, 2 * rate, rate, padding=rate // 2)
            for i, o, rate in zip(inputs, _CHANNELS, _RATES, strict=True)
        )
        self.resblocks = nn.ModuleList(Residual(c, k) for c in _CHANNELS for k in _KERNELS)
        self.conv_post = nn.Conv1d(_CHANNELS[1], 2 * _BINS, 7, padding=3)
        self.register_buffer("basis", _inverse_basis(), persistent=False)

    def forward(self, values: Tensor, style: Tensor, pitch: Tensor, extent: Extent) -> Tensor:
        source = self.m_source(pitch, extent).to(values.dtype)
        extents = [extent.times(_RATES[0]), extent.times(_RATES[0] * _RATES[1], 1)]
        for stage, here in enumerate(extents):
            beside = here.clear(self.noise_convs[stage](source))
            beside = self.noise_res[stage](beside, style, here, self._snake)
            values = self.ups[stage](F.leaky_relu_(values, 0.1))
            if stage:
                values = torch.cat([values[..., 1:2], values], -1)
            values = here.clear(values).add_(beside)
            blocks = self.resblocks[stage * len(_KERNELS) : (stage + 1) * len(_KERNELS)]
            summed = blocks[0](values, style, here, self._snake)
            for block in blocks[1:]:
                summed.add_(block(values, style, here, self._snake))
            values = summed.div_(len(_KERNELS))
        return self._samples(self.conv_post(F.leaky_relu_(values, 0.01)).float(), extents[1])

    def _samples(self, pieces: Tensor, extent: Extent) -> Tensor:
        """Return the samples of magnitudes, as logarithms, and of sines of phases."""
        magnitudes, phases = pieces[:, :_BINS].exp(), pieces[:, _BINS:].sin()
        parts = torch.cat([magnitudes * phases.cos(), magnitudes * phases.sin()], 1)
        pieces = extent.clear(parts).mT @ self.basis
        # Pieces overlap: each gives its first samples where the piece before gave its second ones.
        shifted = [
            F.pad(part, (0, 0, shift, _FFT // _HOP - 1 - shift))
            for shift, part in enumerate(pieces.split(_HOP, -1))
        ]
        return torch.stack(shifted).sum(0).flatten(1)[:, _FFT // 2 : -(_FFT // 2)]


def _waves() -> Tensor:
    """Return a piece of each real and imaginary part of a spectrum, faded, float64 [22, 20]."""
    bins, places = torch.arange(_BINS).double(), torch.arange(_FFT).double()
    angles = 2 * torch.pi / _FFT * torch.outer(bins, places)
    waves = torch.cat([angles.cos(), -angles.sin()])
    return waves * torch.hann_window(_FFT, dtype=torch.float64)


def _inverse_basis() -> Tensor:
    """Return the samples of each real and imaginary part of a piece, [22, 20]."""
    counted = torch.full((_BINS, 1), 2.0 / _FFT, dtype=torch.float64)
    counted[:: _BINS - 1] /= 2  # both ends of a spectrum count once
    return (torch.cat([counted, counted]) * _waves()).float()
