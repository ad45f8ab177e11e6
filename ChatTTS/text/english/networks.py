"""Addresses of networks and machines: "172.16.0.0/12", "10.0.0.1:8080", "fe80::1", "00:1a:2b:…"."""

from __future__ import annotations

import re

from ..number_words import english_digits, english_number
from ..spans import span
from .codes import say_in_pairs, spelled

_ADDRESS = re.compile(
    r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3})(?:/(?P<bits>\d{1,2}))?(?::(?P<port>\d{1,5}))?"
    r"(?!\w|\.\w)"
)
_HEX = "[0-9A-Fa-f]"
# "12:30:45" is a time: a letter or two colons in a row show that it is none.
_GROUPS = re.compile(
    rf"(?<![\w:.])(?=[\d:]{{0,30}}(?:[A-Fa-f]|::))(?=[\w:]{{0,40}}\d)"
    rf"(?:(?:{_HEX}{{1,4}}:{{1,2}}){{2,7}}{_HEX}{{0,4}}|{_HEX}{{1,4}}::{_HEX}{{1,4}}|"
    rf"{_HEX}{{4}}:{_HEX}{{4}})(?:/(?P<bits>\d{{1,3}}))?(?![\w:])"
    r"|(?<![\w:.])(?:(?:\d{1,4}:){3,7}\d{1,4}|\d{4}:\d{4})(?!:?\w|\.\d)"
)


def _say_address(match: re.Match[str]) -> str:
    said = " dot ".join(map(english_digits, match[1].split(".")))
    if match["bits"]:
        said += f" slash {english_number(match['bits'])}"
    if port := match["port"]:
        said += f" port {say_in_pairs(port) if len(port) <= 4 else english_digits(port)}"
    return said


def _say_groups(match: re.Match[str]) -> str:
    groups = re.findall(r"\w+|:+", match[0].split("/")[0].upper())
    said = " ".join("colon " * len(each) if each[0] == ":" else spelled(each) for each in groups)
    return said.strip() + (f" slash {english_number(match['bits'])}" if match["bits"] else "")


NETWORKS = (
    span("addresses of machines", _ADDRESS, _say_address),
    span("addresses in groups", _GROUPS, _say_groups),
)
