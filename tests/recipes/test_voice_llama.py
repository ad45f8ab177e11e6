"""The recipe's Llama against transformers', and against one that computes all in float32."""

from __future__ import annotations

import pytest
import torch

from ChatTTS.model.llama.config import LlamaShape, llama_config
from ChatTTS.model.llama.transformers_import import importing_transformers
from recipes.voice import llama
from recipes.voice.llama import Guidance, Llama

from ..support import plain_llama as plain

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


def test_fused_attention_guides_the_same_heads(
    models: tuple[Llama, plain.Llama],
    given: tuple[torch.Tensor, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fast, _ = models
    x, spoken = given
    found = []
    for is_fused in (False, True):
        monkeypatch.setattr(llama, "prefers_fused", lambda x, chosen=is_fused: chosen)
        fast.zero_grad()
        hidden, _, loss = fast(x, Guidance(spoken, (1,), 2))
        (hidden.square().mean() + loss).backward()
        found.append([hidden, loss, *(p.grad for p in fast.parameters())])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


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


def test_it_is_that_of_transformers() -> None:
    with importing_transformers():
        from transformers import LlamaModel

    torch.manual_seed(0)
    ours = Llama(SHAPE)
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs = LlamaModel(llama_config(SHAPE)).eval()  # type: ignore[no-untyped-call]
    loaded = theirs.load_state_dict(ours.state_dict(), strict=False)
    assert not loaded.unexpected_keys
    assert loaded.missing_keys == ["embed_tokens.weight"]
    x = torch.randn(2, 11, SHAPE.hidden_size)
    with torch.no_grad():
        expected = theirs(inputs_embeds=x).last_hidden_state
        fused, _, _ = ours(x)
    torch.testing.assert_close(fused, expected, rtol=1e-4, atol=1e-4)
    trained, _, _ = ours(x)  # with gradients by all the scores
    assert trained.requires_grad
    torch.testing.assert_close(trained.detach(), expected, rtol=1e-4, atol=1e-4)


def test_guidance_is_minus_the_log_of_the_attention_wanted() -> None:
    torch.manual_seed(0)
    scores = torch.randn(1, 3, 6, 6).masked_fill(~torch.ones(6, 6).tril().bool(), -1e4)
    spoken = torch.full((1, 6, 2), -1)
    spoken[0, 4] = torch.tensor([1, 2])
    attention = scores[0, :, 4].softmax(-1)
    expected = -attention[:, 1:3].sum(-1).log().mean()
    torch.testing.assert_close(plain.guidance_loss(scores, spoken), expected)
    assert plain.guidance_loss(scores, torch.full((1, 6, 2), -1)) == 0
