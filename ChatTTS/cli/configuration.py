"""Options of a command that may also be environment variables or lines of a TOML file.

Names, types and defaults are those of the parser's own options, so no option is described twice.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ChatTTSError, ConfigError, printable, shown
from .console import UsageError

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_CONFIG = "config"  # this option names the file, so the file cannot have it
# Options that are no settings.
_ACTS = ("help", "print_config")
_TAKES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Origin:
    """The origin of a setting.

    Attributes:
        kind: ``default``, ``file``, ``environment`` or ``option``.
        key: the setting's name there.
        path: the file.
    """

    kind: str
    key: str = ""
    path: Path | None = None

    @property
    def comment(self) -> str:
        """The origin for people who know the setting's name."""
        if self.kind == "file":
            return f"file {printable(str(self.path))}"
        return f"environment {self.key}" if self.kind == "environment" else self.kind

    def __str__(self) -> str:
        return self.key if self.path is None else f"{self.key} in {self.path}"


_DEFAULT = Origin("default")


@dataclass(frozen=True)
class _Option:
    """An option, as the file and the environment have it.

    Attributes:
        key: its name in the file.
        action: its definition.
    """

    key: str
    action: argparse.Action

    @property
    def dest(self) -> str:
        """The attribute of the parsed command line."""
        return self.action.dest

    @property
    def kind(self) -> Any:
        """The type of the value, or of each value of an option that may be repeated."""
        if self.is_flag:
            return bool
        if isinstance(self.action, argparse._CountAction):
            return int
        return str if self.action.type is None else self.action.type

    @property
    def is_flag(self) -> bool:
        """Return whether the option stands without a value."""
        return isinstance(self.action, argparse._StoreConstAction)

    @property
    def is_repeated(self) -> bool:
        """Return whether the option may stand several times."""
        return isinstance(self.action, argparse._AppendAction)

    def from_text(self, text: str, name: str) -> Any:
        """Return the value of an environment variable.

        Raises:
            UsageError: it has another type, or is not among the choices.
        """
        if self.is_repeated:
            parts = (part.strip() for part in text.split(","))
            return [self._checked(part, name) for part in parts if part]
        text = text.strip()
        if self.kind is bool:
            if text.lower() not in (*_TRUE, *_FALSE):
                raise UsageError(f"{name} must be true or false, or 1 or 0, not {shown(text)}")
            return text.lower() in _TRUE
        if self.kind not in (int, float):
            return self._checked(text, name)
        try:
            return self._checked(self.kind(text), name)
        except ValueError as error:
            raise UsageError(f"{name} must be {_TAKES[self.kind]}, not {shown(text)}") from error

    def from_toml(self, value: object, name: str) -> Any:
        """Return the value of a key of the file.

        Raises:
            UsageError: it has another type, or is not among the choices.
        """
        if not self.is_repeated:
            return self._from_item(value, name)
        if not isinstance(value, list):
            raise UsageError(f"{name} must be a list, such as {self._example}")
        return [self._from_item(item, name) for item in value]

    def _from_item(self, value: object, name: str) -> Any:
        written = self.kind if self.kind in (bool, int, float) else str
        if type(value) is int and written is float:
            try:
                value = float(value)
            except OverflowError:
                raise UsageError(f"{name} is too large: {shown(value)}") from None
        if type(value) is not written:
            # A text is not shown, since it may be a key that was written in the wrong place.
            actual = "" if isinstance(value, str | list | dict) else f", not {shown(value)}"
            raise UsageError(f"{name} must be {_TAKES[written]}, such as {self._example}{actual}")
        return self._checked(value, name)

    def _checked(self, value: Any, name: str) -> Any:
        if isinstance(value, str) and "\0" in value:
            raise UsageError(f"{name} contains a NUL character: remove it")
        choices = self.action.choices
        if choices is not None and value not in choices:
            raise UsageError(f"{name} must be one of {', '.join(choices)}, not {shown(value)}")
        if isinstance(self.action, argparse._CountAction) and value < 0:
            raise UsageError(f"{name} must be 0 or more, not {shown(value)}")
        return self.kind(value)

    @property
    def _example(self) -> str:
        """A line of the file with such a value."""
        if self.kind in (bool, int, float):
            usual = (self.action.default, self.action.const, self.kind(1))
            return f"{self.key} = {_toml(next(each for each in usual if each is not None))}"
        words = next(iter(self.action.choices or ()), self.action.metavar or self.key.upper())
        return f"{self.key} = {_toml([words] if self.is_repeated else words)}"


@dataclass(frozen=True)
class Configuration:
    """The options of a parser, with their names in the environment and in a file.

    Attributes:
        parser: it has all its options when a command line is parsed.
        prefix: the beginning of the environment variables.
    """

    parser: argparse.ArgumentParser
    prefix: str

    def blank(self, namespace: argparse.Namespace | None) -> argparse.Namespace:
        """Return a namespace for argparse in which options that are not given stay ``None``."""
        blank = argparse.Namespace(**{option.dest: None for option in self._options().values()})
        return argparse.Namespace(**vars(blank) | vars(namespace or argparse.Namespace()))

    def complete(self, given: argparse.Namespace) -> argparse.Namespace:
        """Add the environment, the file and the defaults to the options that were given.

        Returns:
            All settings, and where each comes from (``origins``).

        Raises:
            UsageError: the file cannot be read, or a value cannot be used; the message names it.
        """
        options = self._options()
        values = {option.dest: self.parser.get_default(option.dest) for option in options.values()}
        origins = dict.fromkeys(values, _DEFAULT)
        environment = list(self._from_environment(options))
        named = [value for option, value, _ in environment if option.key == _CONFIG]
        path = next((each for each in (given.config, *named) if each is not None), None)
        file = [] if path is None else list(_from_file(path, options))
        for layer in (file, environment):
            _refuse_contradictions(layer)
            for option, value, origin in layer:
                if option.is_flag:
                    if not value and values[option.dest] is not option.action.const:
                        continue
                    default = self.parser.get_default(option.dest)
                    value = option.action.const if value else default
                values[option.dest], origins[option.dest] = value, origin
        for dest in values:
            if getattr(given, dest) is not None:
                values[dest], origins[dest] = getattr(given, dest), Origin("option")
        return argparse.Namespace(**vars(given) | values, origins=origins, configuration=self)

    def explained(
        self,
        error: ConfigError | UsageError,
        args: argparse.Namespace,
        check: Callable[[argparse.Namespace], object],
    ) -> ConfigError | UsageError:
        """Return an error of ``check(args)`` that also names the settings that cause it.

        Those are the settings without which there is no error, or, where several are wrong, another
        one. An option is not named: the user has just written it.
        """
        mending, changing = [], []
        for dest, origin in args.origins.items():
            if origin.kind in ("file", "environment"):
                changed = vars(args) | {dest: self.parser.get_default(dest)}
                try:
                    check(argparse.Namespace(**changed))
                except ChatTTSError as other:
                    if str(other) != str(error):
                        changing.append(str(origin))
                else:
                    mending.append(str(origin))
        causes = mending or changing
        if not causes:
            return error
        kind = ConfigError if isinstance(error, ConfigError) else UsageError
        return kind(f"{error} ({', '.join(causes)})")

    def text(self, args: argparse.Namespace, in_force: Mapping[str, Any], about: str) -> str:
        """Return all settings as a TOML file, with their origins as comments.

        Args:
            in_force: values that are used where none is set.
            about: a comment at the top.

        Raises:
            UsageError: a value cannot be written in UTF-8.
        """
        lines = [f"# {line}" for line in about.splitlines()]
        for option in self._options().values():
            if option.key == _CONFIG:
                continue
            value, origin = getattr(args, option.dest), args.origins[option.dest]
            if option.is_flag:
                value = value is option.action.const
            elif value is None:
                value = in_force.get(option.dest)
            if value is None:
                lines.append(f"# {option.key} is not set")
                continue
            lines.append(f"{option.key} = {_toml(value)}  # {origin.comment}")
        text = "".join(f"{line}\n" for line in lines)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            line = text[: error.start].count("\n")
            key = lines[line].partition(" ")[0]
            raise UsageError(f"{key} is not UTF-8 text, so a TOML file cannot hold it") from error
        return text

    def _options(self) -> dict[str, _Option]:
        found = {}
        for action in self.parser._actions:
            long = next((name for name in action.option_strings if name.startswith("--")), None)
            if long is not None and action.dest not in _ACTS:
                key = long[2:].replace("-", "_")
                found[key] = _Option(key, action)
        return found

    def _from_environment(self, options: Mapping[str, _Option]) -> Iterator[_Setting]:
        """Yield what the environment sets; an empty variable sets nothing.

        Raises:
            UsageError: a variable is of no option, or its value cannot be used.
        """
        for name, text in os.environ.items():
            if not name.startswith(self.prefix) or not text.strip():
                continue
            option = options.get(name[len(self.prefix) :].lower())
            if option is None:
                names = [f"{self.prefix}{key.upper()}" for key in options]
                raise UsageError(f"{name} is not an option: {_remedy(name, names)}")
            yield option, option.from_text(text, name), Origin("environment", name)


_Setting = tuple[_Option, Any, Origin]


def make_configurable(parser: argparse.ArgumentParser, prefix: str) -> Configuration:
    """Let the options of a parser be set by the environment and by a file, too.

    Adds ``--config`` and ``--print-config``.

    Args:
        prefix: the beginning of the environment variables.
    """
    group = parser.add_argument_group("configuration")
    group.add_argument(
        f"--{_CONFIG}",
        type=Path,
        metavar="FILE",
        help="TOML file of options, such as port = 8000; a list for those that may be repeated",
    )
    group.add_argument(
        "--print-config",
        action="store_true",
        help="print all settings as such a file, with the origin of each, and do not start",
    )
    return Configuration(parser, prefix)


def _from_file(path: Path, options: Mapping[str, _Option]) -> Iterator[_Setting]:
    """Yield what a TOML file sets.

    Raises:
        UsageError: it cannot be read, a key is of no option, or a value cannot be used.
    """
    found = set()
    for written, value in _read(path).items():
        key = written.replace("-", "_")
        if key == _CONFIG:
            raise UsageError(f"{path}: {written} names another file: put all options into this one")
        option = options.get(key)
        if option is None:
            remedy = _remedy(key, [name for name in options if name != _CONFIG])
            raise UsageError(f"{path}: {shown(written)} is not an option: {remedy}")
        if key in found:
            raise UsageError(f"{path}: {key} appears twice, also spelled with dashes: remove one")
        found.add(key)
        yield option, option.from_toml(value, f"{path}: {written}"), Origin("file", key, path)


def _read(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"the configuration {path} cannot be read: {reason}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: the configuration is not UTF-8 text") from error
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise UsageError(f"{path}: the configuration is not valid TOML: {error}") from error
    return table


def _refuse_contradictions(layer: Sequence[_Setting]) -> None:
    """Refuse two flags of one setting: an order, which a command line has, is not there."""
    flags: dict[str, Origin] = {}
    for option, value, origin in layer:
        if option.is_flag and value:
            if option.dest in flags:
                raise UsageError(
                    f"{flags[option.dest]} contradicts {origin}: set one of them to false"
                )
            flags[option.dest] = origin


def _remedy(name: str, names: Sequence[str]) -> str:
    letters = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name.lower(), letters, 1)
    return f"did you mean {letters[near[0]]}?" if near else "leave it out"


def _toml(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    # TOML has the escapes of JSON, but no pairs of surrogates.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
