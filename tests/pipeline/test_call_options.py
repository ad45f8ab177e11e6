"""Fields of options are arguments, and scripts find the signatures that they know."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ChatTTS import Chat
from ChatTTS.pipeline.call_options import CallOptions, takes

POSITIONAL = """
self text stream lang skip_refine_text refine_text_only use_decoder
do_text_normalization do_homophone_replacement split_text max_split_batch params_refine_text
params_infer_code
"""


def defaults(method: Callable[..., Any], *, by_position: bool = False) -> dict[str, Any]:
    given = inspect.signature(method).parameters.values()
    return {p.name: p.default for p in given if not by_position or p.kind is not p.KEYWORD_ONLY}


def test_scripts_find_the_signatures_that_they_know() -> None:
    assert list(defaults(Chat.infer, by_position=True)) == POSITIONAL.split()
    assert list(defaults(Chat.stream, by_position=True)) == ["self", "text"]
    infer, stream = defaults(Chat.infer), defaults(Chat.stream)
    differ = {name for name, _ in infer.items() ^ stream.items()}
    assert differ == {"stream", "refine_text_only", "first_utterance"}


def test_a_new_field_is_an_argument() -> None:
    @dataclass(frozen=True, kw_only=True, eq=False)
    class Whispered(CallOptions):
        whispers: bool = False

    class Speaker:
        @takes(Whispered)
        def speak(self, asked: Whispered) -> Whispered:
            return asked

    asked = Speaker().speak("Hush.", whispers=True, guard="retry")
    assert (asked.text, asked.whispers, asked.guard) == ("Hush.", True, "retry")
    assert defaults(Speaker.speak)["whispers"] is False
    assert Speaker.speak.__annotations__["whispers"] == "bool"
    with pytest.raises(TypeError, match=r"Speaker.speak\(\) got an unexpected .* 'shouts'"):
        Speaker().speak("Hush.", shouts=True)  # type: ignore[call-arg]
