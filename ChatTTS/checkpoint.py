"""Open the tensors of a checkpoint, and put them into modules.

Only safetensors files are opened: their bytes are data and nothing in them can run. A pickle is
refused by its first bytes, whatever its name says.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from .errors import AssetError

logger = logging.getLogger(__name__)

# The float formats that convert into one another by rounding alone (8-bit ones need scales).
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# The format itself allows no longer header.
_LONGEST_HEADER = 100_000_000
_NAMED_AT_MOST = 10
_RESTORE = (
    "replace the file by a whole one (`chattts download --force` fetches the published "
    "checkpoint anew)"
)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read every tensor of the safetensors file ``path``, in the file's own dtypes.

    The tensors lie in a private memory map of the file: nothing is read before it is used, and
    the map ends with the last tensor. Let go of them soon (:func:`load_module` copies), since a
    file that somebody overwrites in place changes under its map.

    Raises:
        AssetError: the file is missing, empty, cut off, damaged or of another format. The message
            names the file, what it is instead as far as its first bytes tell, and the remedy.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except FileNotFoundError:
        raise AssetError(
            f"{path} is missing. `chattts download` fetches the published checkpoint; for another "
            "one pass the folder that holds its asset/ as custom_path"
        ) from None
    except OSError as error:
        raise AssetError(
            f"{path} cannot be read ({error.strerror or error}); it must be a readable file"
        ) from error
    if not head:
        raise AssetError(f"{path} is empty; {_RESTORE}")
    foreign = _foreign_format(head)
    if foreign is not None:
        raise AssetError(f"{path} is {foreign}, not a safetensors file; {_RESTORE}")
    try:
        return load_file(path)
    except (SafetensorError, OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"{path} is damaged or cut off ({error}); {_RESTORE}") from error


def load_module(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    file: Path,
    unused_ok: Collection[str] = (),
) -> None:
    """Copy a tensor into every parameter and persistent buffer of ``module``, by name.

    Floats are converted to the dtype that the module has; every other dtype must be equal. All
    tensors are checked before the first one is copied, so a module is loaded whole or untouched.

    Each tensor is copied straight to where it shall lie (any device), one at a time, so memory
    never holds a second set of the weights: what ``tensors`` maps are clean pages of the file,
    which the system drops at will. Under ``torch.device("meta")`` there is no place yet, and the
    copy itself, on the CPU, becomes the parameter. Non-persistent buffers are left as they are,
    so build those on a real device.

    Args:
        module: with its final shapes and dtypes; may be built under ``torch.device("meta")``.
        tensors: from :func:`read_tensors`.
        file: where they are from, for messages.
        unused_ok: prefixes of tensors that may be there without a use. All other tensors without
            one are named in a single warning.

    Raises:
        AssetError: tensors are missing, or have another shape or kind than the module. Up to ten
            are named in one message, with the expected and the found shape.
    """
    targets = {
        name: value
        for name, value in module.state_dict(keep_vars=True).items()
        if isinstance(value, Tensor)
    }
    check_tensors(targets, tensors, file=file, unused_ok=unused_ok)

    created = {}
    with torch.no_grad():
        for name, target in targets.items():
            if target.is_meta:
                created[name] = tensors[name].to(target.dtype, copy=True)
            else:
                target.copy_(tensors[name])
    if created:
        module.load_state_dict(created, strict=False, assign=True)


def check_tensors(
    targets: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    *,
    file: Path,
    unused_ok: Collection[str] = (),
) -> None:
    """Account for every tensor of a file.

    Args:
        targets: by name what has the shape and dtype that the file's tensor should have.
        tensors, file, unused_ok: as for :func:`load_module`.

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
            f"asset/config.json (without that file the published sizes hold), or: {_RESTORE}"
        )
    unused = [
        name
        for name in tensors
        if name not in targets and not any(name.startswith(prefix) for prefix in unused_ok)
    ]
    if unused:
        logger.warning("%s: nothing uses the tensors %s", file, _some(unused, ", "))


def _fault(name: str, target: Tensor, found: Tensor | None) -> str | None:
    """Say what hinders ``found`` from becoming ``target``; None when nothing does."""
    expected = list(target.shape)
    if found is None:
        return f"{name} {expected} is missing"
    if found.shape != target.shape:
        return f"{name} should be {expected} but is {list(found.shape)}"
    both_float = target.dtype in _FLOATS and found.dtype in _FLOATS
    if not both_float and found.dtype != target.dtype:
        return f"{name} {expected} should be {target.dtype} but is {found.dtype}"
    return None


def _foreign_format(head: bytes) -> str | None:
    """Name the format that the first bytes speak of, if it is not safetensors.

    A safetensors file begins with eight bytes of header length and a JSON object.
    """
    length = int.from_bytes(head[:8], "little")
    # A pickle's first bytes (80 02) are also the header length 640: the ninth byte decides.
    if head[8:9] in (b"{", b"") and length <= _LONGEST_HEADER:
        return None
    if head.startswith(b"PK\x03\x04"):
        return "a zip archive or PyTorch pickle (pickles are never opened, they can run code)"
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return "a Python pickle (pickles are never opened, they can run code)"
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer in place of the file itself (`git lfs pull` fetches it)"
    if head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page (a server's answer in place of the file)"
    return "of an unknown format"


def _some(items: Iterable[str], separator: str) -> str:
    """Join up to ten items, with a count of the rest."""
    listed = list(items)
    rest = len(listed) - _NAMED_AT_MOST
    shown = separator.join(listed[:_NAMED_AT_MOST])
    return f"{shown}{separator}and {rest} more" if rest > 0 else shown
