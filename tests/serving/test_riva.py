"""Riva's own client on the gRPC interface."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import grpc
import numpy as np
import pytest
import riva.client
import riva.client.proto.riva_tts_pb2 as tts
import soundfile
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from numpy.typing import NDArray

from ChatTTS.audio.pcm import to_int16
from ChatTTS.serving.encoding import Encoder
from ChatTTS.serving.protocols.riva import generate_messages as generate
from ChatTTS.serving.protocols.riva.generated import riva_tts_pb2 as ours
from ChatTTS.serving.requests.request import SpeechRequest
from ChatTTS.serving.speech.speech import Speech

from ..support.riva_tools import (
    NATIVE,
    PCM,
    RATE,
    SPEECH,
    TEXT,
    Client,
    ask,
    close,
    connected,
    same,
    samples,
    zero_shot,
)
from ..support.serving_tools import PATIENCE, RunningServer, running_server


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[Client]:
    with connected(server) as one:
        yield one


@pytest.fixture(scope="module")
def offline(server: RunningServer) -> NDArray[np.int16]:
    """The samples of TEXT that the library gives without a server."""
    return to_int16(server.offline(TEXT, 5))


# -- what Riva's client gets ---------------------------------------------------------------


def test_a_text_gives_the_samples_of_the_library(client: Client, offline: Any) -> None:
    response = client.speech.synthesize(TEXT, **NATIVE)
    assert same(samples(response.audio), offline)
    assert response.meta.text == TEXT
    assert "sun" in response.meta.processed_text
    assert not response.meta.predicted_durations
    assert not response.meta.words


def test_a_stream_gives_them_too(client: Client, offline: Any) -> None:
    chunks = list(client.speech.synthesize_online(TEXT, **NATIVE))
    assert same(samples(b"".join(chunk.audio for chunk in chunks)), offline)
    assert [chunk.meta.text for chunk in chunks if chunk.meta.text] == [TEXT]


def test_texts_of_a_stream_are_spoken_as_one_that_is_cut(
    client: Client, server: RunningServer, offline: Any
) -> None:
    texts = [TEXT, "So are we."]
    second = server.chat.stream(
        texts[1],
        first_utterance=1,
        skip_refine_text=True,
        params_infer_code=server.service.voices.parameters(None) | {"manual_seed": 5},
    )
    whole = np.concatenate([offline, *(to_int16(piece.samples) for piece in second)])
    chunks = list(client.speech.synthesize_online(texts, **NATIVE))
    assert [chunk.meta.text for chunk in chunks if chunk.meta.text] == texts
    assert same(samples(b"".join(chunk.audio for chunk in chunks)), whole)


@pytest.mark.slow
@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_words_have_the_times_of_the_library(
    client: Client, server: RunningServer, speed: float
) -> None:
    params = server.service.voices.parameters(None) | {"manual_seed": 5}
    whole = server.chat.infer(
        TEXT, skip_refine_text=True, params_infer_code=params, word_times=True
    )
    expected = [
        (word.text, round(1000 * word.start / speed), round(1000 * word.end / speed))
        for word in whole.words[0]
    ]
    assert len(expected) == len(TEXT.split())
    settings = NATIVE | {"enable_word_time_offsets": True}
    settings["custom_configuration"] = {"seed": "5", "speed": str(speed)}
    response = client.speech.synthesize(TEXT, **settings)
    assert times(response) == expected
    # The second text of a stream begins where the first one ends.
    chunks = list(client.speech.synthesize_online([TEXT, TEXT], **settings))
    found = [word for chunk in chunks for word in times(chunk)]
    later = len(whole[0]) / RATE / speed * 1000
    assert found[: len(expected)] == expected
    assert found[len(expected)][1] == pytest.approx(later, abs=1)
    assert [word for word, *_ in found] == [word for word, *_ in expected] * 2


def test_words_do_not_wait_for_sound(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Encoder, "push", lambda encoder, samples: b"")
    assert len(times(client.speech.synthesize(TEXT, **NATIVE, enable_word_time_offsets=True))) > 2


def times(response: Any) -> list[tuple[str, int, int]]:
    return [(word.word, word.start_time, word.end_time) for word in response.meta.words]


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100, 48_000])
def test_other_rates_have_the_same_length(client: Client, offline: Any, rate: int) -> None:
    response = client.speech.synthesize(TEXT, **NATIVE | {"sample_rate_hz": rate})
    assert len(samples(response.audio)) == pytest.approx(len(offline) * rate / RATE, abs=1)


def test_flac_is_lossless(client: Client, offline: Any) -> None:
    flac = riva.client.AudioEncoding.FLAC
    response = client.speech.synthesize(TEXT, **NATIVE | {"encoding": flac})
    with av.open(io.BytesIO(response.audio)) as file:
        frames = [frame.to_ndarray()[0] for frame in file.decode(audio=0)]
        assert file.streams.audio[0].rate == RATE
    assert same(np.concatenate(frames), offline)


def test_opus_of_several_texts_is_one_file(client: Client, offline: Any) -> None:
    opus = riva.client.AudioEncoding.OGGOPUS
    texts = [TEXT, "So are we."]
    chunks = list(client.speech.synthesize_online(texts, **NATIVE | {"encoding": opus}))
    data = b"".join(chunk.audio for chunk in chunks)
    audio, rate = soundfile.read(io.BytesIO(data), dtype="float32")
    assert data.count(b"OpusHead") == 1
    assert rate == RATE
    assert len(audio) > 1.4 * len(offline)
    assert close(audio, offline)
    assert [chunk.meta.text for chunk in chunks if chunk.meta.text] == texts


@pytest.mark.parametrize(("name", "subtype"), [("MULAW", "ULAW"), ("ALAW", "ALAW")])
def test_g711(client: Client, offline: Any, name: str, subtype: str) -> None:
    encoding = riva.client.AudioEncoding.Value(name)
    response = client.speech.synthesize(TEXT, **NATIVE | {"encoding": encoding})
    audio, _ = soundfile.read(
        io.BytesIO(response.audio), samplerate=RATE, channels=1, format="RAW", subtype=subtype
    )
    assert len(audio) == len(offline)
    assert close(audio, offline)


def test_the_configuration_lists_voices_that_can_be_asked_for(
    client: Client, server: RunningServer
) -> None:
    response = client.stub.GetRivaSynthesisConfig(tts.RivaSynthesisConfigRequest())
    languages = [config.parameters["language_code"] for config in response.model_config]
    assert languages == ["en-US", "zh-CN"]
    parameters = response.model_config[0].parameters
    names = [voice.split(":")[0] for voice in parameters["subvoices"].split(",")]
    assert names[0] == server.service.voices.default
    other = next(name for name in names if name != names[0])
    response = client.speech.synthesize(
        TEXT, voice_name=f"{parameters['voice_name']}.{other}", **NATIVE
    )
    assert same(samples(response.audio), to_int16(server.offline(TEXT, 5, other)))
    unknown = tts.RivaSynthesisConfigRequest(model_name="other")
    assert not client.stub.GetRivaSynthesisConfig(unknown).model_config


def test_a_voice_by_its_own_name(client: Client, server: RunningServer) -> None:
    response = client.speech.synthesize(TEXT, voice_name="edith", **NATIVE)
    assert same(samples(response.audio), to_int16(server.offline(TEXT, 5, "edith")))


def test_speed_and_unused_settings(client: Client, offline: Any) -> None:
    faster = {"seed": "5", "speed": "2", "priority": "batch", "low_latency": "false"}
    response = client.speech.synthesize(TEXT, **NATIVE | {"custom_configuration": faster})
    assert len(samples(response.audio)) == pytest.approx(len(offline) / 2, abs=2)


def test_ids_and_seeds_are_told(client: Client, offline: Any) -> None:
    request = ask(custom_configuration={}, id={"value": "mine"})
    response, call = client.stub.Synthesize.with_call(request)
    told = dict(call.initial_metadata())
    assert response.id.value == "mine"
    assert told["x-request-id"].startswith("req-")
    assert told["ai-disclosure"].startswith("mode=machine-generated, ")
    again = client.stub.Synthesize(ask(custom_configuration={"seed": told["x-seed"]}))
    assert again.audio == response.audio
    assert not same(samples(response.audio), offline)


def test_a_document_of_ssml_is_spoken(client: Client, offline: Any) -> None:
    ssml = "<speak version='1.1'>The sun is<!-- not > --> up.</speak>"
    response = client.speech.synthesize(ssml, **NATIVE)
    assert response.meta.text == TEXT
    assert same(samples(response.audio), offline)


# -- streams -------------------------------------------------------------------------------


def test_the_first_settings_hold_for_the_others(client: Client, server: RunningServer) -> None:
    first = ask("  ", voice_name="edith", sample_rate_hz=RATE, id={"value": "a"})
    second = tts.SynthesizeSpeechRequest(text=TEXT)
    third = tts.SynthesizeSpeechRequest(
        text=TEXT, voice_name="clara", custom_configuration={"seed": "6"}, id={"value": "b"}
    )
    chunks = list(client.stub.SynthesizeOnline(iter([first, second, third])))
    heard = {
        name: samples(b"".join(chunk.audio for chunk in chunks if chunk.id.value == name))
        for name in ("a", "b")
    }
    assert same(heard["a"], to_int16(server.offline(TEXT, 5, "edith")))
    assert same(heard["b"], to_int16(server.offline(TEXT, 6, "clara")))


def test_a_text_is_complete_before_the_next_one_comes(client: Client, offline: Any) -> None:
    """The last samples of a text, which a resampler holds back, come before the next text."""
    whole = len(offline) * 16_000 // RATE
    heard = threading.Event()
    in_time: list[bool] = []

    def requests() -> Iterator[tts.SynthesizeSpeechRequest]:
        yield ask(sample_rate_hz=16_000)
        in_time.append(heard.wait(PATIENCE))

    length = 0
    for response in client.stub.SynthesizeOnline(requests()):
        length += len(samples(response.audio))
        if length >= whole:
            heard.set()
    assert in_time == [True]


def test_a_stream_keeps_its_audio_settings(client: Client) -> None:
    requests = [ask(), ask(sample_rate_hz=8000)]
    with pytest.raises(grpc.RpcError) as caught:
        list(client.stub.SynthesizeOnline(iter(requests)))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "sample_rate_hz" in caught.value.details()


def test_a_stream_without_text_says_so(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        list(client.stub.SynthesizeOnline(iter([ask(" ")])))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_silent_stream_is_ended(server: RunningServer) -> None:
    over = threading.Event()

    def nothing() -> Iterator[tts.SynthesizeSpeechRequest]:
        over.wait(PATIENCE)
        yield from ()

    with connected(server, idle_seconds=0.1) as client:
        call = client.stub.SynthesizeOnline(nothing())
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
        over.set()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "no text arrived" in caught.value.details()


# -- zero-shot -----------------------------------------------------------------------------


def recording() -> NDArray[np.int16]:
    """A recording of two seconds that is not silent."""
    generator = np.random.default_rng(0)
    return (generator.standard_normal(2 * 16_000) * 3000).astype("<i2")


def beginning(pieces: Iterator[NDArray[np.int16]], most: int = 12_000) -> NDArray[np.int16]:
    """Return about the first ``most`` samples, enough for a random model that gives noise."""
    heard = np.zeros(0, np.int16)
    for piece in pieces:
        heard = np.concatenate([heard, piece])
        if len(heard) >= most:
            break
    assert len(heard)
    return heard[:most]


def test_a_recording_sets_the_voice(client: Client, server: RunningServer) -> None:
    sound = recording()
    sample = server.chat.sample_audio_speaker(sound, 16_000, trim=True)
    with server.chat.stream(
        TEXT,
        skip_refine_text=True,
        params_infer_code={"spk_smp": sample, "txt_smp": "what is said", "manual_seed": 5},
    ) as pieces:
        direct = beginning(to_int16(piece.samples) for piece in pieces)
    request = zero_shot(audio_prompt=sound.tobytes(), encoding=PCM, sample_rate_hz=16_000)
    call = client.stub.SynthesizeOnline(iter([request]))
    served = beginning(samples(response.audio) for response in call)
    call.cancel()
    assert same(served, direct)
    assert server.becomes_idle()


@pytest.mark.parametrize("kind", ["WAV", "FLAC"])
def test_a_recording_may_be_a_file(
    client: Client,
    server: RunningServer,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[SpeechRequest] = []
    speak = server.service.speak

    def watched(request: SpeechRequest) -> Speech:
        seen.append(request)
        return speak(replace(request, sample=None, transcript=None))

    monkeypatch.setattr(server.service, "speak", watched)
    path = tmp_path / "voice"
    soundfile.write(path, recording(), 16_000, format=kind)
    client.speech.synthesize(
        TEXT, zero_shot_audio_prompt_file=path, zero_shot_transcript="what is said", **NATIVE
    )
    assert seen[0].sample == server.chat.sample_audio_speaker(recording(), 16_000, trim=True)
    assert seen[0].transcript == "what is said"


# -- health, reflection, generated code ----------------------------------------------------


def test_health_is_that_of_the_service(client: Client, server: RunningServer) -> None:
    stub = health_pb2_grpc.HealthStub(client.channel)
    known = [health_pb2.HealthCheckRequest(service=name) for name in ("", SPEECH)]
    assert [stub.Check(request).status for request in known] == [1, 1]
    watch = stub.Watch(known[0], timeout=PATIENCE)
    assert next(watch).status == 1
    try:
        server.service.state = "failed"
        assert [stub.Check(request).status for request in known] == [2, 2]
        assert next(watch).status == 2
        error = client.refused(ask())
        assert error.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        server.service.state = "ready"
        watch.cancel()
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service="other"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_reflection_describes_all_services(client: Client) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    request = reflection_pb2.ServerReflectionRequest

    def reflected(asked: Any) -> Any:
        return next(iter(stub.ServerReflectionInfo(iter([asked]), timeout=PATIENCE)))

    listed = reflected(request(list_services="")).list_services_response.service
    assert {service.name for service in listed} == {
        SPEECH,
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    for service in listed:
        answer = reflected(request(file_containing_symbol=service.name))
        files = [
            FileDescriptorProto.FromString(data)
            for data in answer.file_descriptor_response.file_descriptor_proto
        ]
        own = service.name.rpartition(".")[2]
        assert any(own in [s.name for s in file.service] for file in files)


def test_the_messages_are_those_of_the_client() -> None:
    """Each field of the client's messages is in ours; older clients have fewer fields."""
    mine = ours.DESCRIPTOR.message_types_by_name
    for name, descriptor in tts.DESCRIPTOR.message_types_by_name.items():
        for message, fields in _fields(descriptor).items():
            assert fields.items() <= _fields(mine[name])[message].items()


def _fields(descriptor: Any) -> Any:
    described = FileDescriptorProto().message_type.add()
    descriptor.CopyToProto(described)
    return {
        message.name: {
            field.name: (field.number, field.type, field.label, field.type_name)
            for field in message.field
        }
        for message in [described, *described.nested_type]
    }


def test_the_generated_modules_are_up_to_date() -> None:
    pytest.importorskip("grpc_tools")
    folder = Path(generate.__file__).parent / "generated"
    made = {name: text for name, text in generate.modules().items() if name.endswith(".py")}
    assert made == {name: (folder / name).read_text(encoding="utf-8") for name in made}
    assert len(made) == 3
