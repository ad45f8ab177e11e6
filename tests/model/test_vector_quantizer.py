"""The quantiser: known codes, and both directions of vector-quantize-pytorch's."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest
import torch

from ChatTTS.config import QuantizerConfig
from ChatTTS.model.vector_quantizer import ResidualFSQ, VectorQuantizer

CONFIGS = [
    QuantizerConfig(),
    QuantizerConfig(dim=36, levels=(8, 5, 3), G=3, R=3),
    QuantizerConfig(dim=8, levels=(5, 5, 5, 5), G=2, R=1),  # no projections
]


def theirs(config: QuantizerConfig) -> Any:
    library = pytest.importorskip("vector_quantize_pytorch", reason="it is in the extra reference")
    return library.GroupedResidualFSQ(
        dim=config.dim, levels=list(config.levels), num_quantizers=config.R, groups=config.G
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"dim-{config.dim}")
@torch.inference_mode()
def test_the_bits_of_the_library(config: QuantizerConfig) -> None:
    torch.manual_seed(1)
    other = theirs(config).eval()
    torch.manual_seed(1)
    ours = VectorQuantizer(config)
    found, wanted = ours.quantizer.state_dict(), other.state_dict()
    assert list(found) == list(wanted)
    assert all(map(torch.equal, found.values(), wanted.values()))

    features = 3 * torch.randn(2, config.dim, 50)
    expected, indices = other(features.transpose(1, 2))
    codes = ours(features)
    assert torch.equal(codes.unflatten(1, (config.G, config.R)).permute(1, 0, 3, 2), indices)
    assert torch.equal(ours.quantizer(features.transpose(1, 2))[0], expected)
    assert len(codes.unique()) > 20
    decoded = ours.embed(codes)
    assert torch.equal(decoded.transpose(1, 2), other.get_output_from_indices(indices))
    torch.testing.assert_close(decoded.transpose(1, 2), expected)


def test_values_of_codes() -> None:
    books = ResidualFSQ(9, (3, 5), 2).codebooks
    assert books.shape == (2, 15, 2)
    assert books[0, [0, 1, 2, 3, 14]].tolist() == [[-1, -1], [0, -1], [1, -1], [-1, -0.5], [1, 1]]
    torch.testing.assert_close(books[1], books[0] / torch.tensor([3.0, 5.0]))


@pytest.mark.parametrize("code", [-1, 625])
def test_a_code_that_does_not_exist(code: int) -> None:
    codes = torch.zeros(1, 4, 3, dtype=torch.int64)
    codes[0, 2, 1] = code
    with pytest.raises(IndexError):
        VectorQuantizer(QuantizerConfig()).embed(codes)


def test_coding_draws_no_random_numbers() -> None:
    quantizer = VectorQuantizer(QuantizerConfig(dim=32))
    before = torch.get_rng_state()
    quantizer(torch.ones(1, 32, 4))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_library_is_for_the_tests_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("einx", "vector_quantize_pytorch"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails
    spec = importlib.util.find_spec(VectorQuantizer.__module__)
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    quantizer = fresh.VectorQuantizer(QuantizerConfig(dim=32))
    quantizer.embed(torch.zeros(1, 4, 3, dtype=torch.int64))
    quantizer(torch.ones(1, 32, 4))
