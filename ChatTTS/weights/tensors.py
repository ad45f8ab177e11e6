"""Open the tensors of a checkpoint, and put them into modules.

Only safetensors files are opened: their bytes are data, and no code in them can run. A pickle is
refused by its first bytes, also under another name.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from ..errors import AssetError, shown
from .tensor_file import RESTORE, TensorFile

logger = logging.getLogger(__name__)

# Float formats that convert into one another by rounding alone (8-bit formats need scales).
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_NAMED_AT_MOST = 10


class TensorLike(Protocol):
    """A tensor, or its description in a file's header."""

    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def shape(self) -> Collection[int]: ...


def read_tensors(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read all tensors of the safetensors file ``path`` into memory, in the file's own dtypes.

    :class:`~.tensor_file.TensorFile` reads them one by one.

    Raises:
        AssetError: the file is missing, empty, cut off, damaged or of another format. The message
            names the file, its format if the first bytes show it, and the remedy.
    """
    return dict(TensorFile(Path(path)))


def load_module(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    file: Path,
    unused_ok: Collection[str] = (),
) -> None:
    """Copy a tensor into every parameter and persistent buffer of ``module``, by name.

    Floats are converted to the module's dtype; every other dtype must be equal. The shapes of all
    tensors are checked before the first one is read, so a module that does not fit the file stays
    unchanged.

    Tensors are copied one at a time, straight to the module's device. So there is never a second
    set of the weights in memory where ``tensors`` is a file. A parameter on the meta device becomes
    the copy itself, on the CPU. Non-persistent buffers are left as they are, so the caller has to
    build those on a real device.

    Args:
        module: with its final shapes and dtypes; may be built under ``torch.device("meta")``.
        tensors: by name, such as a :class:`~ChatTTS.weights.tensor_file.TensorFile`.
        file: the file that they come from, for messages.
        unused_ok: prefixes of tensors that may be unused. All other unused tensors are named in a
            single warning.

    Raises:
        AssetError: tensors are missing, or have another shape or dtype than the module; the message
            names up to ten, with the expected and the found shape. Or a tensor has NaN or infinity;
            then the module must not be used.
    """
    targets = {
        name: value
        for name, value in module.state_dict(keep_vars=True).items()
        if isinstance(value, Tensor)
    }
    is_file = isinstance(tensors, TensorFile)
    found = tensors.infos if isinstance(tensors, TensorFile) else tensors
    check_tensors(targets, found, file=file, unused_ok=unused_ok)

    created = {}
    with torch.no_grad():
        for name, target in targets.items():
            # A file returns a new tensor each time.
            own = target.is_meta and not is_file
            value = finite(tensors[name].to(target.dtype, copy=own), name, file)
            if target.is_meta:
                created[name] = value
            else:
                target.copy_(value)
    if created:
        module.load_state_dict(created, strict=False, assign=True)


def check_tensors(
    targets: Mapping[str, Tensor],
    tensors: Mapping[str, TensorLike],
    *,
    file: Path,
    unused_ok: Collection[str] = (),
) -> None:
    """Check the shape and dtype of every tensor of a file, and warn of unused tensors.

    Args:
        targets: tensors with the expected shapes and dtypes, by name.
        tensors: the file's tensors or their descriptions, by name.
        file, unused_ok: as for :func:`load_module`.

    Raises:
        AssetError: as :func:`load_module`.
    """
    faults = [
        fault
        for name, target in targets.items()
        if (fault := _fault(name, target, tensors.get(name))) is not None
    ]
    if faults:
        raise AssetError(
            f"{file} does not fit the model: {_some(faults, '; ')}. Correct the sizes in "
            f"asset/config.json (without that file the published sizes hold), or: {RESTORE}"
        )
    unused = [
        name
        for name in tensors
        if name not in targets and not any(name.startswith(prefix) for prefix in unused_ok)
    ]
    if unused:
        logger.warning("%s: nothing uses the tensors %s", file, _some(map(shown, unused), ", "))


def finite(tensor: Tensor, name: str, file: Path, remedy: str = RESTORE) -> Tensor:
    """Return ``tensor``, which was read from ``file`` as ``name``, if all its values are finite.

    Raises:
        AssetError: it has NaN, infinity, or numbers too large for its dtype.
    """
    if tensor.dtype in _FLOATS and tensor.numel():
        # One pass without a second tensor; NaN comes out as both values.
        least, most = (value.item() for value in tensor.aminmax())
        if not (math.isfinite(least) and math.isfinite(most)):
            narrow = "" if tensor.dtype is torch.float32 else "load with dtype='float32', or "
            raise AssetError(
                f"{file}: {name} holds NaN, infinity or numbers too large for {tensor.dtype}, "
                f"and would give no speech; {narrow}{remedy}"
            )
    return tensor


def _fault(name: str, target: Tensor, found: TensorLike | None) -> str | None:
    """Return why ``found`` cannot be copied to ``target``; None where it can."""
    expected = list(target.shape)
    if found is None:
        return f"{name} {expected} is missing"
    if list(found.shape) != expected:
        return f"{name} should be {expected} but is {list(found.shape)}"
    both_float = target.dtype in _FLOATS and found.dtype in _FLOATS
    if not both_float and found.dtype != target.dtype:
        return f"{name} {expected} should be {target.dtype} but is {found.dtype}"
    return None


def _some(items: Iterable[str], separator: str) -> str:
    """Join up to ten items, with a count of the rest."""
    listed = list(items)
    rest = len(listed) - _NAMED_AT_MOST
    named = separator.join(listed[:_NAMED_AT_MOST])
    return f"{named}{separator}and {rest} more" if rest > 0 else named
