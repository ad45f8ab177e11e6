"""Variants of the CPU kernels: which run, which are refused, and that forcing one has an effect."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from ChatTTS.errors import ConfigError
from ChatTTS.model.devices import instruction_sets
from ChatTTS.model.devices.arm_features import features_of_linux, features_of_macos
from ChatTTS.model.devices.instruction_sets import (
    AMX,
    FORCED,
    NO_AMX_FLAGS,
    VARIANTS,
    Variant,
    checked,
    fastest,
    forced,
)
from ChatTTS.model.kernels.cpu import build, library

from ...support.places import ROOT

BEST = {
    machine: frozenset().union(*(v.needs for v in VARIANTS if v.machine == machine))
    for machine in ("x86_64", "aarch64")
}
NEEDS = {variant.name: variant.needs for variant in VARIANTS}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_processor_with_every_feature_runs_every_variant(variant: Variant) -> None:
    assert checked(variant.name, variant.machine, BEST[variant.machine]) is variant


def test_names_are_unique() -> None:
    assert len(NEEDS) == len(VARIANTS)


def test_a_lacking_feature_is_named_with_the_variants_that_run() -> None:
    with pytest.raises(
        ConfigError, match=r"lacks avx512_bf16, avx512_vnni; .*: x86-64-v2, x86-64-v3, x86-64-v4$"
    ):
        checked("x86-64-v4-bf16", "x86_64", NEEDS["x86-64-v4"])


def test_a_variant_of_another_architecture_is_refused() -> None:
    with pytest.raises(ConfigError, match="it is for aarch64, and this machine is x86_64"):
        checked("arm64", "x86_64", BEST["x86_64"] | BEST["aarch64"])


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ("asimd atomics", "arm64"),
        ("asimd atomics asimddp", "arm64-dotprod"),
        ("asimd asimddp bf16 i8mm", "arm64"),  # an emulator may leave out anything
        ("asimd atomics asimddp i8mm", "arm64-dotprod"),
        ("asimd atomics asimddp bf16", "arm64-bf16"),
        ("asimd atomics asimddp bf16 i8mm", "arm64-i8mm"),
    ],
)
def test_the_fastest_variant_of_arm(features: str, name: str) -> None:
    best = fastest("aarch64", frozenset(features.split()))
    assert best is not None
    assert best.name == name


def test_a_feature_that_arm_lacks_is_named() -> None:
    with pytest.raises(ConfigError, match=r"lacks bf16, i8mm; .*: arm64, arm64-dotprod$"):
        checked("arm64-i8mm", "aarch64", NEEDS["arm64-dotprod"])


def test_linux_tells_of_arm_by_bits() -> None:
    """The words of a Neoverse N1, of a Neoverse V1 and of a Cortex-A53 by Linux."""
    n1, v1, a53 = (0x1FFFFFFF & ~(1 << 19), 0), (0x1FFFFFFF, 0x1 << 13 | 0x1 << 14), (0xFF, 0)
    for words, name in ((n1, "arm64-dotprod"), (v1, "arm64-i8mm"), (a53, "arm64")):
        word = dict(zip((16, 26), words, strict=True)).__getitem__
        best = fastest("aarch64", features_of_linux(word))
        assert best is not None
        assert best.name == name


def test_macos_tells_of_arm_by_names() -> None:
    m1 = {"hw.optional.arm.FEAT_LSE", "hw.optional.arm.FEAT_DotProd"}
    m2 = m1 | {"hw.optional.arm.FEAT_BF16", "hw.optional.arm.FEAT_I8MM"}
    assert features_of_macos(m1.__contains__) == NEEDS["arm64-dotprod"]
    assert features_of_macos(m2.__contains__) == NEEDS["arm64-i8mm"]
    assert features_of_macos(lambda name: False) == NEEDS["arm64"]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(
        ConfigError,
        match=r"no such variant; variants that run here: arm64, .*, arm64-bf16, arm64-i8mm$",
    ):
        checked("avx1024", "aarch64", BEST["aarch64"])


def test_a_system_that_tells_nothing_runs_none_by_name() -> None:
    with pytest.raises(ConfigError, match="none that this system tells of"):
        checked("x86-64-v2", "x86_64", frozenset())


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_the_fastest_variant_that_runs(variant: Variant) -> None:
    assert fastest(variant.machine, variant.needs) is variant
    assert fastest("riscv64", variant.needs) is None


def test_torch_tells_the_features_where_the_system_does_not() -> None:
    """Both name what this processor has; torch's names are those of every system."""
    known = frozenset().union(*NEEDS.values()) - {"asimd"}
    told = instruction_sets._told()
    if (
        instruction_sets.architecture() != "x86_64"
        or not instruction_sets._CPUS.exists()
        or not told
    ):
        pytest.skip("nothing to compare")
    if hasattr(torch.cpu, "get_capabilities"):
        assert told & known == instruction_sets._features() & known
    else:
        assert told <= instruction_sets._features()


def test_nothing_is_forced_by_default() -> None:
    assert forced({}) is None
    assert forced({FORCED: ""}) is None


def test_a_forced_variant_has_its_flags_and_a_library_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instruction_sets, "architecture", lambda: "x86_64")
    monkeypatch.setattr(instruction_sets, "_features", lambda: BEST["x86_64"])
    monkeypatch.setenv("CXX", f"{sys.executable} -march=native")
    monkeypatch.delenv(FORCED, raising=False)
    names = {build._name(build._compiler())}
    for name in ("x86-64-v3", "x86-64-v4"):
        monkeypatch.setenv(FORCED, name)
        # The last one counts for compilers.
        assert build._compiler()[-1] == f"-march={name}"
        names.add(build._name(build._compiler()))
    assert len(names) == 3
    monkeypatch.setenv(FORCED, "arm64")
    with pytest.raises(ConfigError, match=FORCED):
        build._name(build._compiler())


def test_amx_is_left_where_the_system_does_not_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor's list names it all the same, and its instructions would end the process."""
    monkeypatch.setattr(instruction_sets, "allows_amx", lambda: False)
    monkeypatch.setattr(instruction_sets, "architecture", lambda: "x86_64")
    monkeypatch.setenv("CXX", sys.executable)
    monkeypatch.delenv(FORCED, raising=False)
    left = instruction_sets._allowed(BEST["x86_64"])
    assert left == BEST["x86_64"] - AMX
    best = fastest("x86_64", left)
    assert best is not None
    assert best.name == "x86-64-v4-bf16"
    assert build._compiler()[-4:] == ["-march=native", *NO_AMX_FLAGS]


def test_kernels_for_amx_are_refused_where_the_system_does_not_allow_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Compiled:
        def chattts_build(self) -> bytes:
            return b"AMX"

    kernels: Any = Compiled()
    monkeypatch.setattr(library, "allows_amx", lambda: True)
    assert library._allowed(kernels) is kernels
    monkeypatch.setattr(library, "allows_amx", lambda: False)
    with pytest.raises(build.BuildError, match="does not allow; take AMX out of the flags"):
        library._allowed(kernels)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_the_products_of_every_variant_that_runs_here(name: str) -> None:
    try:
        forced({FORCED: name})
    except ConfigError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "tests/model/kernels/cpu/test_products.py", "-k", "equal or bits or company"],
        cwd=ROOT,
        env=os.environ | {FORCED: name},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout
