"""The space that speaker vectors are searched in: where random speakers live.

``spk_stat`` says how random speakers are drawn: each coordinate from a normal distribution of its
own. A point is a vector in units of these distributions. A search stays inside the bounds that 99 %
of random speakers keep: on the size of each coordinate, and on the length of the whole. Beyond
them the model was hardly trained, and a vector there may fit recordings without being speakable.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import VoiceError
from ..model.speaker import Speaker

_SHARE = 0.99  # of random speakers that keep each bound


@dataclass(frozen=True, eq=False)
class SpeakerSpace:
    """Points of speakers.

    Attributes:
        mean: of random speakers, float32 [H].
        std: their standard deviations, float32 [H]; 0 where all speakers are equal.
    """

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, speaker: Speaker, device: torch.device) -> SpeakerSpace:
        """Return the space of a checkpoint.

        Raises:
            VoiceError: it does not say how its random speakers are drawn.
        """
        try:
            std, mean = speaker.std, speaker.mean
        except VoiceError as error:
            raise VoiceError(
                "a speaker cannot be learned with this checkpoint: it does not say where its "
                "random speakers lie (spk_stat in asset/config.json), and a vector elsewhere may "
                "not be speakable. Take a sample prompt (`chattts voice from-audio`)"
            ) from error
        space = cls(*(part.to(device, torch.float32, copy=True) for part in (mean, std)))
        if not space.dimensions:
            raise VoiceError(
                "a speaker cannot be learned with this checkpoint: its random speakers are all "
                "equal (spk_stat in asset/config.json has no deviations)"
            )
        return space

    @property
    def dimensions(self) -> int:
        """The number of coordinates in which speakers differ."""
        return int((self.std > 0).sum())

    @property
    def max_coordinate(self) -> float:
        """The bound on each coordinate of a point."""
        return NormalDist().inv_cdf((1 + _SHARE ** (1 / self.dimensions)) / 2)

    @property
    def max_length(self) -> float:
        """The bound on the length of a point."""
        # Wilson and Hilferty's approximation of the quantile of chi squared.
        ninth = 2 / (9 * self.dimensions)
        root = 1 - ninth + NormalDist().inv_cdf(_SHARE) * ninth**0.5
        return float((self.dimensions * root**3) ** 0.5)

    def drawn(self, count: int, seed: int) -> Tensor:
        """Return the points of random speakers, float32 [count, H]."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(count, len(self.mean), generator=generator).to(self.mean.device)
        return self.bounded(drawn)

    def point(self, vector: NDArray[np.float32]) -> Tensor:
        """Return the point [H] of a normalised speaker vector [H]."""
        direction = torch.from_numpy(vector).to(self.mean)
        away = direction * self._length(direction) - self.mean
        return self.bounded(torch.where(self.std > 0, away / self.std.clamp_min(1e-12), 0.0))

    def _length(self, direction: Tensor) -> Tensor:
        """Return the length that a vector [H] had before it was normalised.

        Coordinates that all speakers share tell it. Without any, it is the usual one.
        """
        shared = torch.where(self.std > 0, 0.0, self.mean)
        along = direction @ shared
        if along > 0:
            return shared.square().sum() / along
        return (self.std.square() + self.mean.square()).sum().sqrt()

    def bounded(self, points: Tensor) -> Tensor:
        """Return the nearest points [..., H] within the bounds."""
        most = self.max_coordinate
        inside = torch.where(self.std > 0, points, 0.0).clamp(-most, most)
        lengths = inside.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        shorter: Tensor = inside * (self.max_length / lengths).clamp_max(1.0)
        return shorter

    def raw(self, points: Tensor) -> Tensor:
        """Return vectors [..., H] as random speakers are drawn, before they are normalised."""
        return self.mean + self.std * points

    def vectors(self, points: Tensor) -> Tensor:
        """Return the normalised vectors [..., H] that the model reads."""
        return torch.nn.functional.normalize(self.raw(points), dim=-1)
