"""Feed the lines of a machine's texts to every stage of text: ``make sweep-text``.

Manuals, documentation, word lists, a Bible, verses, jokes and source code hold what people write:
capitals beside digits beside marks. No stage may raise, hang, or lose a text in silence.
"""

from __future__ import annotations

import argparse
import gzip
import logging
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from tqdm import tqdm

from ChatTTS.errors import NothingToSpeakError
from ChatTTS.longform.ssml import read_ssml
from ChatTTS.model.tokenizer import Tokenizer
from ChatTTS.text import Lexicon, Normalizer, prepare
from ChatTTS.text.splitter import is_speakable, split_utterances
from ChatTTS.text.tags import without_border_breaks

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    ROOT,
    Path("/usr/share/doc"),
    Path("/usr/share/man"),
    Path("/usr/share/games/fortunes"),
    Path("/usr/share/wordnet"),
    Path("/usr/share/dict"),
    Path("/usr/share/common-licenses"),
)
_NOT_TEXT = {".git", ".venv", "build", "dist", "__pycache__", ".mypy_cache", ".ruff_cache"}
_LARGEST = 20_000_000  # bytes of a file
_LONGEST = 2_000  # characters of a line
LIMIT = 0.05  # seconds of this thread for one line in one stage


@dataclass
class Findings:
    """What a sweep found.

    Attributes:
        lines: how many lines were read.
        raised: lines that a stage raised for, as (stage, error, line).
        slow: lines that a stage took too long for, as (stage, seconds, line).
        lost: lines of which nothing was left, and no warning told so.
        warned: how many lines a reader failed on, by the warning.
    """

    lines: int = 0
    raised: list[tuple[str, str, str]] = field(default_factory=list)
    slow: list[tuple[str, float, str]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    warned: Counter[str] = field(default_factory=Counter)

    @property
    def faults(self) -> int:
        return len(self.raised) + len(self.slow) + len(self.lost) + self.warned.total()


def lines_of(folders: Sequence[Path]) -> Iterator[str]:
    """Yield each line once, of all files of text, zipped ones as well."""
    seen: set[int] = set()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if _NOT_TEXT.isdisjoint(path.parts) and path.is_file():
                for line in _text_of(path).splitlines():
                    key = hash(line)
                    if line.strip() and key not in seen:
                        seen.add(key)
                        yield line[:_LONGEST]
    for line in _bible():
        yield line
    for word in _words():
        yield word.upper()


def stages() -> dict[str, Callable[[str], object]]:
    """Return the stages of text by their names; each takes a line as a caller might give it."""
    known = ["[laugh]", "[uv_break]", "[lbreak]"]
    normalizer, strict = Normalizer(), Normalizer(characters="'?", known_tags=known)
    lexicon = Lexicon.of({"the": "a", "New York": "the city", "重庆": "虫庆", "id": "eye dee"})
    tokenizer = Tokenizer(ROOT / "ChatTTS" / "bundled" / "asset" / "tokenizer")
    return {
        "prepare": lambda line: prepare(line, normalizer),
        "prepare in Chinese": lambda line: prepare(line, strict, lang="zh"),
        "prepare without normalization": lambda line: prepare(
            line, normalizer, do_text_normalization=False
        ),
        "split": split_utterances,
        "tags": without_border_breaks,
        "lexicon": lexicon.apply,
        "SSML": lambda line: read_ssml(f"<speak>{escape(_printable(line))}</speak>", "line"),
        "tokenizer": tokenizer.ids,
    }


def sweep(lines: Iterator[str] | Sequence[str], limit: float | None = LIMIT) -> Findings:
    """Feed every line to every stage.

    Args:
        limit: seconds for one line in one stage; None does not look at the time.
    """
    findings = Findings()
    every = stages()
    with failed_readers() as findings.warned:
        for line in lines:
            findings.lines += 1
            for name, stage in every.items():
                start = time.thread_time()
                try:
                    result = stage(line)
                except NothingToSpeakError:
                    result = None
                except Exception as error:  # what is looked for
                    findings.raised.append((name, repr(error), line))
                    continue
                took = time.thread_time() - start
                if limit is not None and took > limit and _takes_again(stage, line, limit):
                    findings.slow.append((name, took, line))
                if (
                    isinstance(result, list)
                    and name.startswith("prepare")
                    and not (result and all(map(is_speakable, result)))
                ):
                    findings.lost.append(line)
    return findings


@contextmanager
def failed_readers() -> Iterator[Counter[str]]:
    """Count the warnings of readers that failed, while the block runs."""
    counts: Counter[str] = Counter()
    handler = _Warnings(counts)
    logger = logging.getLogger("ChatTTS.text.readers")
    logger.addHandler(handler)
    try:
        yield counts
    finally:
        logger.removeHandler(handler)


def _takes_again(stage: Callable[[str], object], line: str, limit: float) -> bool:
    """Return whether a stage takes so long once more: the first time may have built a table."""
    start = time.thread_time()
    with suppress(NothingToSpeakError):
        stage(line)
    return time.thread_time() - start > limit


class _Warnings(logging.Handler):
    def __init__(self, counts: Counter[str]) -> None:
        super().__init__(logging.WARNING)
        self._counts = counts

    def emit(self, record: logging.LogRecord) -> None:
        self._counts[record.getMessage()[:200]] += 1


def _printable(line: str) -> str:
    """Return a line without the characters that XML does not know."""
    return "".join(c for c in line if c == "\t" or (c >= " " and not "\ud800" <= c <= "\udfff"))


def _text_of(path: Path) -> str:
    """Return the text of a file, or nothing of one that holds something else."""
    try:
        if path.stat().st_size > _LARGEST:
            return ""
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, gzip.BadGzipFile):
        return ""
    return "" if b"\0" in data[:4096] else data.decode("utf-8", "replace")


def _bible() -> Iterator[str]:
    """Yield the verses of the program ``bible``, where it is installed."""
    program = shutil.which("bible")
    if program is not None:
        books = ["gen1:1-rev22:21"]
        done = subprocess.run([program, "-f", *books], capture_output=True, text=True, check=False)
        yield from filter(str.strip, done.stdout.splitlines())


def _words() -> Iterator[str]:
    path = Path("/usr/share/dict/words")
    if path.is_file():
        yield from path.read_text(encoding="utf-8", errors="replace").split()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, help="read so many lines, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.getLogger("ChatTTS").setLevel(logging.ERROR)
    logging.getLogger("ChatTTS.text.readers").setLevel(logging.WARNING)
    lines = list(lines_of(FOLDERS))
    if options.most is not None and options.most < len(lines):
        lines = random.Random(options.seed).sample(lines, options.most)
    start = time.monotonic()
    findings = sweep(tqdm(lines, unit="line", disable=None))
    print(f"{findings.lines} lines in {time.monotonic() - start:.0f} s, {findings.faults} faults")
    for stage, error, line in findings.raised[:20]:
        print(f"{stage} raised {error}: {line[:200]!r}")
    for stage, seconds, line in sorted(findings.slow, key=lambda found: -found[1])[:20]:
        print(f"{stage} took {seconds:.3f} s: {line[:200]!r}")
    for line in findings.lost[:20]:
        print(f"nothing is left, without a warning: {line[:200]!r}")
    for warning, count in findings.warned.most_common(20):
        print(f"{count} times: {warning}")
    return findings.faults > 0


if __name__ == "__main__":
    sys.exit(main())
