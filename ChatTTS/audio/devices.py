"""Devices that play sound, as sounddevice (PortAudio) knows them.

sounddevice is an extra; it is imported when a device is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..errors import AudioError
from ..utils.locks import new_rlock
from .samples import SAMPLE_RATE

# PortAudio's calls must not meet, also those about different streams. Reentrant, since the garbage
# collector may end a stream while another is opened.
portaudio_lock = new_rlock()


@dataclass(frozen=True)
class SoundDevice:
    """A device that plays, and the form in which it takes samples.

    Attributes:
        query: what PortAudio finds it by: a number, a part of its name, or ``None`` (the default).
        name: its whole name.
        rate: frames a second.
        channels: 1, or 2 where it takes no less.
    """

    query: int | str | None
    name: str
    rate: int
    channels: int


def find_sound_device(query: int | str | None = None) -> SoundDevice:
    """The device that a ``Player`` would play on, without opening it.

    Args:
        query: PortAudio's number of a device, or a part of its name; the system's default device
            by default.

    Raises:
        AudioError: sounddevice or its PortAudio is missing, or there is no such device.
    """
    library = import_sounddevice()
    with portaudio_lock:
        return _find(library, query)


def _find(library: ModuleType, query: int | str | None) -> SoundDevice:
    try:
        found = library.query_devices(query, "output")
    except (ValueError, library.PortAudioError) as error:
        if query is None:
            raise AudioError(
                f"there is no sound device to play on ({error}); write a sound file instead"
            ) from error
        names = [d["name"] for d in library.query_devices() if d["max_output_channels"]]
        raise AudioError(
            f"the sound device {query!r} cannot be found ({error}); "
            f"name one of: {', '.join(names) or 'none is there'}"
        ) from error
    return _with_format(library, query, found)


def _with_format(library: ModuleType, query: int | str | None, found: Any) -> SoundDevice:
    """The device of PortAudio's description ``found``, with the first format that it takes."""
    rates = (SAMPLE_RATE, round(found["default_samplerate"]))
    reason: Exception | None = None
    for rate, channels in ((rate, channels) for rate in rates for channels in (1, 2)):
        try:
            library.check_output_settings(query, channels, "float32", samplerate=rate)
        except (ValueError, library.PortAudioError) as error:
            reason = error
        else:
            return SoundDevice(query, found["name"], rate, channels)
    raise AudioError(
        f"the sound device {found['name']} cannot play ({reason}); close what else uses it, or "
        "choose another"
    ) from reason


def import_sounddevice() -> ModuleType:
    """The optional library.

    Raises:
        AudioError: it is missing, or its PortAudio is.
    """
    try:
        import sounddevice
    except ImportError as error:
        raise AudioError(
            "playing needs sounddevice; install it with: pip install 'chattts-velocity[play]'"
        ) from error
    except OSError as error:  # it comes without PortAudio on Linux
        raise AudioError(
            "playing needs the system's PortAudio library; on Debian and Ubuntu install it with: "
            f"sudo apt install libportaudio2 ({error})"
        ) from error
    library: ModuleType = sounddevice
    return library
