"""The options of ``chattts serve`` as environment variables and in a TOML file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ChatTTS.core
from ChatTTS.cli import main
from ChatTTS.cli.commands import _parse
from ChatTTS.cli.model_process import has_model_process
from ChatTTS.cli.options import Parser
from ChatTTS.cli.serve import _checked, add_to
from ChatTTS.serving.settings import MEBI, Settings

from ..support.places import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.usefixtures("empty_home")

_SECRET = "sk-f00d"


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may load a model, and no API keys of the machine are seen."""
    monkeypatch.delattr(ChatTTS.core, "Chat")
    monkeypatch.delenv("CHATTTS_API_KEYS", raising=False)


def parser() -> Parser:
    """Return the parser of ``chattts serve``."""
    commands = Parser(prog="chattts").add_subparsers()
    add_to(commands)
    return commands.choices["serve"]


SERVE = parser()
# All options but --help, --config and --print-config.
ACTIONS = [
    action for action in SERVE._actions if action.dest not in ("help", "config", "print_config")
]


def option(action: argparse.Action) -> str:
    return next(name for name in action.option_strings if name.startswith("--"))


def key(action: argparse.Action) -> str:
    return option(action).strip("-").replace("-", "_")


def served(*words: str, file: str | None = None) -> Settings:
    """Return the settings of the server for a command line and the text of a file."""
    if file is not None:
        Path("x.toml").write_text(file, encoding="utf-8")
        words = ("--config", "x.toml", *words)
    return _checked(_parse(["serve", *words]))


def printed(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what ``--print-config`` prints; it must succeed without a word of warning."""
    assert main(["serve", *words, "--print-config"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return out


def refused(capfd: pytest.CaptureFixture[str], *words: str, file: str | None = None) -> str:
    """Return the error of a command, which must be one line."""
    if file is not None:
        Path("x.toml").write_text(file, encoding="utf-8")
        words = ("--config", "x.toml", *words)
    assert main(["serve", *words, "--print-config"]) in (1, 2)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("chattts: error: ")
    assert err.count("\n") == 1
    return err


# ---------------------------------------------------------------- every option, from each place


def an_example(action: argparse.Action) -> tuple[list[str], str, str]:
    """Return an option's words, and its value as text of a variable and as TOML."""
    name = option(action)
    if isinstance(action, argparse._CountAction):
        return [name, name], "2", "2"
    if isinstance(action, argparse._StoreConstAction):
        return [name], "yes", "true"
    if isinstance(action, argparse._AppendAction):
        return [f"{name}=a", f"{name}=b"], "a, b", '["a", "b"]'
    if action.choices:
        value = [each for each in action.choices if each != action.default][-1]
        return [name, value], value, f'"{value}"'
    if action.type in (int, float):
        return [name, "7"], "7", "7"
    return [name, "a/b"], "a/b", '"a/b"'


@pytest.mark.slow
@pytest.mark.parametrize("action", ACTIONS, ids=key)
def test_an_option_a_variable_and_a_line_are_one(
    action: argparse.Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, text, toml = an_example(action)
    wanted = getattr(_parse(["serve", *words]), action.dest)
    assert wanted != SERVE.get_default(action.dest)
    for written in (key(action), key(action).replace("_", "-")):
        Path("x.toml").write_text(f"{written} = {toml}\n", encoding="utf-8")
        by_file = getattr(_parse(["serve", "--config", "x.toml"]), action.dest)
        assert (by_file, type(by_file)) == (wanted, type(wanted))
    monkeypatch.setenv(f"CHATTTS_SERVE_{key(action).upper()}", text)
    by_variable = getattr(_parse(["serve"]), action.dest)
    assert (by_variable, type(by_variable)) == (wanted, type(wanted))


def test_options_go_before_variables_and_these_before_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = 'port = 1\nhost = "::1"\nmax_running = 3\ncors = ["https://a.example"]\n'
    monkeypatch.setenv("CHATTTS_SERVE_PORT", "2")
    monkeypatch.setenv("CHATTTS_SERVE_HOST", "127.0.0.2")
    monkeypatch.setenv("CHATTTS_SERVE_MAX_WAITING", "")  # as if it were not there
    found = served("--port", "8000", "--cors", "https://b.example", file=file)
    assert (found.port, found.host, found.limits.running) == (8000, "127.0.0.2", 3)
    assert found.cors_origins == ("https://b.example",)
    assert found.limits.waiting == Settings().limits.waiting


def test_the_environment_may_name_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("x.toml").write_text("port = 1\n")
    Path("y.toml").write_text("port = 2\n")
    monkeypatch.setenv("CHATTTS_SERVE_CONFIG", "x.toml")
    assert served().port == 1
    assert served("--config", "y.toml").port == 2


def test_a_flag_that_is_false_takes_back_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc")  # without it there is no port of gRPC
    file = "no_grpc = true\nrequire_keys = true\n"
    monkeypatch.setenv("CHATTTS_API_KEYS", "k")
    monkeypatch.setenv("CHATTTS_SERVE_NO_GRPC", "0")
    monkeypatch.setenv("CHATTTS_SERVE_OPEN", "false")
    found = served(file=file)
    assert found.grpc_port == Settings().grpc_port
    assert found.needs_keys is True
    monkeypatch.setenv("CHATTTS_SERVE_REQUIRE_KEYS", "false")
    assert served(file=file).needs_keys is None
    assert served("--open", file=file).needs_keys is False


def test_verbosity_is_a_setting_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATTTS_SERVE_VERBOSE", "2")
    assert _parse(["serve"]).verbose == 2
    assert _parse(["serve", "-v"]).verbose == 1


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("prot = 1", "x.toml: 'prot' is not an option: did you mean port?"),
        ("Max-Runing = 1", "did you mean max_running?"),
        ("[limits]\nrunning = 1", "'limits' is not an option"),
        ("zzz = 1", "x.toml: 'zzz' is not an option: leave it out"),
        ('port = "1"', "x.toml: port must be a whole number, such as port = 8000"),
        ("port = 1.0", "x.toml: port must be a whole number, such as port = 8000, not 1.0"),
        ("port = true", "x.toml: port must be a whole number"),
        ("wyoming_port = true", "such as wyoming_port = 10200, not True"),
        ("drain-delay = true", "x.toml: drain-delay must be a number, such as drain_delay = 0.0"),
        (f"drain_delay = 1{'0' * 400}", "drain_delay is too large"),
        ("no_grpc = 1", "x.toml: no_grpc must be true or false, such as no_grpc = false, not 1"),
        ('cors = "*"', 'x.toml: cors must be a list, such as cors = ["ORIGIN"]'),
        ("cors = [1]", 'cors must be text, such as cors = ["ORIGIN"], not 1'),
        ("host = 1979-05-27", 'x.toml: host must be text, such as host = "HOST"'),
        ('guard = "no"', "x.toml: guard must be one of retry, report, none, not 'no'"),
        ('voice = "a\\u0000"', "x.toml: voice contains a NUL character"),
        ("verbose = -1", "x.toml: verbose must be 0 or more, not -1"),
        ("no_grpc = true\nno-grpc = true", "x.toml: no_grpc appears twice"),
        (
            "open = true\nrequire_keys = true",
            "open in x.toml contradicts require_keys in x.toml: set",
        ),
        ('config = "y.toml"', "x.toml: config names another file"),
        ("port = ", "x.toml: the configuration is not valid TOML"),
        ("port = 1" + "0" * 5000, "x.toml: the configuration is not valid TOML"),
        # Ranges, which the server checks.
        ("max_running = 0", "running must be above 0, not 0 (max_running in x.toml)"),
        ("max_wait_seconds = nan", "above 0, not nan (max_wait_seconds in x.toml)"),
        ("port = 70000", "port must be from 0 to 65535, not 70000 (port in x.toml)"),
        ("grpc_port = -1", "not -1 (grpc_port in x.toml)"),
        ("threads = 0", "not 0 (threads in x.toml)"),
        ('memory = "much"', "not 'much' (memory in x.toml)"),
        ("tensor_parallel_size = 0", "not 0 (tensor_parallel_size in x.toml)"),
        ("data_parallel_size = 0", "must be 1 or more (data_parallel_size in x.toml)"),
        ('engine = "standard"', "the server needs --engine velocity"),
        ('alias = ["anna"]', "not 'anna' (alias in x.toml)"),
        ('tls_cert = "c.pem"', "give both or none (tls_cert in x.toml)"),
    ],
)
def test_what_a_file_may_not_have(
    file: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capfd, file=file)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("PROT", "1", "CHATTTS_SERVE_PROT is not an option: did you mean CHATTTS_SERVE_PORT?"),
        ("PORT", "x", "CHATTTS_SERVE_PORT must be a whole number, not 'x'"),
        ("DRAIN_DELAY", "x", "CHATTTS_SERVE_DRAIN_DELAY must be a number, not 'x'"),
        ("NO_GRPC", "maybe", "CHATTTS_SERVE_NO_GRPC must be true or false, or 1 or 0, not 'maybe'"),
        ("GUARD", "no", "CHATTTS_SERVE_GUARD must be one of retry, report, none, not 'no'"),
        ("VERBOSE", "-1", "CHATTTS_SERVE_VERBOSE must be 0 or more, not -1"),
        ("MAX_RUNNING", "0", "running must be above 0, not 0 (CHATTTS_SERVE_MAX_RUNNING)"),
    ],
)
def test_what_a_variable_may_not_be(
    name: str,
    text: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(f"CHATTTS_SERVE_{name}", text)
    assert message in refused(capfd)


def test_all_that_causes_an_error_is_named_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHATTTS_SERVE_GRPC_PORT", "5")
    err = refused(capfd, file="port = 5\nmax_running = 8\n")
    assert "(port in x.toml, CHATTTS_SERVE_GRPC_PORT)" in err
    monkeypatch.delenv("CHATTTS_SERVE_GRPC_PORT")
    # Without the first line comes another error.
    err = refused(capfd, file="max_running = 0\nmax_waiting = 0\n")
    assert "running must be above 0, not 0 (max_running in x.toml)" in err
    # Without one of a pair comes another error, but the pair is right.
    pair = 'tls_cert = "a"\ntls_key = "b"\n'
    err = refused(capfd, file=f"{pair}drain_delay = -1\n")
    assert "(drain_delay in x.toml)" in err
    # The user has just written the option.
    monkeypatch.setenv("CHATTTS_SERVE_GRPC_PORT", "5")
    assert "(CHATTTS_SERVE_GRPC_PORT)" in refused(capfd, "--port", "5", file="port = 6\n")


@pytest.mark.parametrize("value", ["inf", "nan", "-inf"])
def test_sizes_are_numbers(value: str, capfd: pytest.CaptureFixture[str]) -> None:
    err = refused(capfd, file=f"script_upload = {value}\n")
    assert "script-upload must be a number of MB" in err


def test_names_with_line_breaks_stay_on_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    name = "a\nport = 7\x1b.toml"
    Path(name).write_text("port = 8\n")
    out = printed(capfd, "--config", name)
    assert "port = 8  # file a\\nport = 7\\x1b.toml\n" in out
    assert tomllib.loads(out)["port"] == 8
    Path(name).write_text("prt = 8\n")
    assert "\\x1b" in refused(capfd, "--config", name)


def test_files_that_cannot_be_read(capfd: pytest.CaptureFixture[str]) -> None:
    assert "the configuration gone.toml cannot be read" in refused(capfd, "--config", "gone.toml")
    assert "the configuration . cannot be read" in refused(capfd, "--config", ".")
    Path("x.toml").write_bytes(b'host = "\xff"')
    assert "x.toml: the configuration is not UTF-8 text" in refused(capfd, "--config", "x.toml")


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    "file",
    [
        f'api_keys = "{_SECRET}"',
        f'api_keys = "{_SECRET * 100}"',
        f'api_keys = ["{_SECRET}"]',
        f'api_keys = {{first = "{_SECRET}"}}',
        f'API_KEY = "{_SECRET}"',
        f'port = "{_SECRET}"',
    ],
)
def test_keys_in_the_place_of_their_file_are_not_shown(
    file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _SECRET not in refused(capfd, file=file)


def test_a_file_names_the_file_of_the_keys(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("keys.txt").write_text(_SECRET)
    monkeypatch.setenv("CHATTTS_API_KEYS", f"one,{_SECRET}2")
    assert served(file='api_keys = "keys.txt"').api_keys == ("one", f"{_SECRET}2", _SECRET)
    out = printed(capfd, "--config", "x.toml")
    assert 'api_keys = "keys.txt"  # file x.toml\n' in out
    assert "# CHATTTS_API_KEYS has 2 API keys, which are not shown.\n" in out
    assert _SECRET not in out
    monkeypatch.setenv("CHATTTS_SERVE_API_KEYS", _SECRET)
    err = refused(capfd)
    assert "give a file with one key per line (CHATTTS_SERVE_API_KEYS)" in err
    assert _SECRET not in err


# ---------------------------------------------------------------- --print-config


def test_the_origins_of_settings_are_printed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHATTTS_SERVE_NAME", "a.example,b.example")
    Path("x.toml").write_text("no-grpc = true\nscript-upload = 1\n")
    out = printed(capfd, "--config", "x.toml", "--port", "1")
    lines = out.splitlines()
    assert "port = 1  # option" in lines
    assert 'name = ["a.example", "b.example"]  # environment CHATTTS_SERVE_NAME' in lines
    assert "no_grpc = true  # file x.toml" in lines
    assert "script_upload = 1.0  # file x.toml" in lines
    assert 'host = "127.0.0.1"  # default' in lines
    assert "# voices is not set" in lines
    assert "# grpc_port is not set" in lines
    limits = Settings().limits
    assert f"max_running = {limits.running}  # default" in lines
    assert f"script_disk = {limits.script_disk_bytes / MEBI}  # default" in lines
    written = {line.lstrip("# ").split(" ")[0] for line in lines[1:]}
    assert written == set(map(key, ACTIONS))


def test_what_was_printed_can_be_read(capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(capfd, "--port", "1", "--alias", "alloy=anna", "--open", "--max-running", "3")
    Path("y.toml").write_text(out)
    again = printed(capfd, "--config", "y.toml")
    assert tomllib.loads(again) == tomllib.loads(out)
    assert served("--config", "y.toml") == served(
        "--port", "1", "--alias", "alloy=anna", "--open", "--max-running", "3"
    )


def test_texts_are_escaped() -> None:
    voice = "a\x7f\x1b\\\"'\n\r\t安\U0001f600# \u2028"
    args = SERVE.parse_args([f"--voice={voice}", "--name=", f"--name={voice}"])
    table = tomllib.loads(args.configuration.text(args, {}, ""))
    assert (table["voice"], table["name"]) == (voice, ["", voice])


def test_what_no_toml_file_can_have_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert "voice is not UTF-8 text" in refused(capfd, "--voice", "a\udcff")


def values(action: argparse.Action) -> st.SearchStrategy[list[str]]:
    """Return a strategy for the words that set an option."""
    name = option(action)
    if isinstance(action, argparse._CountAction | argparse._StoreConstAction):
        return st.just([name])
    texts: st.SearchStrategy[Any] = st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    )
    if action.choices:
        texts = st.sampled_from(list(action.choices))
    elif action.type is int:
        texts = st.integers()
    elif action.type is float:
        texts = st.floats(allow_nan=False)
    one = texts.map(lambda text: f"{name}={text}")
    most = 3 if isinstance(action, argparse._AppendAction) else 1
    return st.lists(one, min_size=1, max_size=most)


@pytest.mark.slow
@given(st.lists(st.sampled_from(ACTIONS).flatmap(values), max_size=8))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_all_settings_survive_being_printed_and_read(options: list[list[str]]) -> None:
    args = SERVE.parse_args([word for words in options for word in words])
    text = args.configuration.text(args, {}, "")
    with open("z.toml", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    again = SERVE.parse_args(["--config", "z.toml"])
    for action in ACTIONS:
        assert getattr(again, action.dest) == getattr(args, action.dest)
    assert tomllib.loads(again.configuration.text(again, {}, "")) == tomllib.loads(text)


def test_the_help_names_both_other_ways(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    text = capfd.readouterr().out
    for words in ("CHATTTS_SERVE_MAX_RUNNING=8", "--config", "--print-config"):
        assert words in text


def test_the_file_of_the_documentation_is_one() -> None:
    page = (ROOT / "docs" / "serving" / "configuration.md").read_text(encoding="utf-8")
    example = page.partition("```toml\n# serve.toml\n")[2].partition("```")[0]
    Path("x.toml").write_text(example, encoding="utf-8")
    args = _parse(["serve", "--config", "x.toml"])
    assert (args.host, args.running, args.log_texts) == ("0.0.0.0", 8, True)
    assert args.cors == ["https://a.example", "https://b.example"]


@pytest.mark.parametrize(
    ("options", "has_gpu", "expected"),
    [
        ([], True, True),
        ([], False, False),
        (["--device", "cuda:1"], False, True),
        (["--device", "cpu"], True, False),
        (["--no-model-process"], True, False),
        (["--model-process"], False, True),
        (["--idle-unload", "5"], True, False),
        (["--distributed-executor-backend", "ray"], True, False),
    ],
)
def test_a_model_on_a_gpu_has_its_own_process_unless_an_option_says_otherwise(
    options: list[str], has_gpu: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: has_gpu)
    parsed = SERVE.parse_args(options)
    assert has_model_process(parsed) is expected
