"""Kernels that came with the package: used where they are whole and of the very sources."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ChatTTS.model.devices import instruction_sets
from ChatTTS.model.devices.instruction_sets import Variant
from ChatTTS.model.kernels.cpu import build, library, prebuilt
from ChatTTS.model.kernels.cpu.prebuilt import (
    CONTENTS,
    ENDINGS,
    DamagedError,
    sources,
    system,
)
from recipes.wheels import packing
from recipes.wheels.kernels import TARGETS, compile_kernels

from ....support.native_tools import Workshop
from ....support.places import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    made = Workshop(tmp_path, monkeypatch)
    monkeypatch.delenv("CXX")
    return made


@pytest.fixture
def variant() -> Variant:
    if (found := instruction_sets.chosen()) is None:
        pytest.skip("no variant is known to run here")
    return found


class Parcel:
    """A folder of kernels as a wheel brings it, with this machine's library for one variant."""

    def __init__(self, folder: Path, variant: Variant, code: bytes) -> None:
        self.folder = folder / "prebuilt"
        self.folder.mkdir()
        self.file = self.folder / f"{variant.name}.{ENDINGS[system().partition('-')[0]]}"
        self.file.write_bytes(code)
        hashes = {variant.name: hashlib.sha256(code).hexdigest()}
        self.list(system=system(), sources=sources(), libraries=hashes)

    def list(self, **contents: Any) -> None:
        (self.folder / CONTENTS).write_text(json.dumps(contents))

    def find(self, variant: Variant) -> tuple[bytes, Path] | None:
        return prebuilt.find_prebuilt(variant, self.folder)


@pytest.fixture
def parcel(
    workshop: Workshop, variant: Variant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Parcel:
    made = Parcel(tmp_path, variant, workshop.compiled.read_bytes())
    monkeypatch.setattr(build, "find_prebuilt", made.find)
    return made


def test_they_need_no_compiler(
    workshop: Workshop, parcel: Parcel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    found = library.load()
    assert found.source.path == parcel.file
    assert not found.source.new
    assert found.chattts_build()
    assert not workshop.cache.exists()


def test_a_named_compiler_is_used_all_the_same(
    workshop: Workshop, parcel: Parcel, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.compiler('for last; do :; done; echo run >> "$LOG"; cp "$KERNELS" "$last"')
    assert build.library().new
    assert workshop.runs == 1


@pytest.mark.parametrize("damage", [lambda code: code[:-1], lambda code: b"", None])
def test_a_damaged_one_is_not_loaded(
    parcel: Parcel,
    variant: Variant,
    damage: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if damage is None:
        parcel.file.unlink()
    else:
        parcel.file.write_bytes(damage(parcel.file.read_bytes()))
    with pytest.raises(DamagedError, match=variant.name):
        parcel.find(variant)
    monkeypatch.setattr(build, "_compiler", lambda: ["no-such-compiler"])
    with pytest.raises(build.BuildError):
        build.library()
    assert "compiled instead" in caplog.text


def test_a_damaged_list_of_contents(parcel: Parcel, variant: Variant) -> None:
    (parcel.folder / CONTENTS).write_text("{")
    with pytest.raises(DamagedError, match=CONTENTS):
        parcel.find(variant)
    parcel.list()
    assert parcel.find(variant) is None
    (parcel.folder / CONTENTS).write_text("[]")
    assert parcel.find(variant) is None


def test_those_of_other_sources_or_systems_are_left(parcel: Parcel, variant: Variant) -> None:
    assert parcel.find(variant) is not None
    contents = json.loads((parcel.folder / CONTENTS).read_text())
    parcel.list(**contents | {"sources": "0" * 64})
    assert parcel.find(variant) is None
    parcel.list(**contents | {"system": "plan9-x86_64"})
    assert parcel.find(variant) is None
    parcel.list(**contents | {"libraries": {}})
    assert parcel.find(variant) is None


def test_every_target_has_variants() -> None:
    assert {target.system for target in TARGETS} >= {"linux-x86_64", "windows-x86_64"}
    for target in TARGETS:
        assert target.variants
        assert len({target.file_name(variant) for variant in target.variants}) == len(
            target.variants
        )


def test_a_wheel_has_them_where_the_package_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, kernels, target = tmp_path / "plain", tmp_path / "kernels", TARGETS[0]
    about = plain / "chattts.dist-info" / "WHEEL"
    about.parent.mkdir(parents=True)
    about.write_text("Root-Is-Purelib: true\nTag: py3-none-any\n")
    kernels.mkdir()
    (kernels / CONTENTS).write_text("{}")
    monkeypatch.setattr(packing, "_python", lambda *arguments: None)
    packing.pack(plain, target, kernels, tmp_path / "dist")
    wheel = tmp_path / f"{target.system}-wheel" / plain.name
    assert (wheel / prebuilt.FOLDER.relative_to(ROOT) / CONTENTS).read_text() == "{}"
    assert f"py3-none-{target.platform}" in (wheel / "chattts.dist-info" / "WHEEL").read_text()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ziglang") is None, reason="needs Zig's compiler")
def test_the_recipe_makes_what_the_package_takes(
    workshop: Workshop, variant: Variant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = next((target for target in TARGETS if target.system == system()), None)
    if target is None:
        pytest.skip(f"no kernels are made for {system()}")
    folder = tmp_path / "made"
    made = list(compile_kernels(target, folder))
    assert len(made) == len(target.variants)
    monkeypatch.setattr(
        build, "find_prebuilt", lambda variant: prebuilt.find_prebuilt(variant, folder)
    )
    monkeypatch.setattr(build, "_compiler", shutil.which)  # never called
    assert library.load().source.path in made
