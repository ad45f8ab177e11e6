"""The synthesiser flite as a library, called through ctypes without a process per sentence.

flite keeps global state: the settings of its voices, and the C library's ``rand`` for the noise in
unvoiced sounds. So only one call runs at a time, and each call sets all the state that it uses.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ChatTTS.errors import EngineUnavailableError

from .types import VOICES

SAMPLE_RATE = 16_000  # Hz, in all four voices
_LIBRARIES = ("libflite.so.1", "libflite_cmulex.so.1", "libflite_usenglish.so.1")
_MISSING = (
    "the synthesiser flite is not here ({error}). It teaches the bundled voice: install it with "
    "`apt install flite`"
)
_TOKEN = b"R:SylStructure.parent.parent.R:Token.parent"


@dataclass(frozen=True)
class Phone:
    """A sound.

    Attributes:
        name: flite's name of the sound; ``pau`` for silence.
        start: seconds.
        end: seconds.
        token: index of the sound's word (words are separated by white space); None for silence,
            and if the text names sounds instead of words.
    """

    name: str
    start: float
    end: float
    token: int | None


@dataclass(frozen=True, eq=False)
class Sound:
    """Speech by flite: float32 [n] within -1 to 1 at ``SAMPLE_RATE``, and its sounds in order."""

    samples: NDArray[np.float32]
    phones: tuple[Phone, ...]


class _Voice(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("features", ctypes.c_void_p))


class _Wave(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_char_p),
        ("sample_rate", ctypes.c_int),
        ("num_samples", ctypes.c_int),
        ("num_channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    )


class Flite:
    """The four voices; thread-safe.

    Raises:
        EngineUnavailableError: flite's libraries are missing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        try:
            # each library needs symbols of those before it
            libraries = [ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL) for name in _LIBRARIES]
            voices = {name: ctypes.CDLL(f"libflite_cmu_us_{name}.so.1") for name in VOICES}
        except OSError as error:
            raise EngineUnavailableError(_MISSING.format(error=error)) from error
        self._library = libraries[0]
        pointer, text, voice = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(_Voice)
        self._say = self._function("flite_synth_text", pointer, text, voice)
        self._say_phones = self._function("flite_synth_phones", pointer, text, voice)
        self._set = self._function("feat_set_float", None, pointer, text, ctypes.c_float)
        self._wave = self._function("utt_wave", ctypes.POINTER(_Wave), pointer)
        self._delete = self._function("delete_utterance", None, pointer)
        self._relation = self._function("utt_relation", pointer, pointer, text)
        self._head = self._function("relation_head", pointer, pointer)
        self._next = self._function("item_next", pointer, pointer)
        self._path = self._function("path_to_item", pointer, pointer, text)
        self._string = self._function("ffeature_string", text, pointer, text)
        self._float = self._function("ffeature_float", ctypes.c_float, pointer, text)
        self._seed = self._function("srand", None, ctypes.c_uint, library=ctypes.CDLL(None))
        self._function("flite_init", ctypes.c_int)()
        self._voices = {
            name: self._function(f"register_cmu_us_{name}", voice, text, library=library)(None)
            for name, library in voices.items()
        }

    def say(
        self,
        text: str,
        voice: str,
        *,
        stretch: float = 1.0,
        pitch: float = 1.0,
        phones: bool = False,
        seed: int = 1,
    ) -> Sound:
        """Speak ``text`` as one utterance; equal arguments give equal bytes.

        Args:
            text: ASCII words and punctuation; with ``phones``, names of sounds ("hh aa").
            voice: one of ``VOICES``.
            stretch: factor of all durations.
            pitch: factor of the fundamental frequency.
            phones: whether ``text`` names sounds.
            seed: seed of the noise in unvoiced sounds.
        """
        handle = self._voices[voice]
        with self._lock:
            self._set(handle.contents.features, b"duration_stretch", stretch)
            self._set(handle.contents.features, b"f0_shift", pitch)
            self._seed(seed % 2**32)
            say = self._say_phones if phones else self._say
            utterance = say(text.encode("ascii"), handle)
            try:
                wave = self._wave(utterance).contents
                samples = np.ctypeslib.as_array(wave.samples, (wave.num_samples,))
                return Sound(
                    samples.astype(np.float32) / np.float32(32768), tuple(self._phones(utterance))
                )
            finally:
                self._delete(utterance)

    def _phones(self, utterance: int) -> Iterator[Phone]:
        tokens = {item: i for i, item in enumerate(self._items(utterance, b"Token"))}
        start = 0.0
        for item in self._items(utterance, b"Segment"):
            end = float(self._float(item, b"end"))
            name = self._string(item, b"name").decode("ascii")
            yield Phone(name, start, end, tokens.get(self._path(item, _TOKEN)))
            start = end

    def _items(self, utterance: int, relation: bytes) -> Iterator[int]:
        item = self._head(self._relation(utterance, relation))
        while item:
            yield item
            item = self._next(item)

    def _function(
        self, name: str, result: Any, *arguments: Any, library: ctypes.CDLL | None = None
    ) -> Any:
        function = getattr(library or self._library, name)
        function.restype, function.argtypes = result, arguments
        return function


@lru_cache(maxsize=1)
def teacher() -> Flite:
    """Return the one :class:`Flite` of the process; flite can be set up only once.

    Raises:
        EngineUnavailableError: flite is not installed.
    """
    return Flite()
