"""The state of a stage on disk: weights, their average, optimisers and the training position.

Each stage has one safetensors file, which is written as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from ChatTTS.errors import AssetError
from ChatTTS.weights.tensors import load_module, read_tensors

_MODEL, _AVERAGE, _OPTIMIZER = "model", "average", "optimizer"


@dataclass(frozen=True)
class Position:
    """The training position of a stage.

    It holds the steps done, the seconds of all runs, and the largest share of a budget ever spent.
    """

    step: int = 0
    seconds: float = 0.0
    furthest: float = 0.0


def save(
    path: Path,
    position: Position,
    modules: Mapping[str, nn.Module],
    average: Mapping[str, Mapping[str, Tensor]],
    optimizers: Mapping[str, Optimizer],
    origin: Mapping[str, str] | None = None,
) -> None:
    """Write everything that a later run needs to resume the training exactly.

    Args:
        path: the file; an earlier one is replaced only after the new one is complete.
        position: the training position.
        modules: modules by name; their parameters and persistent buffers are written.
        average: for each module, averaged weights by the names of its state.
        optimizers: optimisers by name; their states are written, but not their settings.
        origin: checksums of the stages that this one learned from, by name.
    """
    tensors: dict[str, Tensor] = {}
    for name, module in modules.items():
        for key, value in module.state_dict().items():
            tensors[f"{_MODEL}/{name}/{key}"] = value
        for key, value in average[name].items():
            tensors[f"{_AVERAGE}/{name}/{key}"] = value
    for name, optimizer in optimizers.items():
        for index, state in optimizer.state_dict()["state"].items():
            for key, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"{_OPTIMIZER}/{name}/{index}/{key}"] = value
    # Clones, since the format refuses tensors that share memory.
    copies = {
        key: value.detach().to("cpu", copy=True).contiguous() for key, value in tensors.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    metadata = {"position": json.dumps(asdict(position)), "origin": json.dumps(dict(origin or {}))}
    save_file(copies, partial, metadata=metadata)
    os.replace(partial, path)


def read_position(path: Path) -> Position:
    """Return the training position of the stage; the start of training if there is no file.

    Raises:
        AssetError: the file is not a training state.
    """
    if not path.exists():
        return Position()
    try:
        return Position(**_metadata(path, "position"))
    except TypeError as error:
        raise AssetError(f"{path} is no state of this training ({error}); {_REMEDY}") from error


def read_origin(path: Path) -> dict[str, str]:
    """Return the checksums of the stages that this one learned from, as given to :func:`save`.

    Raises:
        AssetError: the file is not a training state.
    """
    return _metadata(path, "origin") if path.exists() else {}


def _metadata(path: Path, key: str) -> dict[str, Any]:
    try:
        with safe_open(path, framework="pt") as file:
            written = {"origin": "{}", **file.metadata()}  # older states lack it
            found: dict[str, Any] = json.loads(written[key])
            return found
    except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise AssetError(f"{path} is no state of a training ({error}); {_REMEDY}") from error
    except Exception as error:  # the safetensors package's own error derives from Exception alone
        raise AssetError(f"{path} is damaged ({error}); {_REMEDY}") from error


def restore(
    path: Path,
    modules: Mapping[str, nn.Module],
    average: Mapping[str, Mapping[str, Tensor]],
    optimizers: Mapping[str, Optimizer],
) -> Position:
    """Load what :func:`save` wrote into modules, averages and optimisers, in place.

    Raises:
        AssetError: the file is damaged, or belongs to models or optimisers of other sizes.
    """
    position = read_position(path)
    tensors = read_tensors(path)
    for name, module in modules.items():
        load_module(module, _below(tensors, f"{_MODEL}/{name}/"), file=path)
        found = _below(tensors, f"{_AVERAGE}/{name}/")
        if found.keys() != average[name].keys():
            raise AssetError(f"{path} averages other tensors of {name}; {_REMEDY}")
        for key, value in average[name].items():
            value.copy_(found[key])
    for name, optimizer in optimizers.items():
        # The settings come from the program, so that a changed learning rate takes effect.
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict(
            {"state": _optimizer_state(tensors, name, path), "param_groups": groups}
        )
        _check_optimizer(optimizer, name, path)
    return position


def load_average(path: Path, name: str, module: nn.Module) -> None:
    """Load the averaged weights of the module ``name`` of a stage into ``module``.

    Raises:
        AssetError: the stage has not been trained, or was trained with other sizes.
    """
    if not path.exists():
        raise AssetError(f"{path} is missing: train the stage {path.stem!r} first")
    prefix = f"{_AVERAGE}/{name}/"
    load_module(module, _below(read_tensors(path), prefix), file=path)


def checksum(module: nn.Module) -> str:
    """Return a checksum of the weights, which later stages keep as the origin of their training."""
    value = 0
    for tensor in module.state_dict().values():
        value = zlib.crc32(tensor.detach().cpu().contiguous().numpy().tobytes(), value)
    return f"{value:08x}"


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
    }


def _optimizer_state(
    tensors: Mapping[str, Tensor], name: str, path: Path
) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in _below(tensors, f"{_OPTIMIZER}/{name}/").items():
        index, _, field = key.partition("/")
        # The file's tensors are memory-mapped, and the file is replaced while training goes on.
        state.setdefault(int(index), {})[field] = value.clone()
    return state


def _check_optimizer(optimizer: Optimizer, name: str, path: Path) -> None:
    for parameter, state in optimizer.state.items():
        for value in state.values():
            if isinstance(value, Tensor) and value.dim() and value.shape != parameter.shape:
                raise AssetError(f"{path} holds another {name} optimiser's state; {_REMEDY}")


_REMEDY = "delete the file to train this stage anew, or give another folder with --out"


def averaged_copy(modules: Mapping[str, nn.Module]) -> dict[str, dict[str, Tensor]]:
    """Copy the state of every module, to start an average of its weights."""
    return {
        name: {key: value.detach().clone() for key, value in module.state_dict().items()}
        for name, module in modules.items()
    }


@torch.no_grad()
def update_average(
    average: Mapping[str, Mapping[str, Tensor]], modules: Mapping[str, nn.Module], keep: float
) -> None:
    """Move the average towards the weights and keep a share ``keep`` of it; copy integers."""
    for name, module in modules.items():
        state = module.state_dict()
        floats = [key for key, value in state.items() if value.is_floating_point()]
        old = [average[name][key] for key in floats]
        torch._foreach_lerp_(old, [state[key] for key in floats], 1.0 - keep)
        for key in state.keys() - set(floats):
            average[name][key].copy_(state[key])
