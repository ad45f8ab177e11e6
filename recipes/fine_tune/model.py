"""The language model with low-rank products that are trained, by peft."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ChatTTS.errors import EngineUnavailableError
from ChatTTS.model.llama.transformers_import import importing_transformers
from ChatTTS.model.lora.reader import CONFIG, SPEAKER, WEIGHTS
from ChatTTS.voice_learning.language_model import LanguageModel
from ChatTTS.voice_learning.sequences import CodeBatch

from .run import Settings


@dataclass(frozen=True, eq=False)
class VoicedBatch(CodeBatch):
    """Sequences with their speakers.

    Attributes:
        speakers: float32 [B, hidden].
    """

    speakers: Tensor


class LowRankWeights(nn.Module):
    """The weights that are trained, and nothing else: what a training keeps and averages."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self.register_parameter(name.replace(".", "/"), parameter)


class TunedModel:
    """A base whose Llama has low-rank products.

    Args:
        base: frozen; its Llama is changed in place.

    Attributes:
        language_model: the whole.
        weights: those that are trained.

    Raises:
        EngineUnavailableError: peft is not installed.
    """

    def __init__(self, base: LanguageModel, settings: Settings) -> None:
        peft = _peft()
        torch.manual_seed(settings.seed)
        config = peft.LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            target_modules=sorted(settings.targets),
            lora_dropout=0.0,
            bias="none",
        )
        self._llama: Any = peft.get_peft_model(base.llama, config)
        self._config = config
        base.llama = self._llama
        self.language_model = base
        self.embed = base.embed
        self.weights = LowRankWeights(self._llama).to(base.device)

    def speech(self, batch: VoicedBatch) -> tuple[Tensor]:
        """Return the hidden states [B, L, hidden] of a batch on the model's device."""
        return (self.language_model(batch, batch.speakers),)

    def save(self, folder: Path, speaker: str) -> None:
        """Write the adapter as peft does, and the speaker string beside it.

        Args:
            folder: an earlier one is removed once the new one is complete.
        """
        tensors = _peft().get_peft_model_state_dict(self._llama, save_embedding_layers=False)
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, partial / WEIGHTS)
        self._config.save_pretrained(str(partial))
        _without_paths(partial / CONFIG)
        (partial / SPEAKER).write_text(speaker + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)


def _without_paths(path: Path) -> None:
    """Take the folder of the base, which is that of this machine, out of a configuration."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = None
    config["inference_mode"] = True
    path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _peft() -> Any:
    try:
        with importing_transformers():
            import peft
    except ImportError as error:
        raise EngineUnavailableError(
            f"fine-tuning needs peft ({error}): pip install -c constraints.txt --group finetune"
        ) from error
    return peft


def voiced(batch: CodeBatch, speakers: Sequence[Any]) -> VoicedBatch:
    """Return a batch with the speakers of its sequences, float32 [hidden] each."""
    vectors = torch.stack([torch.from_numpy(speaker) for speaker in speakers])
    return VoicedBatch(batch.ids, batch.codes, batch.is_code, batch.is_slot, batch.targets, vectors)
