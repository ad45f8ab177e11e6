"""Compare the speech of a test with its reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..audio.compare import compare
from ..audio.files import save
from ..audio.samples import SAMPLE_RATE
from ..errors import AudioError, ConfigError
from .differences import Rules, first_and_worst
from .origin import Origin, model_name
from .references import Reference, ReferenceFiles, word_at
from .sounds import Sound, TimedText

if TYPE_CHECKING:
    from ..pipeline.loaded_chat import LoadedChat

_UPDATE = "if the new sound is right, run this test with --update-speech"


class SpeechDifferenceError(AssertionError):
    """The speech of a test is not what the test demands; the message says how and where."""


class SpeechRegression:
    """The value of the fixture ``speech_regression``.

    Args:
        references: folder of the references.
        failures: folder of failed comparisons, made at the first one.
        name: of the test.
        update: write references in place of comparing.
    """

    def __init__(self, references: Path, failures: Path, name: str, *, update: bool) -> None:
        self._references, self._failures, self._name = references, failures, name
        self._update = update
        self._checked: set[str] = set()

    def check(
        self,
        sound: Any,
        name: str | None = None,
        *,
        exact: bool = False,
        snr: float | None = None,
        spectral: float | None = None,
        words: str | None = None,
        model: str | LoadedChat | None = None,
        voice: str | None = None,
        seed: int | None = None,
        sample_rate: int = SAMPLE_RATE,
        keep_sound: bool = True,
    ) -> None:
        """Compare a sound with its reference, by one rule or several.

        Args:
            sound: a sound file's path; a waveform: array, tensor or list of one; the result of
                ``infer`` for one text; or a stream, which is read to its end. With ``word_times``,
                or the rule ``words``, a failure also names the word.
            name: of the reference, behind that of the test; for a test with several.
            exact: every sample is equal, to the last bit.
            snr: least SNR against the reference, in dB, at equal length. References have 16 bits,
                so that up to some 70 dB can be asked for.
            spectral: greatest log-spectral distance from the reference, in dB; a missing end
                counts as silence.
            words: the English words that a recogniser must hear, each once and in order; needs the
                extra ``check``, and no reference.
            model: the ``Chat`` that spoke, or a name, such as the header ``x-model`` of a server.
            voice, seed: with which it spoke. These three are kept with the reference, and a failure
                says which of them changed.
            sample_rate: of arrays and streams, in Hz.
            keep_sound: ``False`` keeps the hash alone, for ``exact``.

        Raises:
            SpeechDifferenceError: a rule is broken, or there is no reference.
            ConfigError: the rules contradict each other, or a name is used twice.
            AudioError: the sound, the reference or the recogniser cannot be used.
        """
        __tracebackhide__ = True
        rules = Rules(exact, snr, spectral, words)
        if not keep_sound and rules.compares:
            raise ConfigError("keep_sound=False keeps a hash, which only exact=True can compare")
        name = self._new_name(name)
        new = Sound.of(sound, sample_rate)
        if words is not None:
            new = self._with_words(name, new, words)
        if not rules.needs_reference:
            return
        files = ReferenceFiles(self._references / name)
        if self._update:
            files.write(new, _origin(model, voice, seed), keep_sound=keep_sound)
        elif not files.exists():
            self._fail(name, new, ["there is no reference", f"expected in {files.facts}"])
        elif lines := _difference(files, new, rules):
            before, now = files.read().origin, _origin(model, voice, seed)
            lines += [f"reference: {before}", f"now: {now}", now.cause(before), str(files.facts)]
            self._fail(name, new, ["it differs from its reference", *lines], files.read_sound())

    def _new_name(self, name: str | None) -> str:
        whole = self._name if name is None else f"{self._name}-{name}"
        if name == "" or Path(whole).name != whole or whole in self._checked:
            raise ConfigError(
                f"{name!r} names no reference of its own: give each check of a test another name, "
                "without slashes"
            )
        self._checked.add(whole)
        return whole

    def _with_words(self, name: str, new: Sound, words: str) -> Sound:
        """Return the sound with the words that the recogniser hears; fail for others."""
        from ..audio.word_check import check_words

        __tracebackhide__ = True
        heard = check_words(new.samples, words, sample_rate=new.rate)
        if not heard.good:
            self._fail(name, new, ["other words are heard", *str(heard).split("\n")])
        timed = (TimedText(word.text, *word.times[0]) for word in heard.words if word.times)
        return new if new.words else replace(new, words=tuple(timed))

    def _fail(self, name: str, new: Sound, lines: list[str], old: Sound | None = None) -> None:
        """Keep the sounds and their picture, and raise the error of these lines."""
        __tracebackhide__ = True
        folder = self._failures / name
        folder.mkdir(parents=True, exist_ok=True)
        for earlier in ("old.flac", "difference.png"):
            (folder / earlier).unlink(missing_ok=True)
        save(folder / "new.flac", new.samples, new.rate)
        kept = "the new sound is"
        if old is not None:
            save(folder / "old.flac", old.samples, old.rate)
            kept = "both sounds are"
            if old.rate == new.rate:
                kept = _drawn(folder)
        said = [f"{name}: {lines[0]}", *lines[1:], f"{kept} in {folder}", _UPDATE]
        raise SpeechDifferenceError("\n  ".join(said))


def _difference(files: ReferenceFiles, new: Sound, rules: Rules) -> list[str]:
    """Return how a sound breaks the rules, and where; nothing if it keeps them."""
    before, old = files.read(), files.read_sound()
    known, lines = new.words or before.words, []
    if rules.exact and (made := Reference.of(new, Origin())).sha256 != before.sha256:
        place = _place(before.first_change(made), known)
        lines.append(
            f"samples are not equal from {place} on: {new.length}, and the reference has "
            f"{before.length}"
        )
    if rules.compares:
        if old is None:
            raise AudioError(f"{files.sound} is missing; write it again with --update-speech")
        lines += rules.broken(old, new)
    if lines and old is not None and old.rate == new.rate:
        places = first_and_worst(old, new)
        lines.append(
            "first at {}, most at {}".format(*(_place(at, known) for at in places))
            if places
            else "no difference is greater than a step of 16 bits"
        )
    return lines


def _origin(model: str | LoadedChat | None, voice: str | None, seed: int | None) -> Origin:
    """Return the origin; it reads the files of a model, so it is asked for only where needed."""
    return Origin(model=None if model is None else model_name(model), voice=voice, seed=seed)


def _place(seconds: float, words: Any) -> str:
    word = word_at(words, seconds)
    return f"{seconds:.2f} s" + (f' ("{word}")' if word else "")


def _drawn(folder: Path) -> str:
    """Draw both sounds of the folder; return what is in it then."""
    try:
        compare(folder / "old.flac", folder / "new.flac", plot=folder / "difference.png")
    except AudioError as error:
        return f"no picture ({error}); both sounds are"
    return "both sounds and a picture of them are"
