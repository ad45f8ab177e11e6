"""The teacher's network in torch, for lines together: Kokoro-82M (Hexgrad, 2025), on StyleTTS 2.

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
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .units import SAMPLE_RATE

_STYLE = 128
_HIDDEN, _WIDE, _CHANNELS, _SKIP = 512, 1024, (256, 128), 64
_EMBEDDED, _ALBERT, _HEADS, _FEED, _LAYERS = 128, 768, 12, 2048, 12
_SYMBOLS, _PLACES, _LONGEST = 178, 512, 50
_LSTM = _HIDDEN // 2
_RATES = (10, 6)
_KERNELS, _DILATIONS = (3, 7, 11), (1, 3, 5)
_FFT, _HOP = 20, 5
_BINS = _FFT // 2 + 1
_PITCHED = 300  # samples of a value of the pitch
_HARMONICS, _LOUDNESS, _VOICED = 9, 0.1, 10.0
_EPSILON = 1e-5

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


class _Lstm(nn.LSTM):
    """Reads rows [rows, longest, n] in both directions, each to its own end."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs, _LSTM, batch_first=True, bidirectional=True)

    def read(self, values: Tensor, lengths: Tensor) -> Tensor:
        """Return what it says of each place; lengths are on the CPU, the longest first."""
        packed, _ = self(pack_padded_sequence(values, lengths, batch_first=True))
        read, _ = pad_packed_sequence(packed, batch_first=True)
        return read


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.dense = (
            nn.Linear(_ALBERT, _ALBERT) for _ in range(4)
        )
        self.LayerNorm = nn.LayerNorm(_ALBERT, eps=1e-12)

    def forward(self, values: Tensor, inside: Tensor) -> Tensor:
        query, key, value = (
            part(values).unflatten(-1, (_HEADS, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        read = F.scaled_dot_product_attention(query, key, value, inside[:, None, None])
        attended: Tensor = self.LayerNorm(values + self.dense(read.transpose(1, 2).flatten(2)))
        return attended


class _AlbertLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = _Attention()
        self.ffn, self.ffn_output = nn.Linear(_ALBERT, _FEED), nn.Linear(_FEED, _ALBERT)
        self.full_layer_layer_norm = nn.LayerNorm(_ALBERT, eps=1e-12)

    def forward(self, values: Tensor, inside: Tensor) -> Tensor:
        values = self.attention(values, inside)
        fed = self.ffn_output(F.gelu(self.ffn(values), approximate="tanh"))
        normed: Tensor = self.full_layer_layer_norm(fed + values)
        return normed


class _Embeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(_SYMBOLS, _EMBEDDED)
        self.position_embeddings = nn.Embedding(_PLACES, _EMBEDDED)
        self.token_type_embeddings = nn.Embedding(2, _EMBEDDED)
        self.LayerNorm = nn.LayerNorm(_EMBEDDED, eps=1e-12)

    def forward(self, ids: Tensor) -> Tensor:
        places = self.position_embeddings.weight[: ids.shape[1]]
        kind = self.token_type_embeddings.weight[0]
        embedded: Tensor = self.LayerNorm(self.word_embeddings(ids) + places + kind)
        return embedded


class _Albert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings = _Embeddings()
        self.encoder = nn.ModuleDict({"embedding_hidden_mapping_in": nn.Linear(_EMBEDDED, _ALBERT)})
        self.layer = _AlbertLayer()

    def forward(self, ids: Tensor, inside: Tensor) -> Tensor:
        values: Tensor = self.encoder["embedding_hidden_mapping_in"](self.embeddings(ids))
        for _ in range(_LAYERS):  # one layer, many times
            values = self.layer(values, inside)
        return values


class _ChannelNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gamma, self.beta = (nn.Parameter(torch.empty(_HIDDEN)) for _ in range(2))

    def forward(self, values: Tensor) -> Tensor:
        normed = F.layer_norm(values.mT, (_HIDDEN,), self.gamma, self.beta, _EPSILON)
        return normed.mT


class _TextEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_SYMBOLS, _HIDDEN)
        self.cnn = nn.ModuleList(
            nn.Sequential(nn.Conv1d(_HIDDEN, _HIDDEN, 5, padding=2), _ChannelNorm())
            for _ in range(3)
        )
        self.lstm = _Lstm(_HIDDEN)

    def forward(self, ids: Tensor, lengths: Tensor, extent: Extent) -> Tensor:
        values = extent.clear(self.embedding(ids).mT.contiguous())
        for layer in self.cnn:
            values = extent.clear(F.leaky_relu(layer(values), 0.2).contiguous())
        return self.lstm.read(values.mT, lengths)


class _StyledNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(_STYLE, 2 * _HIDDEN)

    def forward(self, values: Tensor, style: Tensor) -> Tensor:
        scale, shift = self.fc(style)[:, None].chunk(2, -1)
        return torch.addcmul(shift, F.layer_norm(values, (_HIDDEN,), eps=_EPSILON), 1 + scale)


class _DurationEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        pairs = [(_Lstm(_HIDDEN + _STYLE), _StyledNorm()) for _ in range(3)]
        self.lstms = nn.ModuleList(part for pair in pairs for part in pair)

    def forward(self, values: Tensor, style: Tensor, lengths: Tensor) -> Tensor:
        beside = style[:, None].expand(-1, values.shape[1], -1)
        for part in self.lstms:
            if isinstance(part, _Lstm):
                values = part.read(torch.cat([values, beside], -1), lengths)
            else:
                values = part(values, style)
        return torch.cat([values, beside], -1)


class _Norm(nn.Module):
    """The scale and the shift [rows, n, 1] that norm each channel of a row and then style it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(_STYLE, 2 * channels)

    def forward(self, values: Tensor, style: Tensor, extent: Extent) -> tuple[Tensor, Tensor]:
        single = torch.float32
        mean = values.sum(-1, keepdim=True, dtype=single) / extent.counts
        power = torch.linalg.vector_norm(values, dim=-1, keepdim=True, dtype=single).square()
        variance = (power / extent.counts - mean.square()).clamp_min(0.0)
        gamma, beta = self.fc(style).float()[..., None].chunk(2, 1)
        scale = (1 + gamma) * torch.rsqrt(variance + _EPSILON)
        return scale.to(values.dtype), (beta - mean * scale).to(values.dtype)


class _Block(nn.Module):
    """Two convolutions beside a shortcut; ``doubled`` if it makes two places of each."""

    def __init__(self, inputs: int, outputs: int, doubled: bool = False) -> None:
        super().__init__()
        self.norm1, self.norm2 = _Norm(inputs), _Norm(outputs)
        self.conv1 = nn.Conv1d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv1d(outputs, outputs, 3, padding=1)
        self.conv1x1 = nn.Conv1d(inputs, outputs, 1, bias=False) if inputs != outputs else None
        self.pool = (
            nn.ConvTranspose1d(
                inputs, inputs, 3, stride=2, padding=1, output_padding=1, groups=inputs
            )
            if doubled
            else None
        )

    def forward(self, values: Tensor, style: Tensor, extent: Extent) -> Tensor:
        inner = self._styled(self.norm1, values, style, extent)
        if self.pool is not None:
            extent = extent.times(2)
            inner = extent.clear(self.pool(inner))
            values = values.repeat_interleave(2, -1)
        inner = self._styled(self.norm2, extent.clear(self.conv1(inner)), style, extent)
        if self.conv1x1 is not None:
            values = self.conv1x1(values)
        return extent.clear((self.conv2(inner) + values) * 0.5**0.5)

    @staticmethod
    def _styled(norm: nn.Module, values: Tensor, style: Tensor, extent: Extent) -> Tensor:
        scale, shift = norm(values, style, extent)
        return extent.clear(F.leaky_relu_(torch.addcmul(shift, values, scale), 0.2))


class _Predictor(nn.Module):
    """Durations of symbols, and pitch and energy of half frames."""

    def __init__(self) -> None:
        super().__init__()
        self.text_encoder = _DurationEncoder()
        self.lstm, self.shared = (_Lstm(_HIDDEN + _STYLE) for _ in range(2))
        self.duration_proj = nn.ModuleDict({"linear_layer": nn.Linear(_HIDDEN, _LONGEST)})
        half = _HIDDEN // 2
        self.F0, self.N = (
            nn.ModuleList(
                [_Block(_HIDDEN, _HIDDEN), _Block(_HIDDEN, half, True), _Block(half, half)]
            )
            for _ in range(2)
        )
        self.F0_proj, self.N_proj = (nn.Conv1d(half, 1, 1) for _ in range(2))

    def durations(self, read: Tensor, speeds: Tensor, lengths: Tensor) -> Tensor:
        """Return the frames of each symbol, at least one, int64 [rows, longest]."""
        logits = self.duration_proj["linear_layer"](self.lstm.read(read, lengths))
        spent: Tensor = logits.sigmoid().sum(-1) / speeds[:, None]
        return spent.round().clamp_min(1.0).long()

    def melody(
        self, frames: Tensor, style: Tensor, lengths: Tensor, extent: Extent
    ) -> list[Tensor]:
        """Return pitch and energy, [rows, 1, 2 longest] each."""
        shared = self.shared.read(frames, lengths).mT.contiguous()
        curves = []
        for blocks, last in ((self.F0, self.F0_proj), (self.N, self.N_proj)):
            values = blocks[0](shared, style, extent)
            values = blocks[1](values, style, extent)
            values = blocks[2](values, style, extent.times(2))
            curves.append(extent.times(2).clear(last(values)))
        return curves


class _Residual(nn.Module):
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
            nn.ModuleList(_Norm(channels) for _ in _DILATIONS) for _ in range(2)
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


class _Source(nn.Module):
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


class _Generator(nn.Module):
    basis: Tensor

    def __init__(self, snake: Snake) -> None:
        super().__init__()
        self._snake = snake
        inputs = (_HIDDEN, _CHANNELS[0])
        self.m_source = _Source()
        self.noise_convs = nn.ModuleList(
            [
                nn.Conv1d(
                    2 * _BINS, _CHANNELS[0], 2 * _RATES[1], _RATES[1], padding=(_RATES[1] + 1) // 2
                ),
                nn.Conv1d(2 * _BINS, _CHANNELS[1], 1),
            ]
        )
        self.noise_res = nn.ModuleList([_Residual(_CHANNELS[0], 7), _Residual(_CHANNELS[1], 11)])
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(i, o, 2 * rate, rate, padding=rate // 2)
            for i, o, rate in zip(inputs, _CHANNELS, _RATES, strict=True)
        )
        self.resblocks = nn.ModuleList(_Residual(c, k) for c in _CHANNELS for k in _KERNELS)
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


class Network(nn.Module):
    """The whole network: first the durations of symbols, then the samples of frames.

    Args:
        snake: the function that :func:`snake` is, which may be a compiled one.
    """

    def __init__(self, snake: Snake = snake) -> None:
        super().__init__()
        self.bert = _Albert()
        self.bert_encoder = nn.Linear(_ALBERT, _HIDDEN)
        self.text_encoder = _TextEncoder()
        self.predictor = _Predictor()
        self.asr_res = nn.ModuleList([nn.Conv1d(_HIDDEN, _SKIP, 1)])
        self.F0_conv, self.N_conv = (nn.Conv1d(1, 1, 3, stride=2, padding=1) for _ in range(2))
        self.encode = _Block(_HIDDEN + 2, _WIDE)
        wider = _WIDE + 2 + _SKIP
        self.decode = nn.ModuleList(
            [*(_Block(wider, _WIDE) for _ in range(3)), _Block(wider, _HIDDEN, True)]
        )
        self.generator = _Generator(snake)

    def narrow(self, kind: torch.dtype) -> None:
        """Let what follows the pitch compute in a narrower kind of number, but not the source."""
        sounding = [m for m in self.generator.children() if m is not self.generator.m_source]
        for part in (self.asr_res, self.encode, self.decode, *sounding):
            part.to(kind)

    def read(
        self, ids: Tensor, style: Tensor, speeds: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what is known of symbols: for melody and sound [rows, n, ...], and the durations.

        Args:
            ids: symbols, int64 [rows, n].
            style: [rows, 256].
            speeds: [rows].
            lengths: of the rows, on the CPU, the longest first.
        """
        extent = Extent.of(lengths, ids.device)
        known = self.bert_encoder(self.bert(ids, extent.inside))
        prosody = self.predictor.text_encoder(known, style[:, _STYLE:], lengths)
        frames = self.predictor.durations(prosody, speeds, lengths)
        return prosody, self.text_encoder(ids, lengths, extent), frames * extent.inside

    def speak(
        self, prosody: Tensor, sound: Tensor, style: Tensor, frames: Tensor, lengths: Tensor
    ) -> Tensor:
        """Return samples [rows, 600 longest].

        Args:
            prosody, sound: what :meth:`read` returned of the rows, in any order.
            style: [rows, 256].
            frames: of each symbol, int64 [rows, n]; none of what is past the end of a row.
            lengths: sums of the frames, on the CPU, the longest first.
        """
        extent = Extent.of(lengths, frames.device)
        places = torch.arange(extent.longest, device=frames.device).expand(len(frames), -1)
        symbols = torch.searchsorted(frames.cumsum(-1), places.contiguous(), right=True)
        symbols = symbols.clamp_max(frames.shape[1] - 1)[..., None]
        prosody, sound = (
            values.gather(1, symbols.expand(-1, -1, values.shape[-1]))
            for values in (prosody, sound)
        )
        pitch, energy = self.predictor.melody(prosody, style[:, _STYLE:], lengths, extent)
        sound = extent.clear(sound.mT.contiguous())
        curves = [
            extent.clear(self.F0_conv(pitch)), extent.clear(self.N_conv(energy))
        ]  # fmt: skip
        kind = self.encode.conv1.weight.dtype
        sound, *curves, style = (part.to(kind) for part in (sound, *curves, style[:, :_STYLE]))
        skipped = extent.clear(self.asr_res[0](sound))
        values = self.encode(torch.cat([sound, *curves], 1), style, extent)
        for block in self.decode:
            values = block(torch.cat([values, skipped, *curves], 1), style, extent)
        samples: Tensor = self.generator(values, style, pitch, extent.times(2))
        return samples
