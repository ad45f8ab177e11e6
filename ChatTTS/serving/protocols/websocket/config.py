"""The settings of a context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ....config.request_fields import KIND_NAMES, REQUEST_FIELDS, fields_on, kind_of, similar_name
from ...encoding.formats import usual_name
from ...errors import BadRequestError
from ...live.messages import is_text
from ...requests.request import parse_field
from ...requests.vendor_voices import is_vendor_voice
from ...speech.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class ContextConfig(RunConfig):
    """The fields of ``session.config``: those of a run, and these.

    Attributes:
        model: any name, since the server has one model.
        audio: ``binary`` frames, or ``base64`` in JSON.
        framing: whether an ``audio.chunk`` always comes before a binary frame.
    """

    model: str | None = None
    audio: str = "binary"
    framing: bool = False

    def updated(self, given: Mapping[str, Any]) -> ContextConfig:
        """Return a copy with these fields; ``None`` stands for the default.

        Raises:
            BadRequestError: a field does not exist, or a value cannot be used.
        """
        defaults = ContextConfig()
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name == "voice" and isinstance(value, dict):
                value = value.get("id")
            elif name == "voice" and type(value) is int and is_vendor_voice(str(value)):
                value = str(value)  # a seed of ChatTTS
            elif name == "response_format":
                value = usual_name(value)
            _check_kind(name, value)
            default = getattr(defaults, name)
            values[name] = default if value is None else parse_field(name, value)
        config = replace(self, **values)
        config.check()
        return config

    @property
    def is_base64(self) -> bool:
        """Return whether the sound is sent in JSON messages."""
        return self.audio == "base64"

    def check(self) -> None:
        """Raise BadRequestError if a value cannot be used."""
        super().check()
        if self.audio not in ("binary", "base64"):
            raise BadRequestError("audio must be binary or base64", param="audio")


# A field of the table that the socket does not have is no field of it.
_ELSEWHERE = {each.name for each in REQUEST_FIELDS} - {each.name for each in fields_on("websocket")}
_KINDS = {each.name: kind_of(each) for each in fields(ContextConfig) if each.name not in _ELSEWHERE}


def _check_kind(name: str, value: Any) -> None:
    kind = _KINDS.get(name)
    if kind is None:
        meant = similar_name(name, _KINDS)
        remedy = f"did you mean {meant!r}?" if meant else f"it has: {', '.join(_KINDS)}"
        raise BadRequestError(f"session.config has no field {name[:40]!r}; {remedy}", param=name)
    if value is None or kind is dict:  # an object has a parser, with errors of its own
        return
    kinds = (int, float) if kind is float else (kind,)
    fits = is_text(value) if kind is str else isinstance(value, kinds)
    if not fits or isinstance(value, bool) != (kind is bool):
        raise BadRequestError(f"{name} must be {KIND_NAMES[kind]}", param=name)
