"""The corpus: any number of utterances, each made from a seed and its index alone.

Nothing has to be stored, but a folder can keep the speech in shards, each written as a whole or not
at all. A shard's name contains a digest of the program and the word list, so a changed recipe never
reads old speech. Changes of comments and docstrings, or of the flite version, do not change it.
"""

from __future__ import annotations

import ast
import hashlib
import logging
import os
import tempfile
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import numpy as np

import ChatTTS.text
from ChatTTS.errors import ConfigError
from ChatTTS.text.tags import without_tags
from ChatTTS.utils.progress import progress

from .counter_rng import CounterRng
from .speech import speak, stretch, to_float, to_int16
from .texts import SHARES, Shares, utterance
from .types import DEFAULT_SPEED, FRAME_SAMPLES, SPEEDS, Request, Spoken
from .words import dictionary_file

logger = logging.getLogger(__name__)

SHARD = 256  # utterances of a file
LONGEST_SECONDS = 20.0  # estimated; the slowest voice may take up to 3 seconds more
# Seconds of a letter, a word and a control tag at the default speed; fitted to the four voices.
_LETTER_SECONDS, _WORD_SECONDS, _TAG_SECONDS = 0.065, 0.04, 0.5
_SHARDS_IN_MEMORY = 4
_TURNS = ("rms", "slt", "rms", "awb", "kal16")
_SOURCES = (
    "counter_rng", "data", "flite", "grammar", "speech", "texts", "types", "words",
    "words_common", "words_heldout",
)  # fmt: skip

A = TypeVar("A")
B = TypeVar("B")


class Corpus:
    """``count`` utterances; ``corpus[i]`` is the same in every process and on every run.

    The voices take turns; the default voice comes twice as often as each of the others. Six in ten
    utterances have the default speed, the others a random one.

    Args:
        seed: seed of the utterances.
        count: number of utterances.
        folder: folder of the shards; with None nothing is kept, and every access synthesizes.
        shares: how often each kind of text comes.

    Raises:
        ConfigError: ``count`` is negative.
    """

    def __init__(
        self, seed: int, count: int, folder: Path | None = None, shares: Shares = SHARES
    ) -> None:
        if count < 0:
            raise ConfigError(f"a corpus cannot have {count} utterances: use 0 or more")
        self.seed = seed
        self.count = count
        self._folder = folder
        self._shares = shares
        self._loaded: OrderedDict[int, list[Spoken]] = OrderedDict()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Spoken:
        """Return utterance ``index`` from its shard if there is one, else synthesize it."""
        shard, place = divmod(self._checked(index), SHARD)
        if shard not in self._loaded:
            path = self._path(shard)
            if path is None or not path.is_file():
                return _speak(self.request(index))
            self._loaded[shard] = _load(path)
            if len(self._loaded) > _SHARDS_IN_MEMORY:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(shard)
        return self._loaded[shard][place]

    @property
    def digest(self) -> str:
        """Return a digest of all that the speech depends on, except the seed."""
        return hashlib.sha256(f"{_program()} {self._shares}".encode()).hexdigest()[:12]

    def request(self, index: int) -> Request:
        """Return the request that utterance ``index`` is made from."""
        return _request(self.seed, self._checked(index), self._shares)

    def prepare(self, workers: int | None = None) -> None:
        """Make the shards that are missing, in worker processes.

        Args:
            workers: number of processes; None takes one for each core.

        Raises:
            ConfigError: the corpus has no folder.
        """
        if self._folder is None:
            raise ConfigError("this corpus has no folder; give one to keep its shards")
        paths = [(shard, self._path(shard)) for shard in range(-(-self.count // SHARD))]
        missing = [(shard, path) for shard, path in paths if path and not path.is_file()]
        if not missing:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        logger.info("speaking %d shards of %d utterances", len(missing), SHARD)
        make = partial(_make_shard, self.seed, self.count, self._shares)
        with progress("speech", "shard", total=len(missing)) as bar:
            for _ in in_processes(make, missing, workers):
                bar.update()

    def spoken(
        self, start: int = 0, stop: int | None = None, workers: int | None = None
    ) -> Iterator[Spoken]:
        """Yield utterances ``start`` to ``stop`` in order, made by worker processes, not kept."""
        make = partial(_utterance, self.seed, self._shares)
        stop = self.count if stop is None else min(stop, self.count)
        return in_processes(make, range(start, stop), workers, ahead=32)

    def _checked(self, index: int) -> int:
        if not 0 <= index < self.count:
            raise IndexError(f"utterance {index} of a corpus of {self.count}")
        return index

    def _path(self, shard: int) -> Path | None:
        if self._folder is None:
            return None
        size = min(SHARD, self.count - shard * SHARD)
        return self._folder / f"{self.seed}-{shard:05d}-{size}-{self.digest}.npz"


def in_processes(
    function: Callable[[A], B], items: Iterable[A], workers: int | None = None, ahead: int = 2
) -> Generator[B, None, None]:
    """Yield ``function`` of each item, in order, computed by worker processes.

    Processes are spawned, since forks of a process with threads can hang. At most ``ahead`` results
    per worker are pending, so memory stays small when the reader is slow. If a worker dies, this
    generator raises an error.

    Args:
        function: a function that can be imported by name, or a ``partial`` of one.
        items: its arguments.
        workers: number of processes; None takes one for each core, 0 computes in this process.
        ahead: number of pending items per worker.
    """
    if workers == 0:
        yield from map(function, items)
        return
    count = workers or os.cpu_count() or 1
    pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=_silence_errors)
    pending: deque[Future[B]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > count * ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _silence_errors() -> None:
    """Discard standard error: flite writes a line for each pair of sounds that a voice lacks.

    Exceptions still reach the caller.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _request(seed: int, index: int, shares: Shares) -> Request:
    rng = CounterRng(seed, index)
    speed = DEFAULT_SPEED if rng.bernoulli(0.6) else rng.below(SPEEDS)
    while True:
        text = utterance(rng, shares)
        if _seconds(text, speed) <= LONGEST_SECONDS:
            return Request(text, _TURNS[index % len(_TURNS)], speed)


def _seconds(text: str, speed: int) -> float:
    """Estimate how many seconds of speech ``text`` becomes."""
    words = without_tags(text).split()
    spoken = _LETTER_SECONDS * sum(map(len, words)) + _WORD_SECONDS * len(words)
    return stretch(speed) * spoken + _TAG_SECONDS * text.count("[")


def _speak(request: Request) -> Spoken:
    return speak(request.text, request.voice, request.speed)


def _utterance(seed: int, shares: Shares, index: int) -> Spoken:
    return _speak(_request(seed, index, shares))


def _make_shard(seed: int, count: int, shares: Shares, work: tuple[int, Path]) -> None:
    shard, path = work
    first = shard * SHARD
    spoken = [_utterance(seed, shares, i) for i in range(first, min(first + SHARD, count))]
    samples = [to_int16(one.samples) for one in spoken]
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            np.savez(
                file,
                samples=np.concatenate(samples),
                lengths=np.array([len(one) for one in samples]),
                starts=np.concatenate([one.starts for one in spoken]),
                sounds=np.concatenate([one.sounds for one in spoken]),
                texts=np.array([one.text for one in spoken]),
                voices=np.array([one.voice for one in spoken]),
                speeds=np.array([one.speed for one in spoken]),
            )
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)


def _load(path: Path) -> list[Spoken]:
    with np.load(path, allow_pickle=False) as arrays:
        lengths, texts = arrays["lengths"], arrays["texts"].tolist()
        samples = np.split(arrays["samples"], np.cumsum(lengths)[:-1])
        starts = np.split(arrays["starts"], np.cumsum([len(text) for text in texts])[:-1])
        sounds = np.split(arrays["sounds"], np.cumsum(lengths // FRAME_SAMPLES)[:-1])
        voices, speeds = arrays["voices"].tolist(), arrays["speeds"].tolist()
    return [
        Spoken(text, voice, speed, to_float(wave), begin, heard)
        for text, voice, speed, wave, begin, heard in zip(
            texts, voices, speeds, samples, starts, sounds, strict=True
        )
    ]


def code_of(path: Path) -> bytes:
    """Return a module's source without comments, docstrings and layout."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(
            node
        ):
            node.body[0] = ast.Pass()
    return ast.unparse(tree).encode()


@lru_cache(maxsize=1)
def _program() -> str:
    """Return a digest of the recipe's code, the package's normaliser and the word list."""
    digest = hashlib.sha256()
    own = [Path(__file__).with_name(f"{name}.py") for name in _SOURCES]
    package = sorted(Path(ChatTTS.text.__file__).parent.glob("*.py"))
    for path in [*own, *package]:
        digest.update(code_of(path))
    words = dictionary_file()
    if words is not None:
        digest.update(words.read_bytes())
    return digest.hexdigest()
