"""Voices as strings: speaker vectors and sample prompts.

A speaker string is base16384 text of raw LZMA2 of H float16. A sample prompt is base16384 text of
two little-endian uint16 (rows, columns) and raw LZMA2 of the uint16 codes.
"""

from __future__ import annotations

import lzma
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import VoiceError, shown
from ..utils import base16384
from .tokenizer import code_prompt, refine_prompt

_FILTERS: list[Mapping[str, Any]] = [
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME},
]
_MIN_DICTIONARY = 4096  # of LZMA2
_HEADER_BYTES = 4
# Most bytes that a string may decompress to; a longer one is no voice but an attack.
_MAX_BYTES = 4 << 20
_DAMAGED = "the sample prompt (spk_smp) is damaged; make it again from its audio"


class Speaker:
    """Encodes, decodes and samples the speaker vectors of one checkpoint.

    ``dim``, ``std``, ``mean``, the methods after :meth:`vector` and names with an underscore are
    those of the published package, for scripts that use them.

    Args:
        hidden: H, the width of the model.
        statistics: base16384 text of float16 [std (H), mean (H)], or empty.
        device: of the draws in ``sample_random``.
    """

    def __init__(self, hidden: int, statistics: str, device: torch.device) -> None:
        self.hidden = hidden
        self.device = device
        self._std: Tensor | None = None
        self._mean: Tensor | None = None
        if statistics:
            raw = _decode_base16384(statistics, "statistics of voices (spk_stat)")
            if len(raw) != 4 * hidden:
                raise VoiceError(
                    f"spk_stat holds {len(raw) / 2:g} values; a model of width {hidden} needs "
                    f"{2 * hidden}"
                )
            values = np.frombuffer(raw, dtype="<f2")
            if not np.isfinite(values).all():
                raise VoiceError("spk_stat holds values that are not finite")
            self._std, self._mean = torch.from_numpy(values.copy()).to(device).chunk(2)

    def sample_random(self) -> str:
        """Draw a voice from torch's global generator, as a speaker string.

        ``torch.manual_seed(n)`` before it gives the same voice each time.
        """
        return self.encode(self._sample_random())

    def encode(self, vector: Tensor | NDArray[Any]) -> str:
        """Return the speaker string of H floats."""
        return self._encode(self._checked(vector))

    def vector(self, voice: str | Tensor | NDArray[Any]) -> NDArray[np.float32]:
        """Return the L2-normalized vector, float32 [H], of a speaker string, a tensor or an array.

        A string is float16 and normalized in float16. A tensor is normalized in its own dtype,
        unless its norm is out of that dtype's range.

        Raises:
            VoiceError: ``voice`` is no speaker of this model.
        """
        values = self._checked(
            torch.from_numpy(self._decode(voice)) if isinstance(voice, str) else voice
        )
        norm = values.norm(p=2)
        if not torch.finfo(values.dtype).tiny <= norm < math.inf:
            values = values.double()
            values = values / values.abs().max()
            norm = values.norm(p=2)
        normalized: NDArray[np.float32] = (values / norm).to(torch.float32).numpy()
        return normalized

    @property
    def dim(self) -> int:
        """The width H."""
        return self.hidden

    @property
    def std(self) -> Tensor:
        """The standard deviation of random voices, float16 [H]."""
        return self._statistics()[0]

    @property
    def mean(self) -> Tensor:
        """The mean of random voices, float16 [H]."""
        return self._statistics()[1]

    @torch.inference_mode()
    def apply(
        self,
        emb: Tensor,
        spk_emb: str | Tensor,
        input_ids: Tensor,
        spk_emb_ids: int,
        device: torch.device,
        inplace: bool = True,
    ) -> Tensor:
        """Replace every ``[spk_emb]`` of embedded prompts by a speaker's vector.

        Args:
            emb: [B, T, H]; changed if ``inplace`` is true.
            spk_emb: a speaker string, or its vector.
            input_ids: [B, T, num_codebooks].
            spk_emb_ids: the id of ``[spk_emb]``.
            device: of ``emb``.
        """
        vector = torch.from_numpy(self.vector(spk_emb)).to(device, emb.dtype)
        is_slot = (input_ids[..., :1] == spk_emb_ids).to(device)
        spoken = torch.where(is_slot, vector, emb)
        return emb.copy_(spoken) if inplace else spoken

    @staticmethod
    def decorate_code_prompts(
        text: Sequence[str], prompt: str | None, txt_smp: str | None, spk_emb: object
    ) -> list[str]:
        """Return the prompts of the speech pass; ``text`` is not changed."""
        has_speaker = spk_emb is not None
        return [code_prompt(t, prompt or "", speaker=has_speaker, transcript=txt_smp) for t in text]

    @staticmethod
    def decorate_text_prompts(text: Sequence[str], prompt: str | None) -> list[str]:
        """Return the prompts of the refine pass."""
        return [refine_prompt(t, prompt or "") for t in text]

    @staticmethod
    def encode_prompt(prompt: Tensor) -> str:
        """Return the sample prompt string of codes [num_codebooks, frames]."""
        if prompt.dim() != 2:
            raise VoiceError(f"a sample prompt has 2 dimensions, this one {prompt.dim()}")
        return encode_sample(prompt.cpu().numpy())

    @staticmethod
    def decode_prompt(prompt: str) -> Tensor:
        """Return the codes of a sample prompt string, int32 [num_codebooks, frames]."""
        return torch.from_numpy(_unpack_sample(prompt).astype(np.int32))

    def _sample_random(self) -> Tensor:
        """Draw a random voice, float16 [H]."""
        std, mean = self._statistics()
        return torch.randn(self.hidden, device=self.device, dtype=torch.float16) * std + mean

    @staticmethod
    def _encode(spk_emb: Tensor) -> str:
        """Return the speaker string of any number of floats."""
        values = spk_emb.detach().to("cpu", torch.float16).numpy().astype("<f2")
        return base16384.encode(_compress(values.tobytes()))

    @staticmethod
    def _decode(spk_emb: str) -> NDArray[np.float16]:
        """Return the floats of a speaker string."""
        data = _decode_base16384(spk_emb, "speaker string")
        try:
            words = _decompress(data, "speaker string")
        except VoiceError as error:
            if _looks_like_sample(data):
                raise VoiceError(
                    "this is a sample prompt, not a speaker string: give it as spk_smp, with "
                    "its transcript as txt_smp"
                ) from error
            raise
        floats: NDArray[np.float16] = words.view("<f2").copy()
        return floats

    def _statistics(self) -> tuple[Tensor, Tensor]:
        if self._std is None or self._mean is None:
            raise VoiceError("this checkpoint has no speaker statistics (spk_stat) to draw from")
        return self._std, self._mean

    def _checked(self, vector: Tensor | NDArray[Any]) -> Tensor:
        try:
            given = torch.as_tensor(vector).detach()
            # Only a matching size is reshaped: a larger one could allocate any amount of memory.
            if given.numel() == self.hidden:
                given = given.to("cpu").to_dense().reshape(-1).contiguous()
            if given.is_floating_point() and given.element_size() == 1:
                given = given.float()  # torch computes little in eight bits
        except Exception as error:  # from devices, layouts, and a caller's own classes
            raise VoiceError(
                f"a speaker is a speaker string or {self.hidden} floats, not "
                f"{type(vector).__name__}"
            ) from error
        if not given.is_floating_point():
            raise VoiceError(f"a speaker needs floats, not {given.dtype}")
        if given.numel() != self.hidden:
            raise VoiceError(
                f"a speaker of this model has {self.hidden} values, this one {given.numel()}: "
                "it belongs to another model"
            )
        if not torch.isfinite(given).all() or not given.any():
            raise VoiceError("a speaker must be finite and not all zero")
        return given


def encode_sample(codes: NDArray[Any]) -> str:
    """Return the sample prompt string of codes [num_codebooks, frames]."""
    rows, columns = codes.shape
    header = np.array([rows, columns], dtype="<u2").tobytes()
    packed = _compress(np.ascontiguousarray(codes, dtype="<u2").tobytes())
    return base16384.encode(header + packed)


def decode_sample(sample: str, num_codebooks: int, num_codes: int) -> NDArray[np.int64]:
    """Return the codes [frames, num_codebooks] of a sample prompt string.

    Raises:
        VoiceError: it is no sample prompt of this model, or has codes from ``num_codes`` on.
    """
    codes = _unpack_sample(sample, num_codebooks)
    if codes.max() >= num_codes:
        raise VoiceError(_DAMAGED)
    transposed: NDArray[np.int64] = codes.T.astype(np.int64)
    return transposed


def _unpack_sample(sample: str, num_codebooks: int | None = None) -> NDArray[np.uint16]:
    """Return the codes [num_codebooks, frames] of a sample prompt string of any size."""
    raw = _decode_base16384(sample, "sample prompt")
    if len(raw) <= _HEADER_BYTES:
        raise VoiceError("the sample prompt (spk_smp) is too short to be one")
    rows, columns = (int(n) for n in np.frombuffer(raw[:_HEADER_BYTES], dtype="<u2"))
    if rows == 0 or columns == 0 or (num_codebooks is not None and rows != num_codebooks):
        raise VoiceError(
            f"this is not a sample prompt of this model: it says {rows} x {columns} codes where "
            f"{num_codebooks} rows are needed; was a speaker string (spk_emb) given as spk_smp?"
        )
    codes = _decompress(raw[_HEADER_BYTES:], "sample prompt")
    if codes.size != rows * columns:
        raise VoiceError(_DAMAGED)
    return codes.reshape(rows, columns)


def _compress(data: bytes) -> bytes:
    # The preset's encoder clears tables for 64 MiB, which takes a hundred times as long as a voice.
    # Tables for the data alone give the same bytes.
    size = max(_MIN_DICTIONARY, 1 << len(data).bit_length())
    filters = [{**_FILTERS[0], "dict_size": size}]
    return lzma.compress(data, format=lzma.FORMAT_RAW, filters=filters)


def _decompress(data: bytes, what: str) -> NDArray[Any]:
    """Decompress raw LZMA2 to little-endian 16-bit words.

    Raises:
        VoiceError: the data are no LZMA2, or cut off.
    """
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_FILTERS)
    try:
        raw = decompressor.decompress(data, _MAX_BYTES)
    except lzma.LZMAError as error:
        raise VoiceError(f"this is not a {what}, or a damaged one") from error
    if not raw or not decompressor.eof or len(raw) % 2:
        raise _cut_off(what)
    return np.frombuffer(raw, dtype="<u2")


def _looks_like_sample(data: bytes) -> bool:
    """Return whether the bytes start with the rows and columns of a sample prompt."""
    if len(data) <= _HEADER_BYTES:
        return False
    rows, columns = np.frombuffer(data[:_HEADER_BYTES], dtype="<u2")
    return bool(0 < rows <= 16 and columns > 0)


def _decode_base16384(text: str, what: str) -> bytes:
    if not isinstance(text, str):
        raise VoiceError(f"a {what} is text, not {shown(text)}")
    body = text.strip() if len(text) <= _MAX_BYTES else text
    if len(body) > _MAX_BYTES or base16384.TEXT.fullmatch(body) is None:
        raise VoiceError(
            f"this is not a {what}: it must be the text that ChatTTS gave, unshortened "
            f"(got {body[:12]!r}...)"
        )
    try:
        return base16384.decode(body)
    except base16384.IncompleteError as error:
        raise _cut_off(what) from error
    except ValueError as error:  # the length contradicts the last character
        raise VoiceError(f"this is not a {what}, or a damaged one") from error


def _cut_off(what: str) -> VoiceError:
    return VoiceError(f"this is not a {what}, or one that was cut off: give all of its text")
