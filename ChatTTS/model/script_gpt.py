"""The language model with the interface of the published package: modules and generated ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from .gpt import GPT
from .standard.engine import StandardEngine


@dataclass(eq=False)
class GenerationOutputs:
    """Generated sequences, as scripts know them: ids, attentions (never kept), hidden states."""

    ids: list[torch.Tensor]
    attentions: list[Any]
    hiddens: list[torch.Tensor]

    def destroy(self) -> None:
        """Release all of them."""
        for values in (self.ids, self.attentions, self.hiddens):
            values.clear()


class ScriptGPT(GPT):
    """A language model that also has the published names, for scripts; no engine uses them."""

    @property
    def gpt(self) -> torch.nn.Module:
        """The Llama as a module of transformers; velocity gives way to it unless it was asked for.

        Raises:
            AttributeError: the engine has no module.
        """
        self.use_modules()
        engine = self.engine
        if not isinstance(engine, StandardEngine):
            raise AttributeError("gpt")  # and __getattr__ says more
        module: Any = engine.model if engine.observed is None else engine.observed
        llama: torch.nn.Module = module
        return llama

    if not TYPE_CHECKING:  # where it would hide misspelled names

        def __getattr__(self, name: str) -> NoReturn:
            remedy = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
            raise AttributeError(f"chat.gpt has no attribute {name!r}{remedy}")

    @staticmethod
    def _prepare_generation_outputs(
        inputs_ids: torch.Tensor,
        start_idx: int,
        end_idx: torch.Tensor,
        attentions: list[Any],
        hiddens: list[torch.Tensor],
        infer_text: bool,
    ) -> GenerationOutputs:
        """Cut the generated positions out of a script's own buffer.

        Args:
            inputs_ids: [B, T, num_codebooks].
            start_idx: the first generated position.
            end_idx: the number of generated positions of each sequence, [B].
            hiddens: [B, hidden] of each step, or an empty list.
            infer_text: return one id of each position, since all are equal.
        """
        lengths = [int(length) for length in end_idx]
        ids = [row[start_idx : start_idx + n] for row, n in zip(inputs_ids, lengths, strict=True)]
        steps = list(torch.stack(hiddens, 1)) if hiddens else []
        return GenerationOutputs(
            ids=[row[:, 0] for row in ids] if infer_text else ids,
            attentions=attentions,
            hiddens=[row[:n] for row, n in zip(steps, lengths, strict=False)],
        )


# Names of the published class, which is a module of torch, and where to find what they do.
_LLAMA = "the Llama is a module, chat.gpt.gpt"
_INSTEAD = {
    "gpt": "velocity was asked for, and has no modules; load with use_vllm=False",
    **dict.fromkeys(
        ("parameters", "named_parameters", "state_dict", "load_state_dict", "to", "eval", "train"),
        _LLAMA,
    ),
    **dict.fromkeys(("forward", "prepare", "Context"), "call chat.infer, or chat._infer_code"),
    **dict.fromkeys(
        ("emb_text", "emb_code", "head_text", "head_code"),
        "the embeddings and heads are chat.embed.text, code, head_text and head_code",
    ),
}
