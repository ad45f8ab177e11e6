"""The command as a whole: help, errors, log lines, pipes, and the cost of its start."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from ChatTTS.cli import main
from ChatTTS.cli.console import Console, console_logging, print_error, size, table
from ChatTTS.core import Chat
from ChatTTS.version import __version__

from ..support.places import ROOT

COMMANDS = ("say", "refine", "voice", "compare", "check", "download", "verify", "cache", "doctor")


def test_help_teaches_by_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert out.index("chattts say Hello") < out.index("commands:")
    assert "chattts say --stream - | aplay -f S16_LE -r 24000" in out
    for command in COMMANDS:
        assert f"\n    {command} " in out


@pytest.mark.parametrize(
    "command",
    [*COMMANDS, "voice new", "voice from-audio", "cache clear"],
)
def test_every_command_shows_how_it_is_used(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--help"]) == 0
    assert f"\n  chattts {command.split()[0]}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"chattts-velocity {__version__}\n"


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert "chattts say Hello" in shown.out
    assert not shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sing"], "invalid choice: 'sing'"),
        (["voice"], "COMMAND"),
        (["compare", "a.wav"], "B"),
        (["compare", "a.wav", "b.wav", "c.wav"], "unknown: c.wav"),
        (["doctor", "--fast"], "unknown: --fast"),
        (["voice", "show"], "NAME"),
        # No abbreviations: an option of a later version must not change what a script means.
        (["say", "hi", "--temp", "1"], "--temp"),
    ],
)
def test_a_wrong_command_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("chattts: error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert "--help" in captured.err


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("error: two\n  lines")
    assert capsys.readouterr().err == "chattts: error: two lines\n"


def test_names_of_a_stranger_do_not_control_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Files may have any names, and messages tell them."""
    with console_logging(console := Console()):
        print_error("a\x1b[31m\u202eb")
        console.note("c\x1b]0;title\x07\n%s \u4f60")
        logging.getLogger("ChatTTS.anything").warning("d\x9b1m")
    assert capsys.readouterr().err == (
        "chattts: a\\x1b[31m\\u202eb\nc\\x1b]0;title\\x07\n%s \u4f60\nchattts: warning: d\\x9b1m\n"
    )


@pytest.mark.parametrize(
    ("verbose", "shown"), [(0, ["warning"]), (1, ["info", "warning"]), (2, ["debug", "info"])]
)
def test_how_much_of_the_log_is_shown(
    verbose: int, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("ChatTTS.anything")
    before = list(logging.getLogger("ChatTTS").handlers)
    with console_logging(Console(verbose)):
        for level in ("debug", "info", "warning"):
            getattr(logger, level)("a %s", level)
    lines = capsys.readouterr().err.splitlines()
    assert lines[: len(shown)] == [f"chattts: {level}: a {level}" for level in shown]
    assert logging.getLogger("ChatTTS").handlers == before
    logger.warning("later")
    assert "later" not in capsys.readouterr().err


def test_log_lines_of_other_packages_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with console_logging(Console()):
        warnings.warn_explicit("old", DeprecationWarning, "x.py", 1, module="torch.nn")
        warnings.warn_explicit("mixed up", UserWarning, "x.py", 1, module="ChatTTS.core")
    assert capsys.readouterr().err == "chattts: warning: mixed up\n"
    with console_logging(Console(verbose=2)), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn_explicit("old", UserWarning, "x.py", 1, module="torch.nn")
    assert capsys.readouterr().err == "chattts: warning: old\n"


def test_tables_and_sizes() -> None:
    assert table(("a", "bcd", "e"), ("fgh", "", "i")) == "a    bcd  e\nfgh       i"
    assert [size(n) for n in (0, 999, 1500, 29_000_000, 1_230_000_000)] == [
        "0 B",
        "999 B",
        "2 kB",
        "29 MB",
        "1.23 GB",
    ]


# ---------------------------------------------------------------- in a process of its own


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    homes = {"XDG_DATA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    return {**os.environ, **homes, "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), **more}


def test_help_loads_nothing_from_outside_the_standard_library(tmp_path: Path) -> None:
    code = """
import sys
from ChatTTS.cli import main
before = set(sys.modules)
status = main(["say", "--help"])
loaded = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names
print(status, sorted(name for name in loaded if not name.startswith("_")), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        check=False,
    )
    assert done.stderr.strip() == "0 ['ChatTTS']"


def test_listing_voices_loads_no_model_and_no_torch(tmp_path: Path) -> None:
    code = """
import sys
from ChatTTS.cli import main
status = main(["voice", "list", "--model", "bundled"])
print(status, "torch" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        check=False,
    )
    assert "clara" in done.stdout
    assert done.stderr.splitlines()[-1] == "0 False"


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    # The pipe is closed before the first byte: `| head` does that too, but at a random moment.
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "ChatTTS", "voice", "list", "--model", "bundled", "-q"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        # With unbuffered output, no flush could fail when the interpreter exits.
        env=environment(tmp_path, PYTHONUNBUFFERED=""),
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


def test_speaker_strings_pass_any_pipe(bundled: Chat, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ChatTTS", "voice", "show", "clara", "--model", "bundled"],
        capture_output=True,
        cwd=tmp_path,
        env=environment(tmp_path, PYTHONIOENCODING="ascii"),
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.decode("utf-8").split() == [bundled.config.defaults.speakers["clara"]]
