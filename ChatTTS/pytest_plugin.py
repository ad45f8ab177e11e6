"""The plugin of pytest: the fixture ``speech_regression``.

pytest imports it in every run of an environment that has this package. So it imports nothing of the
package until a test asks for the fixture.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing.regression import SpeechRegression

_LONGEST = 80  # letters of a file's name; the parameters of a test are often whole texts


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fixture."""
    group = parser.getgroup("speech", "speech regression (chattts-velocity)")
    group.addoption(
        "--update-speech",
        action="store_true",
        help="write the references of the tests that run, in place of comparing with them",
    )
    group.addoption(
        "--speech-failures",
        metavar="DIR",
        default="speech-failures",
        help="folder for the sounds and pictures of failed comparisons, relative to the root "
        "folder; %(default)s by default",
    )


@pytest.fixture
def speech_regression(request: pytest.FixtureRequest) -> SpeechRegression:
    """Compares speech with references in the folder ``references`` beside the test."""
    from .testing.regression import SpeechRegression

    config, file = request.config, request.node.path
    module, _, test = request.node.nodeid.partition("::")
    return SpeechRegression(
        references=file.parent / "references" / file.stem,
        failures=config.rootpath / config.getoption("--speech-failures") / _file_name(module),
        name=_file_name(test),
        update=config.getoption("--update-speech"),
    )


def _file_name(node: str) -> str:
    """Return a file name for a part of a node id; tests that differ have names that differ."""
    plain = re.sub(r"[^\w.-]+", "-", node).strip("-")
    if len(plain) <= _LONGEST and re.fullmatch(r"[\w./:-]+(\[[\w.-]+\])?", node):
        return plain
    return f"{plain[:_LONGEST]}-{hashlib.sha256(node.encode()).hexdigest()[:8]}"
