"""Devices that play sound, as sounddevice (PortAudio) knows them.

sounddevice is an optional dependency, imported at first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..errors import AudioError
from ..utils.locks import new_rlock
from .samples import SAMPLE_RATE

# Calls of PortAudio must not overlap, even for different streams. The lock is reentrant, since the
# garbage collector may end a stream while another is opened.
portaudio_lock = new_rlock()


@dataclass(frozen=True)
class SoundDevice:
    """An output device, and the sample format that it takes.

    Attributes:
        query: PortAudio's number of it, a part of its name, or ``None`` for the default device.
        name: its full name.
        rate: in Hz.
        channels: 1, or 2 where it does not take mono.
    """

    query: int | str | None
    name: str
    rate: int
    channels: int


def find_sound_device(query: int | str | None = None) -> SoundDevice:
    """Return the device that a ``Player`` would play on, without opening it.

    Args:
        query: PortAudio's number of a device, or a part of its name; the system's default device
            by default.

    Raises:
        AudioError: sounddevice or its PortAudio is missing, or there is no such device.
    """
    library = import_sounddevice()
    with portaudio_lock:
        try:
            found = library.query_devices(query, "output")
        except (ValueError, library.PortAudioError) as error:
            if query is None:
                raise AudioError(
                    f"no audio output device was found ({error}); write a sound file instead"
                ) from error
            names = [d["name"] for d in library.query_devices() if d["max_output_channels"]]
            raise AudioError(
                f"the sound device {query!r} cannot be found ({error}); use one of: "
                f"{', '.join(names) or 'none is there'}"
            ) from error
        return _with_format(library, query, found)


def _with_format(library: ModuleType, query: int | str | None, found: Any) -> SoundDevice:
    """Return the device that PortAudio describes in ``found``, with the first format it takes."""
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
        f"the sound device {found['name']} cannot play ({reason}); close other programs that use "
        "it, or choose another"
    ) from reason


def import_sounddevice() -> ModuleType:
    """Return the optional module sounddevice.

    Raises:
        AudioError: it is missing, or PortAudio is.
    """
    try:
        import sounddevice
    except ImportError as error:
        raise AudioError(
            "playing needs sounddevice; install it with: pip install 'chattts-velocity[play]'"
        ) from error
    except OSError as error:  # on Linux it comes without PortAudio
        raise AudioError(
            "playing needs the system's PortAudio library; on Debian and Ubuntu install it with: "
            f"sudo apt install libportaudio2 ({error})"
        ) from error
    library: ModuleType = sounddevice
    return library
