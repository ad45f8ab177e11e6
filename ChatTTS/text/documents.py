"""Tell documents of SSML from other texts."""

from __future__ import annotations

import re

_SSML = re.compile(r"\A\s*(<\?xml[^>]*>\s*)?<speak[\s>/]", re.IGNORECASE)


def is_ssml(text: str) -> bool:
    """Return whether a text begins with ``<speak``."""
    return _SSML.match(text) is not None
