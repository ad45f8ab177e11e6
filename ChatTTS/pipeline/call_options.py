"""The options of one call of ``Chat.infer`` or ``Chat.stream``.

Each argument of these methods is a field here, or of ``CallManner``, where requests have it as
well. So it is declared once, and travels to the call in one object.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..config.request_fields import CallManner
from ..errors import TextError
from ..params import InferCodeParams, LowLatency, RefineTextParams
from ..text.documents import is_ssml
from ..text.lexicon import LexiconLike
from .call_arguments import checked_texts

Given = ParamSpec("Given")
Owner = TypeVar("Owner")
Options = TypeVar("Options")
Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class CallOptions(CallManner):
    """The arguments of ``Chat.infer``, which describes them; the first may be given by position."""

    text: str | Sequence[str]
    stream: bool = False
    lang: str | None = None
    skip_refine_text: bool = False
    refine_text_only: bool = False
    use_decoder: bool = True
    do_text_normalization: bool = True
    do_homophone_replacement: bool = True
    split_text: bool = True
    max_split_batch: int = 4
    params_refine_text: RefineTextParams | Mapping[str, Any] | None = None
    params_infer_code: InferCodeParams | Mapping[str, Any] | None = None
    _: KW_ONLY
    low_latency: bool | LowLatency | Mapping[str, Any] = False
    interrupt: threading.Event | None = None
    lexicon: LexiconLike | None = None
    reads_ssml: bool = True
    duration: float | Sequence[float | None] | None = None

    first_utterance = 0
    must_speak = False  # whether a text with nothing to speak is an error in any case

    @property
    def is_document(self) -> bool:
        """Return whether the text is a document of SSML."""
        return isinstance(self.text, str) and self.reads_ssml and is_ssml(self.text)

    def texts(self) -> list[str]:
        """Return the texts; raise TextError if one is no string."""
        return checked_texts(self.text)


@dataclass(frozen=True, eq=False)
class StreamOptions(CallOptions):
    """The arguments of ``Chat.stream``: one text, and the rest by name alone."""

    text: str
    _: KW_ONLY
    stream: bool = field(default=True, init=False)
    lang: str | None = None
    skip_refine_text: bool = False
    refine_text_only: bool = field(default=False, init=False)
    use_decoder: bool = True
    do_text_normalization: bool = True
    do_homophone_replacement: bool = True
    split_text: bool = True
    max_split_batch: int = 4
    params_refine_text: RefineTextParams | Mapping[str, Any] | None = None
    params_infer_code: InferCodeParams | Mapping[str, Any] | None = None
    first_utterance: int = 0
    duration: float | None = None

    must_speak = True

    def texts(self) -> list[str]:
        """Return the text in a list; raise TextError if it is no string."""
        if isinstance(self.text, str):
            return [self.text]
        raise TextError("stream speaks one text, a string; infer(texts, stream=True) takes many")


def takes(
    options: Callable[Given, Options],
) -> Callable[[Callable[[Owner, Options], Answer]], Callable[Concatenate[Owner, Given], Answer]]:
    """Return a decorator for a method of options: callers give their fields as its arguments."""

    def decorate(
        answer: Callable[[Owner, Options], Answer],
    ) -> Callable[Concatenate[Owner, Given], Answer]:
        @functools.wraps(answer)
        def answering(self: Owner, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
            return answer(self, options(*args, **kwargs))

        made, returned = vars(options)["__init__"], answer.__annotations__["return"]
        made.__qualname__ = answer.__qualname__  # for errors of arguments
        answering.__annotations__ = {**made.__annotations__, "return": returned}
        signature = inspect.signature(made).replace(return_annotation=returned)
        vars(answering)["__signature__"] = signature
        return answering

    return decorate
