"""The origin of a reference, so that a changed voice and changed code are told apart."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ..version import __version__

if TYPE_CHECKING:
    from ..pipeline.loaded_chat import LoadedChat

_DIGITS = 12  # of a hash; enough to tell checkpoints apart


@dataclass(frozen=True)
class Origin:
    """The origin of a sound.

    Attributes:
        package: version of this package.
        model, voice, seed: as the test gave them; ``None`` where it did not.
    """

    package: str = __version__
    model: str | None = None
    voice: str | None = None
    seed: int | None = None

    def __str__(self) -> str:
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return ", ".join(f"{name} {value}" for name, value in given.items())

    def cause(self, before: Origin) -> str:
        """Return what may have changed the sound since ``before``, in a sentence."""
        now, then = asdict(self), asdict(before)
        changed = [
            f"the {name} changed from {then[name]} to {now[name]}"
            for name in now
            if now[name] != then[name] and None not in (now[name], then[name])
        ]
        if changed:
            return " and ".join(changed)
        unknown = [name for name in now if None in (now[name], then[name])]
        if unknown:
            return (
                f"the package is the same; whether the {' or the '.join(unknown)} changed is not "
                "known: give them to check()"
            )
        return "package, model, voice and seed are the same: the code or the machine changed it"


def model_name(model: str | LoadedChat) -> str:
    """Return what decides the speech of a loaded ``Chat``, beside voice and seed, as a name."""
    if isinstance(model, str):
        return model
    from ..longform.plan import checkpoint_hash

    loaded = model._loaded
    parts = (
        checkpoint_hash(model._files)[:_DIGITS],
        type(loaded.gpt.engine).__name__,
        loaded.placement.device.type,
        str(loaded.placement.dtype).removeprefix("torch."),
        loaded.placement.quantization,
    )
    return " ".join(filter(None, parts))
