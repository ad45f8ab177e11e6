"""The environment of Ray, without Ray."""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType

import pytest

from ChatTTS.errors import EngineUnavailableError
from ChatTTS.utils.ray_environment import prepare


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with Ray installed, and not imported."""
    found = {"RAY_USAGE_STATS_ENABLED": "1"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(os, "environ", found)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    return found


def of_ray(variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith("RAY_")}


def test_a_cluster_of_others_keeps_its_settings(variables: dict[str, str]) -> None:
    prepare("a test", private_cluster=False)
    assert of_ray(variables) == {"RAY_USAGE_STATS_ENABLED": "1"}


def test_a_private_cluster_is_closed_to_others(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare("a test", private_cluster=True)
    first = variables["RAY_AUTH_TOKEN"]
    assert len(first) == 64
    assert variables["RAY_AUTH_MODE"] == "token"
    assert variables["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    prepare("a test", private_cluster=True)
    assert variables["RAY_AUTH_TOKEN"] != first
    # An imported Ray keeps its token for the next cluster of this process.
    second = of_ray(variables)
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    prepare("a test", private_cluster=True)
    assert of_ray(variables) == second


def test_a_ray_that_was_imported_open_is_not_started(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    with pytest.raises(EngineUnavailableError, match="imported before a test"):
        prepare("a test", private_cluster=True)
    prepare("a test", private_cluster=False)
    assert of_ray(variables) == {"RAY_USAGE_STATS_ENABLED": "1"}


def test_without_ray_the_error_names_the_extra(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineUnavailableError, match=r"a test needs Ray.*\[serve,scale\]"):
        prepare("a test", private_cluster=True)
