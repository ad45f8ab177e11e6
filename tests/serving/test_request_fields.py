"""The table of request fields: every interface has the fields that it says, with their bounds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import fields, replace
from typing import Any

import pytest
from pydantic import ValidationError

from ChatTTS.config.request_fields import (
    GUARDS,
    INTERFACES,
    REQUEST_FIELDS,
    Priority,
    RequestField,
    fields_on,
)
from ChatTTS.params import InferCodeParams
from ChatTTS.serving.errors import BadRequestError
from ChatTTS.serving.protocols.mcp import make_server
from ChatTTS.serving.protocols.rest.body_schemas import PlainBody, RefineBody, SpeechBody
from ChatTTS.serving.protocols.rest.script_schemas import ScriptOptionsBody
from ChatTTS.serving.protocols.riva.request_parsing import parse_configuration
from ChatTTS.serving.protocols.websocket.config import ContextConfig
from ChatTTS.serving.requests.request import SpeechRequest
from ChatTTS.serving.scripts.options import ScriptOptions
from ChatTTS.text import Lexicon

from ..make_fields import DOCUMENT, written
from ..support.places import ROOT

BODIES: dict[str, Any] = {
    "rest": SpeechBody,
    "refine": RefineBody,
    "scripts": ScriptOptionsBody,
    "tts": PlainBody,
}
# A value of each field that is not its default.
VALUES: dict[str, Any] = {
    "seed": 7,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 9,
    "speed": 1.5,
    "refine": True,
    "low_latency": True,
    "guard": "report",
    "language": "zh",
    "lexicon": {"nginx": "engine x"},
    "word_times": True,
    "silence_before": 0.3,
    "silence_after": 0.5,
    "paragraph_pause": 0.7,
    "duration": 2.5,
    "may_be_late": True,
    "voice": "anna",
    "adapter": "base",
    "priority": "batch",
    "max_wait": 2.5,
    "strict": True,
}
BOUNDED = [field for field in REQUEST_FIELDS if field.bounds is not None]
DECIDING = {field.name for field in REQUEST_FIELDS if field.decides}


def parsed(name: str) -> Any:
    """Return the value of a field as a request has it."""
    made = {"lexicon": Lexicon.of(VALUES["lexicon"]), "priority": Priority.BATCH}
    return made.get(name, VALUES[name])


def outside(field: RequestField) -> float:
    """Return a number below the bounds."""
    assert field.bounds is not None
    return field.bounds.least - 1 if field.bounds.least is not None else 0


def named(field: RequestField) -> str:
    return field.name


def test_the_table_names_interfaces() -> None:
    assert {name for field in REQUEST_FIELDS for name in field.on} == {*INTERFACES}
    assert VALUES.keys() == {field.name for field in REQUEST_FIELDS}


def test_the_document_has_the_table() -> None:
    """`python -m tests.make_fields` writes it."""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert written(text) == text


def test_every_parameter_is_one_of_the_calls() -> None:
    known = {field.name for field in fields(InferCodeParams)}
    assert {each.parameter for each in REQUEST_FIELDS if each.parameter} <= known


@pytest.mark.parametrize("interface", BODIES)
def test_bodies_take_every_field(interface: str) -> None:
    fields = {field.name: VALUES[field.name] for field in fields_on(interface)}
    text = {"input": "Hello.", "text": "Hello."}
    given = BODIES[interface].model_validate(text | fields).request_fields()
    assert {name: getattr(given, name) for name in fields} == {n: parsed(n) for n in fields}


@pytest.mark.parametrize("interface", BODIES)
@pytest.mark.parametrize("field", BOUNDED, ids=named)
def test_bodies_know_the_bounds(interface: str, field: RequestField) -> None:
    if interface in field.on:
        text = {"input": "Hello.", "text": "Hello."}
        with pytest.raises(ValidationError, match=field.name):
            BODIES[interface].model_validate(text | {field.name: outside(field)})


def test_scripts_keep_every_field() -> None:
    fields = {field.name: VALUES[field.name] for field in fields_on("scripts")}
    options = ScriptOptions.of(fields)
    assert {name: getattr(options, name) for name in fields} == {n: parsed(n) for n in fields}


def test_a_context_takes_every_field() -> None:
    fields = {field.name: VALUES[field.name] for field in fields_on("websocket")}
    config = ContextConfig().updated(fields)
    assert {name: getattr(config, name) for name in fields} == {n: parsed(n) for n in fields}
    request = config.request("Hello.", 7)
    kept = fields.keys() - {"guard"}  # the service chooses it
    assert {name: getattr(request, name) for name in kept} == {n: parsed(n) for n in kept}


OTHERS = sorted(VALUES.keys() - {field.name for field in fields_on("websocket")})


@pytest.mark.parametrize("name", OTHERS)
def test_a_context_refuses_fields_of_other_interfaces(name: str) -> None:
    with pytest.raises(BadRequestError, match=f"has no field '{name}'"):
        ContextConfig().updated({name: VALUES[name]})


def test_custom_configuration_takes_every_field() -> None:
    fields = {field.name: VALUES[field.name] for field in fields_on("grpc")}
    found = parse_configuration({name: str(value) for name, value in fields.items()})
    assert found == {name: parsed(name) for name in fields}


@pytest.mark.parametrize("field", fields_on("grpc"), ids=named)
def test_custom_configuration_names_the_type(field: RequestField) -> None:
    with pytest.raises(BadRequestError, match=f"^{field.name} in .* must be {field.values}, not"):
        parse_configuration({field.name: "maybe"})


def test_tools_have_every_field() -> None:
    server = make_server(None, None, may_play=True)  # type: ignore[arg-type]
    tools = {tool.name: tool.input_schema for tool in asyncio.run(server.list_tools())}
    wanted = {field.name: field.default for field in fields_on("mcp")}
    for name in ("speak", "save", "read_document"):
        properties = tools[name]["properties"]
        assert wanted.items() <= {n: p.get("default") for n, p in properties.items()}.items()


@pytest.mark.parametrize("field", BOUNDED, ids=named)
def test_a_request_knows_the_bounds(field: RequestField) -> None:
    assert field.bounds is not None
    for value in (outside(field), float("nan"), float("inf"), -(10**400)):
        with pytest.raises(BadRequestError, match=f"^{field.name} must be {field.bounds.rule}$"):
            SpeechRequest("Hello.", **dict[str, Any]({field.name: value}))


@pytest.mark.parametrize("name", VALUES)
def test_the_key_has_what_decides_the_speech(name: str) -> None:
    plain = SpeechRequest("Hello.", seed=1)
    changed = replace(plain, **{name: parsed(name)})
    assert (plain.deciding != changed.deciding) == (name in DECIDING)


@pytest.mark.parametrize("name", ["duration", "silence_before", "silence_after", "paragraph_pause"])
def test_the_key_has_the_seconds_that_the_engine_gets(name: str) -> None:
    """The encoder changes the tempo, so a longer time at a higher tempo is equal sound."""
    asked = dict[str, Any]({name: 2.0})
    slow, fast = (SpeechRequest("Hello.", seed=1, speed=speed, **asked) for speed in (1.0, 2.0))
    assert (slow.job_fields[name], fast.job_fields[name]) == (2.0, 4.0)
    assert slow.deciding != fast.deciding
    longer = SpeechRequest("Hello.", seed=1, **dict[str, Any]({name: 4.0}))
    assert longer.deciding == fast.deciding


def test_what_the_engine_gets_is_in_the_key() -> None:
    request = SpeechRequest("Hello.", seed=1)
    assert (request.job_fields.keys() | {"tags"}) - {"sampling"} <= request.deciding.keys()
    assert all(field.decides for field in REQUEST_FIELDS if field.parameter)


def test_texts_of_values() -> None:
    fields = {field.name: field for field in REQUEST_FIELDS}
    refine, guard = fields["refine"], fields["guard"]
    assert [refine.from_text(text) for text in (" True", "1", "false", "0")] == [1, 1, 0, 0]
    assert [guard.from_text(name.upper()) for name in GUARDS] == list(GUARDS)
    for field, text in ((refine, "2"), (guard, "off"), (fields["seed"], "1.5")):
        with pytest.raises(ValueError, match=r"."):
            field.from_text(text)


# A field that the table alone declares, before anything else is imported.
_NEW_FIELD = """
import asyncio, sys, types
from pathlib import Path
import ChatTTS
path = Path(ChatTTS.__file__).with_name("config") / "request_fields.py"
text = path.read_text(encoding="utf-8")
place = "    speed: float = _field("
new = '''    grain: float | None = _field(
        None,
        "How grainy.",
        "rest refine scripts tts websocket grpc mcp command",
        parameter="grain",
        bounds=Bounds("0 to 1", least=0, most=1),
    )
'''
module = types.ModuleType("ChatTTS.config.request_fields")
module.__package__, module.__file__ = "ChatTTS.config", str(path)
sys.modules[module.__name__] = module
assert place in text
exec(compile(text.replace(place, new + place), str(path), "exec"), vars(module))

from ChatTTS.cli.commands import _parser
from ChatTTS.serving.protocols.mcp import make_server
from ChatTTS.serving.protocols.rest.body_schemas import BatchItem, PlainBody, RefineBody, SpeechBody
from ChatTTS.serving.requests.request import SpeechRequest
from ChatTTS.serving.protocols.rest.script_schemas import ScriptBody, ScriptForm
from ChatTTS.serving.protocols.riva.request_parsing import parse_configuration
from ChatTTS.serving.scripts.options import ScriptOptions
from ChatTTS.serving.protocols.websocket.config import ContextConfig

for body in (SpeechBody, BatchItem, RefineBody, PlainBody, ScriptBody, ScriptForm):
    assert body.model_json_schema()["properties"]["grain"]["description"] == "How grainy."
given = SpeechBody(input="Hello.", grain=0.5).request_fields()
request = SpeechRequest.of("Hello.", given)
assert (request.sampling["grain"], request.deciding["grain"]) == (0.5, 0.5)
assert ContextConfig().updated({"grain": 0.5}).request("Hello.", 1).grain == 0.5
assert parse_configuration({"grain": "0.5"}) == {"grain": 0.5}
assert ScriptOptions.of({"grain": 0.5}).grain == 0.5
tools = asyncio.run(make_server(None, None, may_play=True).list_tools())
assert sum("grain" in tool.input_schema["properties"] for tool in tools) == 3
for command in ("say", "read", "refine"):
    assert _parser().parse_args([command, "--grain", "0.5", "text"]).grain == 0.5
"""


@pytest.mark.slow
def test_a_new_field_is_declared_once() -> None:
    """Every interface, the keys and the options have a field that the table alone names."""
    subprocess.run([sys.executable, "-c", _NEW_FIELD], check=True, cwd=ROOT)
