"""Riva's client on a server in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest
import riva.client
import riva.client.proto.riva_tts_pb2 as tts
from numpy.typing import NDArray

from ChatTTS.serving.http.auth import Authenticator
from ChatTTS.serving.protocols.riva import GrpcServer, serve_grpc
from ChatTTS.serving.settings import Limits

from .serving_tools import PATIENCE, RunningServer

TEXT = "The sun is up."
LONG = " ".join(["We walk along the river, and then we walk back home again."] * 40)
SEED = {"seed": "5"}
PCM = riva.client.AudioEncoding.LINEAR_PCM
RATE = 24_000
SPEECH = "nvidia.riva.tts.RivaSpeechSynthesis"
NATIVE: dict[str, Any] = {"sample_rate_hz": RATE, "encoding": PCM, "custom_configuration": SEED}


class Client:
    """Riva's client with its stub and channel, for one gRPC server.

    Attributes:
        speech: the client.
        stub: its generated methods.
        channel: sends bytes that are no valid message.
    """

    def __init__(self, server: RunningServer, listening: GrpcServer) -> None:
        self._server, self._listening = server, listening
        self._auth = riva.client.Auth(uri=f"127.0.0.1:{listening.port}")
        self.speech = riva.client.SpeechSynthesisService(self._auth)
        self.stub = self.speech.stub
        self.channel = self._auth.channel

    def refused(self, request: tts.SynthesizeSpeechRequest, **how: Any) -> Any:
        """Return the error that ``Synthesize`` answers with."""
        with pytest.raises(grpc.RpcError) as caught:
            self.stub.Synthesize(request, timeout=PATIENCE, **how)
        return caught.value

    def end(self) -> None:
        """Stop the server, which lets its calls finish."""
        self._server.run(self._listening.stop(PATIENCE))

    def close(self) -> None:
        """Close the channel and stop the server."""
        self.channel.close()
        self._server.run(self._listening.stop(1.0))


@contextlib.contextmanager
def connected(server: RunningServer, keys: tuple[str, ...] = (), **limits: Any) -> Iterator[Client]:
    """Run a gRPC server on the running service; yield its client."""
    settings = replace(server.settings, grpc_port=0, limits=replace(Limits(), **limits))
    client = Client(server, server.run(serve_grpc(server.service, Authenticator(keys), settings)))
    try:
        yield client
    finally:
        client.close()


def ask(text: str = TEXT, **fields: Any) -> tts.SynthesizeSpeechRequest:
    """Make a request with a seed."""
    return tts.SynthesizeSpeechRequest(**{"text": text, "custom_configuration": SEED} | fields)


def zero_shot(text: str = TEXT, **fields: Any) -> tts.SynthesizeSpeechRequest:
    """Make a zero-shot request, which has a recording."""
    data = tts.ZeroShotData(**{"transcript": "what is said"} | fields)
    return ask(text, zero_shot_data=data, voice_name="clara")


def samples(audio: bytes) -> NDArray[np.int16]:
    return np.frombuffer(audio, "<i2")


def same(first: NDArray[np.int16], second: NDArray[np.int16]) -> bool:
    """Return whether two sounds have one length and differ by at most 1 LSB."""
    wide = first.astype(np.int64)
    return len(first) == len(second) and bool(np.abs(wide - second).max() <= 1)


def close(audio: NDArray[np.float32], offline: NDArray[np.int16]) -> bool:
    """Return whether lossy sound is that of ``offline``, over the length that both have."""
    length = min(len(audio), len(offline))
    return bool(np.corrcoef(audio[:length], offline[:length])[0, 1] > 0.95)
