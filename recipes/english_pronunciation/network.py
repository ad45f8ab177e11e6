"""The letter network with gradients, and its training."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from ChatTTS.text.pronunciation.english.letter_network import EPSILON, REACH, SYMBOLS

from ..voice.muon import Muon
from .letters import AlignedWords

WIDTH = 128
LAYERS = 5
_LETTERS_A_STEP = 6_000
_RATE, _MATRIX_RATE = 2e-3, 6e-3
_WARM_UP = 100  # steps
_DROPPED = 0.1


class Layer(nn.Module):
    """Adds to each letter what the window around it says."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.window = nn.Linear((2 * REACH + 1) * width, width)
        self.out = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map [words, letters, width] to the same shape."""
        normal = hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + EPSILON)
        length = hidden.shape[1]
        padded = functional.pad(normal, (0, 0, REACH, REACH))
        windows = torch.cat([padded[:, i : i + length] for i in range(2 * REACH + 1)], dim=-1)
        inner = functional.dropout(torch.relu(self.window(windows)), _DROPPED, self.training)
        added: Tensor = self.out(inner)
        return hidden + added


class Network(nn.Module):
    """The network whose weights `LetterNetwork` runs."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(SYMBOLS, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, labels)

    def forward(self, letters: Tensor) -> Tensor:
        """Map letters [words, letters + 2] to logits [words, letters, labels]."""
        hidden = self.letters(letters)
        for layer in self.layers:
            hidden = layer(hidden)
        logits: Tensor = self.head(hidden[:, 1:-1])
        return logits


def batches(words: AlignedWords, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield one epoch in random order; the words of a batch are equally long."""
    draws = np.random.default_rng(seed)
    chunks = []
    for length, (letters, _) in words.batches.items():
        order = draws.permutation(len(letters))
        size = max(1, _LETTERS_A_STEP // length)
        chunks += [(length, order[i : i + size]) for i in range(0, len(order), size)]
    for i in draws.permutation(len(chunks)):
        length, rows = chunks[i]
        letters, labels = words.batches[length]
        yield torch.from_numpy(letters[rows]), torch.from_numpy(labels[rows])


def train(words: AlignedWords, epochs: int, out: Path) -> Network:
    """Train for ``epochs``; goes on from the last whole epoch in ``out`` after a stop."""
    torch.manual_seed(0)
    network = Network(len(words.labels))
    matrices = [p for layer in network.layers for p in layer.parameters() if p.ndim == 2]
    ids = {id(p) for p in matrices}
    others = [p for p in network.parameters() if id(p) not in ids]
    optimisers: list[torch.optim.Optimizer] = [
        Muon(matrices, lr=_MATRIX_RATE),
        torch.optim.AdamW(others, lr=_RATE, betas=(0.9, 0.98), weight_decay=0.01),
    ]
    rates = [[group["lr"] for group in optimiser.param_groups] for optimiser in optimisers]
    state, log = out / "network.safetensors", out / "network.jsonl"
    done = 0
    if state.exists():
        network.load_state_dict(load_file(state))
        done = len(log.read_text().splitlines())
    steps_an_epoch = sum(1 for _ in batches(words, 0))
    for epoch in range(done, epochs):
        network.train()
        began, losses = time.process_time(), []
        for step, (letters, labels) in enumerate(batches(words, epoch), epoch * steps_an_epoch):
            share = step / (epochs * steps_an_epoch)
            scale = min(1.0, (step + 1) / _WARM_UP, 1.02 - share) if share < 1 else 0.0
            for optimiser, group_rates in zip(optimisers, rates, strict=True):
                for group, rate in zip(optimiser.param_groups, group_rates, strict=True):
                    group["lr"] = rate * scale
                optimiser.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16):
                logits = network(letters)
            loss = functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
            loss.backward()
            for optimiser in optimisers:
                optimiser.step()
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                raise RuntimeError(f"the loss of step {step} is not finite")
        save_file(network.state_dict(), state)
        line = {"epoch": epoch, "loss": sum(losses) / len(losses)}
        with log.open("a") as file:
            file.write(json.dumps(line | {"cpu": time.process_time() - began}) + "\n")
    return network.eval()
