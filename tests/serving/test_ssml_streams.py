"""SSML over every protocol, and in text that comes in parts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import pytest
import riva.client.proto.riva_tts_pb2 as tts

from ChatTTS.serving.live.document_buffer import DocumentBuffer, TextPart

from ..support.protocol_clients import (
    PROTOCOL_CLIENTS,
    ProtocolClient,
    by_deepgram,
    by_riva,
    by_websocket,
)
from ..support.script_tools import ToneModel, tone_server
from ..support.server_tools import WholeServer
from ..support.serving_tools import PATIENCE, with_limits
from ..support.websocket_tools import Speaker, speaker

SEED = 3
TALK = (
    '<speak>One here.<break time="150ms"/><!-- </speak> --> <voice name="echo">Two '
    '<prosody rate="125%">quickly.</prosody></voice><p>Three.</p><blink>Four.</blink></speak>'
)
SPOKEN = ["One here.", "Two", "quickly.", "Three.", "Four."]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeServer]:
    settings = {"grpc_port": 0, "wyoming_port": 0, **with_limits(characters=2000)}
    with tone_server(tmp_path_factory.mktemp("ssml"), **settings) as (running, _):
        yield running


@pytest.fixture
def model(server: WholeServer) -> ToneModel:
    model = server.service.model
    assert isinstance(model, ToneModel)
    model.jobs.clear()
    return model


@pytest.fixture
def client(server: WholeServer) -> Iterator[Speaker]:
    with speaker(server) as socket:
        socket.say("session.config", voice="edith", seed=SEED)
        yield socket


@pytest.mark.slow
@pytest.mark.parametrize("ask", [by_websocket, by_riva, *PROTOCOL_CLIENTS])
def test_a_document_has_the_same_samples_over_every_protocol(
    ask: ProtocolClient, server: WholeServer, model: ToneModel
) -> None:
    expected = by_deepgram(server, TALK, "edith", SEED)
    model.jobs.clear()
    assert ask(server, TALK, "edith", SEED) == expected
    assert model.said == SPOKEN


def test_text_and_documents_may_follow_each_other(client: Speaker, model: ToneModel) -> None:
    client.say("input.text", text=f" {TALK} Five is here. {TALK[:30]}")
    client.say("input.flush")
    done = client.until("audio.done")
    told = client.all("text.spoken")
    assert [spoken["text"] for spoken in told] == [
        "\n".join(SPOKEN),
        " Five is here.",
        f" {TALK[:30]}",
    ]
    assert told[0]["warnings"] == ["input:1: <blink> is not known; its text is spoken as it is"]
    assert "warnings" not in told[1]
    assert done["text"] == "".join(spoken["text"] for spoken in told)
    # The draws are those of one long text.
    assert [job.first_utterance for job in model.jobs] == [0, 1, 2, 3, 4, 5, 6]
    client.say("input.text", text="<speak>A</speak><speak>B</speak>")
    client.say("input.flush")
    client.until("audio.done")
    assert [(job.text, job.first_utterance) for job in model.jobs[7:]] == [("A", 7), ("B", 8)]


def test_words_of_a_document_have_their_places(client: Speaker) -> None:
    client.say("session.config", word_times=True)
    client.say("input.text", text=TALK + "Five is here.")
    client.say("input.flush")
    text = client.until("audio.done")["text"]
    words = [word for message in client.all("text.words") for word in message["words"]]
    places = [text[word["start_character"] : word["end_character"]] for word in words]
    assert places == [word["word"] for word in words] == [*SPOKEN, "Five is here."]
    assert [word["start"] for word in words] == sorted(word["start"] for word in words)


def test_a_document_waits_for_its_end(client: Speaker, model: ToneModel) -> None:
    client.say("session.config", flush_after=20)
    client.say("input.text", text=TALK[:40])
    client.say("input.text", "other", text="Hello.")
    client.until("audio.done", "other")
    client.say("input.text", "third", text="Hello.")
    client.until("audio.done", "third")  # the first text had more time than this one
    assert model.said == ["Hello.", "Hello."]
    client.say("input.text", text=TALK[40:])
    client.until("audio.done")
    assert model.said[2:] == SPOKEN


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TALK[:40], "its end, </speak>, has not come"),
        ("<speak>1 < 2</speak>", "the document is damaged"),
        ("<speak> <!-- --></speak>", "there is nothing to speak"),
        ('<speak><voice name="nobody">a</voice></speak>', "there is no voice 'nobody'"),
    ],
)
def test_a_bad_document_is_refused_and_the_next_text_is_spoken(
    text: str, problem: str, client: Speaker, model: ToneModel
) -> None:
    client.say("input.text", text=text)
    client.say("input.flush")
    assert problem in client.until("error")["error"]["message"]
    client.until("audio.done")
    client.say("input.text", text="Hello there.")
    client.say("input.flush")
    client.until("audio.done")
    assert model.said == ["Hello there."]


def test_a_cancelled_document_is_forgotten(client: Speaker, model: ToneModel) -> None:
    client.say("input.text", text="<speak>One")
    client.say("input.cancel")
    client.until("audio.cancelled")
    client.say("input.text", text="Two.</speak>")
    client.say("input.flush")
    client.until("audio.done")
    assert model.said == ["Two.</speak>"]


def test_a_document_counts_as_text(client: Speaker) -> None:
    client.say("input.text", text="<speak>" + "a" * 1900)
    client.say("input.text", text="a" * 1900)
    assert client.until("error")["error"]["code"] == "request_too_large"


def test_riva_tells_what_was_left_out_and_refuses_damaged_documents(server: WholeServer) -> None:
    with server.riva_client() as client:
        whole, call = client.stub.Synthesize.with_call(
            tts.SynthesizeSpeechRequest(text=TALK, voice_name="edith"), timeout=PATIENCE
        )
        (warning,) = json.loads(dict(call.initial_metadata())["x-warnings"])
        assert "<blink>" in warning
        assert whole.audio
        assert whole.meta.text == "\n".join(SPOKEN)
        with pytest.raises(grpc.RpcError) as refused:
            client.synthesize("<speak>One <b>two.</speak>", "edith")
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_draws_go_on_after_a_document_in_a_call(server: WholeServer, model: ToneModel) -> None:
    with server.riva_client() as client:
        config = {"seed": "3"}
        texts = [TALK, "Five."]
        assert list(client.synthesize_online(texts, "edith", custom_configuration=config))
    assert [job.first_utterance for job in model.jobs] == [0, 1, 2, 3, 4, 5]


DOCUMENT = '<?xml version="1.0"?>\n<speak>a <!-- </speak> --> <![CDATA[</speak>]]> 1 < 2 </speak >'


@pytest.mark.parametrize(
    ("text", "documents", "rest"),
    [
        (DOCUMENT, [DOCUMENT], []),
        (f"  {DOCUMENT}{DOCUMENT} Yes.", [f"  {DOCUMENT}", DOCUMENT], [" Yes."]),
        ("<speaker> is here.", [], ["<speaker> is here."]),
        ("<s", [], ["<s"]),
        ("<?xml version", [], ["<?xml version"]),
        ("<?xml?> Hello.", [], ["<?xml?> Hello."]),
        ("No. <speak>Yes.</speak>", [], ["No.", " <speak>Yes.</speak>"]),
        ("<speak>a</spea", ["<speak>a</spea"], []),
        ("<speak>a <!-- </speak>", ["<speak>a <!-- </speak>"], []),
    ],
)
def test_documents_are_found_however_the_text_is_cut(
    text: str, documents: list[str], rest: list[str]
) -> None:
    expected = [*(TextPart(d, True) for d in documents), *(TextPart(r, False) for r in rest)]
    for size in (1, 2, 3, 7, len(text)):
        buffer = DocumentBuffer(4)
        found = []
        for at in range(0, len(text), size):
            found += buffer.push(text[at : at + size])
        found += buffer.flush()
        assert found == expected, size
        assert buffer.waiting == 0
