"""The optimiser Muon (Jordan et al., 2024): momentum with all singular values set to one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from .training import product_dtype

# A quintic polynomial that moves singular values from 0 to 1 towards one, fast but inexactly.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
# With this scale, updates are about as large as AdamW's, for which learning rates are known.
_SCALE = 0.2


class Muon(Optimizer):
    """Muon for matrices; embeddings, heads and norms need another optimiser.

    Args:
        parameters: matrices.
        lr: learning rate, of a size that suits AdamW.
        momentum: share of the old direction that remains.
        weight_decay: decay of the weights, as in AdamW.
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
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            # Matrices of equal shape are orthogonalised together: few large products are faster
            # than many small ones.
            alike: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    alike[parameter.shape].append(parameter)
            for shape, parameters in alike.items():
                directions = self._directions(parameters, group["momentum"])
                # The result is only roughly orthogonal, so all may be rounded to bfloat16.
                dtype = product_dtype(parameters[0].device)
                updates = orthogonal(torch.stack(directions).to(dtype)).to(parameters[0].dtype)
                size = group["lr"] * _SCALE * max(shape) ** 0.5
                # Lists of tensors take a launch where a loop would take one for each.
                torch._foreach_mul_(parameters, 1 - group["lr"] * group["decay"])
                torch._foreach_add_(parameters, updates.unbind(), alpha=-size)

    def _directions(self, parameters: list[Tensor], momentum: float) -> list[Tensor]:
        """Return the Nesterov momentum of each gradient."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        for parameter in parameters:
            if "momentum" not in self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        averages = [self.state[p]["momentum"] for p in parameters]
        torch._foreach_lerp_(averages, gradients, 1 - momentum)
        return list(torch._foreach_lerp(gradients, averages, momentum))


def orthogonal(matrices: Tensor) -> Tensor:
    """Return matrices [..., m, n] with unchanged singular vectors and singular values near one.

    The singular values are about 0.7 to 1.2.
    """
    a, b, c = _COEFFICIENTS
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x: Tensor = matrices.mT if is_tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if is_tall else x
