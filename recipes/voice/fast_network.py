"""The teacher's network in torch, for lines together: Kokoro-82M (Hexgrad, 2025), on StyleTTS 2.

What is read of symbols, durations and pitch are here; frames become samples in ``fast_generator``,
which also says how rows of different lengths share a batch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .fast_generator import EPSILON, HIDDEN, STYLE, Extent, Generator, Norm, Snake, snake

_WIDE, _SKIP = 1024, 64
_EMBEDDED, _ALBERT, _HEADS, _FEED, _LAYERS = 128, 768, 12, 2048, 12
_SYMBOLS, _PLACES, _LONGEST = 178, 512, 50
_LSTM = HIDDEN // 2


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
        self.gamma, self.beta = (nn.Parameter(torch.empty(HIDDEN)) for _ in range(2))

    def forward(self, values: Tensor) -> Tensor:
        normed = F.layer_norm(values.mT, (HIDDEN,), self.gamma, self.beta, EPSILON)
        return normed.mT


class _TextEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_SYMBOLS, HIDDEN)
        self.cnn = nn.ModuleList(
            nn.Sequential(nn.Conv1d(HIDDEN, HIDDEN, 5, padding=2), _ChannelNorm()) for _ in range(3)
        )
        self.lstm = _Lstm(HIDDEN)

    def forward(self, ids: Tensor, lengths: Tensor, extent: Extent) -> Tensor:
        values = extent.clear(self.embedding(ids).mT.contiguous())
        for layer in self.cnn:
            values = extent.clear(F.leaky_relu(layer(values), 0.2).contiguous())
        return self.lstm.read(values.mT, lengths)


class _StyledNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(STYLE, 2 * HIDDEN)

    def forward(self, values: Tensor, style: Tensor) -> Tensor:
        scale, shift = self.fc(style)[:, None].chunk(2, -1)
        return torch.addcmul(shift, F.layer_norm(values, (HIDDEN,), eps=EPSILON), 1 + scale)


class _DurationEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        pairs = [(_Lstm(HIDDEN + STYLE), _StyledNorm()) for _ in range(3)]
        self.lstms = nn.ModuleList(part for pair in pairs for part in pair)

    def forward(self, values: Tensor, style: Tensor, lengths: Tensor) -> Tensor:
        beside = style[:, None].expand(-1, values.shape[1], -1)
        for part in self.lstms:
            if isinstance(part, _Lstm):
                values = part.read(torch.cat([values, beside], -1), lengths)
            else:
                values = part(values, style)
        return torch.cat([values, beside], -1)


class _Block(nn.Module):
    """Two convolutions beside a shortcut; ``doubled`` if it makes two places of each."""

    def __init__(self, inputs: int, outputs: int, doubled: bool = False) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(inputs), Norm(outputs)
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
        self.lstm, self.shared = (_Lstm(HIDDEN + STYLE) for _ in range(2))
        self.duration_proj = nn.ModuleDict({"linear_layer": nn.Linear(HIDDEN, _LONGEST)})
        half = HIDDEN // 2
        self.F0, self.N = (
            nn.ModuleList([_Block(HIDDEN, HIDDEN), _Block(HIDDEN, half, True), _Block(half, half)])
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


class Network(nn.Module):
    """The whole network: first the durations of symbols, then the samples of frames.

    Args:
        snake: the function that :func:`snake` is, which may be a compiled one.
    """

    def __init__(self, snake: Snake = snake) -> None:
        super().__init__()
        self.bert = _Albert()
        self.bert_encoder = nn.Linear(_ALBERT, HIDDEN)
        self.text_encoder = _TextEncoder()
        self.predictor = _Predictor()
        self.asr_res = nn.ModuleList([nn.Conv1d(HIDDEN, _SKIP, 1)])
        self.F0_conv, self.N_conv = (nn.Conv1d(1, 1, 3, stride=2, padding=1) for _ in range(2))
        self.encode = _Block(HIDDEN + 2, _WIDE)
        wider = _WIDE + 2 + _SKIP
        self.decode = nn.ModuleList(
            [*(_Block(wider, _WIDE) for _ in range(3)), _Block(wider, HIDDEN, True)]
        )
        self.generator = Generator(snake)

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
        prosody = self.predictor.text_encoder(known, style[:, STYLE:], lengths)
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
        pitch, energy = self.predictor.melody(prosody, style[:, STYLE:], lengths, extent)
        sound = extent.clear(sound.mT.contiguous())
        curves = [
            extent.clear(self.F0_conv(pitch)), extent.clear(self.N_conv(energy))
        ]  # fmt: skip
        kind = self.encode.conv1.weight.dtype
        sound, *curves, style = (part.to(kind) for part in (sound, *curves, style[:, :STYLE]))
        skipped = extent.clear(self.asr_res[0](sound))
        values = self.encode(torch.cat([sound, *curves], 1), style, extent)
        for block in self.decode:
            values = block(torch.cat([values, skipped, *curves], 1), style, extent)
        samples: Tensor = self.generator(values, style, pitch, extent.times(2))
        return samples
