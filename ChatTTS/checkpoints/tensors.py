"""Open the tensors of a checkpoint, and put them into modules.

Only safetensors files are opened: their bytes are data and nothing in them can run. A pickle is
refused by its first bytes, whatever its name says.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from ..errors import AssetError, shown
from .tensor_file import RESTORE, TensorFile

logger = logging.getLogger(__name__)

# The float formats that convert into one another by rounding alone (8-bit ones need scales).
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_NAMED_AT_MOST = 10


class TensorLike(Protocol):
    """What says how a tensor looks: a tensor, or what a file's header says of one."""

    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def shape(self) -> Collection[int]: ...


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read every tensor of the safetensors file ``path``, in the file's own dtypes.

    All of them are in memory then; :class:`~.tensor_file.TensorFile` reads one by one.

    Raises:
        AssetError: the file is missing, empty, cut off, damaged or of another format. The message
            names the file, what it is instead as far as its first bytes tell, and the remedy.
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

    Floats are converted to the dtype that the module has; every other dtype must be equal. The
    shapes of all tensors are checked before the first one is read, so a module that another file
    belongs to stays untouched and costs nothing.

    Each tensor is copied straight to where it shall lie (any device), one at a time, so memory
    never holds a second set of the weights where ``tensors`` is a file. Under
    ``torch.device("meta")`` there is no place yet, and the copy itself, on the CPU, becomes the
    parameter. Non-persistent buffers are left as they are, so build those on a real device.

    Args:
        module: with its final shapes and dtypes; may be built under ``torch.device("meta")``.
        tensors: by name, such as a :class:`~ChatTTS.checkpoints.tensor_file.TensorFile`.
        file: where they are from, for messages.
        unused_ok: prefixes of tensors that may be there without a use. All other tensors without
            one are named in a single warning.

    Raises:
        AssetError: tensors are missing, or have another shape or kind than the module; up to ten
            are named in one message, with the expected and the found shape. Or one holds what is
            no number; then the module is to be thrown away.
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
            # A file gives each time a tensor of one's own.
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
    """Account for every tensor of a file.

    Args:
        targets: by name what has the shape and dtype that the file's tensor should have.
        tensors: by name what the file has.
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


def finite(tensor: Tensor, name: str, file: Path) -> Tensor:
    """Give back ``tensor``, which was read from ``file`` as ``name``.

    Raises:
        AssetError: it holds what is no number, or what is too large for its dtype.
    """
    if tensor.dtype in _FLOATS and tensor.numel():
        # One pass without a second tensor; what is no number comes out of it as both.
        least, most = (value.item() for value in tensor.aminmax())
        if not (math.isfinite(least) and math.isfinite(most)):
            narrow = "" if tensor.dtype is torch.float32 else "load with dtype='float32', or "
            raise AssetError(
                f"{file}: {name} holds NaN, infinity or numbers too large for {tensor.dtype}, "
                f"and would give no speech; {narrow}{RESTORE}"
            )
    return tensor


def _fault(name: str, target: Tensor, found: TensorLike | None) -> str | None:
    """Say what hinders ``found`` from becoming ``target``; None when nothing does."""
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
