"""The optimiser Muon (Jordan et al., 2024): momentum whose singular values are all made one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from .training import autocast

# A quintic that drives singular values of 0 to 1 towards one, fast rather than exactly.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
# Elements of an update are then about as large as those of AdamW, for which rates are known.
_SCALE = 0.2


class Muon(Optimizer):
    """For matrices alone; embeddings, heads and norms belong to another optimiser.

    Args:
        parameters: matrices.
        lr: learning rate, of the size that suits AdamW.
        momentum: share of the old direction that remains.
        weight_decay: as AdamW's.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 3e-3,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "decay": weight_decay})
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(f"Muon takes matrices, not a tensor of {parameter.ndim} axes")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient."""
        for group in self.param_groups:
            # Matrices of one shape are orthogonalised together: few large products are quicker
            # than many small ones.
            alike: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    alike[parameter.shape].append(parameter)
            for shape, parameters in alike.items():
                directions = [self._direction(p, group["momentum"]) for p in parameters]
                # Only roughly orthogonal anyway, so products may round.
                with autocast(parameters[0].device):
                    updates = orthogonal(torch.stack(directions))
                size = group["lr"] * _SCALE * max(shape) ** 0.5
                for parameter, update in zip(parameters, updates, strict=True):
                    parameter.mul_(1 - group["lr"] * group["decay"])
                    parameter.add_(update.to(parameter.dtype), alpha=-size)

    def _direction(self, parameter: Tensor, momentum: float) -> Tensor:
        """Nesterov momentum of the gradient."""
        assert parameter.grad is not None
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        average: Tensor = state["momentum"]
        average.lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(average, momentum)


def orthogonal(matrices: Tensor) -> Tensor:
    """Matrices [..., m, n] with singular values near one (about 0.7 to 1.2) and the same singular
    vectors."""
    a, b, c = _COEFFICIENTS
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x: Tensor = matrices.mT if is_tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if is_tall else x
