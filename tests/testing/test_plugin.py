"""The plugin in runs of pytest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ChatTTS.pytest_plugin import _file_name
from ChatTTS.testing.regression import SpeechDifferenceError, SpeechRegression

TESTS = """
import numpy as np
import pytest

@pytest.mark.parametrize("text", ["one", "a/b", "a:b"])
def test_talk(speech_regression, text):
    sound = np.random.default_rng(len(text)).normal(0, 0.1, 2400)
    speech_regression.check(sound + {change}, snr=40, voice="{voice}")
"""


@pytest.fixture(scope="module")
def _imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have all modules imported: a run within this process takes back what it imports."""
    folder = tmp_path_factory.mktemp("once")
    noise = np.random.default_rng(0).normal(0, 0.1, 2400)
    SpeechRegression(folder, folder, "noise", update=True).check(noise, snr=40)
    with pytest.raises(SpeechDifferenceError):
        SpeechRegression(folder, folder, "noise", update=False).check(2 * noise, snr=40)


@pytest.fixture
def project(
    _imported: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """An empty folder, in which pytest has this plugin alone."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "ChatTTS.pytest_plugin")
    return pytester


def write(project: pytest.Pytester, change: float = 0, voice: str = "clara") -> None:
    project.makepyfile(test_speech=TESTS.format(change=change, voice=voice))


@pytest.mark.slow
def test_a_reference_is_missing_then_written_then_kept_then_broken(
    project: pytest.Pytester,
) -> None:
    write(project)
    project.runpytest_inprocess().assert_outcomes(failed=3)
    project.runpytest_inprocess("--update-speech").assert_outcomes(passed=3)
    kept = {file.name for file in (project.path / "references/test_speech").iterdir()}
    assert len(kept) == 6
    assert {"test_talk-one.json", "test_talk-one.flac"} < kept
    project.runpytest_inprocess().assert_outcomes(passed=3)
    write(project, change=0.1, voice="lan")
    broken = project.runpytest_inprocess("-k", "one", "--speech-failures", "left")
    broken.assert_outcomes(failed=1, deselected=2)
    broken.stdout.fnmatch_lines(
        ["*SpeechDifferenceError: test_talk-one: *", "*the voice changed from clara to lan*"]
    )
    assert (project.path / "left/test_speech.py/test_talk-one/old.flac").exists()


@pytest.mark.slow
def test_workers_write_references(project: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    write(project)
    workers = project.runpytest_subprocess("-p", "xdist.plugin", "-n", "2", "--update-speech")
    workers.assert_outcomes(passed=3)
    assert len(list((project.path / "references/test_speech").iterdir())) == 6
    project.runpytest_inprocess().assert_outcomes(passed=3)


def test_a_run_that_asks_for_nothing_imports_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_modules():
            heavy = {"numpy", "torch", "soundfile", "ChatTTS.testing", "ChatTTS.audio"}
            assert not heavy & sys.modules.keys()
        """
    )
    project.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("one", "other"),
    [("test_a[x/y]", "test_a[x-y]"), ("test_a[b]", "test_a[b.]"), ("t" * 90, "t" * 91)],
)
def test_tests_that_differ_have_files_that_differ(one: str, other: str) -> None:
    assert _file_name(one) != _file_name(other)
    assert len(_file_name(one)) < 100
    assert _file_name("Test::test_a[b-1.5]") == "Test-test_a-b-1.5"


def test_the_plugin_is_installed_by_its_module_name() -> None:
    """Then a ``conftest.py`` that names it as well loads it once."""
    toml = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert (
        '[project.entry-points.pytest11]\n"ChatTTS.pytest_plugin" = "ChatTTS.pytest_plugin"' in toml
    )
