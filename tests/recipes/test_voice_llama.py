"""The new recipe's Llama against the plain one, which computes everything in float32."""

from __future__ import annotations

import pytest
import torch

from ChatTTS.model.llama_config import LlamaShape
from recipes.bundled_voice import llama as plain
from recipes.voice.llama import Guidance, Llama

SHAPE = LlamaShape(
    hidden_size=32,
    intermediate_size=48,
    num_attention_heads=4,
    num_hidden_layers=3,
    max_position_embeddings=64,
    num_key_value_heads=4,
    head_dim=8,
)


@pytest.fixture(scope="module")
def models() -> tuple[Llama, plain.Llama]:
    torch.manual_seed(0)
    fast, reference = Llama(SHAPE), plain.Llama(SHAPE)
    reference.load_state_dict(fast.state_dict())
    return fast, reference


@pytest.fixture(scope="module")
def given() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 20, 32, generator=generator)
    spoken = torch.full((3, 20, 2), -1)
    first = torch.randint(0, 5, (3, 12), generator=generator)
    spoken[:, 8:, 0], spoken[:, 8:, 1] = first, first + (first % 3)
    return x, spoken


def test_it_computes_what_the_plain_one_does(
    models: tuple[Llama, plain.Llama], given: tuple[torch.Tensor, torch.Tensor]
) -> None:
    fast, reference = models
    x, spoken = given
    found = fast(x, Guidance(spoken, (1,), 2))
    wanted = reference(x, plain.Guidance(spoken, (1,), 2))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
    assert found[2].item() > 0
    with torch.no_grad():
        torch.testing.assert_close(fast(x)[0], found[0], atol=1e-5, rtol=1e-4)


def test_its_gradients_are_those_of_the_plain_one(
    models: tuple[Llama, plain.Llama], given: tuple[torch.Tensor, torch.Tensor]
) -> None:
    x, spoken = given
    gradients = []
    for model, guidance in zip(models, (Guidance, plain.Guidance), strict=True):
        model.zero_grad()
        hidden, _, loss = model(x, guidance(spoken, (1,), 2))
        (hidden.square().mean() + loss).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], atol=1e-6, rtol=1e-3)


def test_in_bfloat16_it_stays_near(
    models: tuple[Llama, plain.Llama], given: tuple[torch.Tensor, torch.Tensor]
) -> None:
    fast, reference = models
    x, spoken = given
    with torch.autocast("cpu", torch.bfloat16):
        hidden, _, loss = fast(x, Guidance(spoken, (1,), 2))
    wanted, _, other = reference(x, plain.Guidance(spoken, (1,), 2))
    assert (hidden.float() - wanted).abs().mean() < 0.02
    assert loss.item() == pytest.approx(other.item(), rel=0.01)
