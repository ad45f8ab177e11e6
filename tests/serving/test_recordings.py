"""Recordings that claim, or unpack to, far more than they are."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest

from ChatTTS.errors import AudioError
from ChatTTS.serving.speech import containers


def alac(frames: int = 3) -> bytes:
    """Return a recording in ALAC, as iPhones make them."""
    target = io.BytesIO()
    with av.open(target, "w", format="mov") as container:
        stream = container.add_stream("alac", rate=48_000)
        stream.layout = "mono"
        for _ in range(frames):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 4096), np.int16), "s16p", "mono")
            frame.sample_rate = 48_000
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return target.getvalue()


def read(data: bytes) -> int:
    return len(containers.read(data, "mov", 31, lambda rate, channels: None)[0])


def test_frames_of_gigabytes_are_not_decoded() -> None:
    recording = bytearray(alac())
    place = recording.rindex(b"alac") + 8
    assert recording[place : place + 4] == (4096).to_bytes(4, "big")
    recording[place : place + 4] = (16 << 20).to_bytes(4, "big")
    with pytest.raises(AudioError, match="ALAC frames are too long"):
        read(bytes(recording))


def test_a_recording_in_very_many_pieces_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read(alac()) == 3 * 4096
    monkeypatch.setattr(containers, "_MOST_FRAMES", 2)
    with pytest.raises(AudioError, match="too many packets"):
        read(alac())
