"""The front ends that a checkpoint can ask for."""

from __future__ import annotations

from functools import cache

from ..spoken_form import FrontEnd

# The names for ``defaults.pronunciation`` in a checkpoint's configuration.
FRONT_ENDS = ("phonemes",)


@cache
def front_end_named(name: str) -> FrontEnd:
    """Return one of ``FRONT_ENDS``, ready to be used: its dictionaries are in memory."""
    # Here, since most checkpoints need none of this.
    from ..text.pronunciation.front_end import PhonemeFrontEnd

    assert name == "phonemes"
    return PhonemeFrontEnd()
