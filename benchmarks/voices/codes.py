"""The codes of speakers of a checkpoint, from both engines and from the published package."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ChatTTS.core import Chat
from ChatTTS.model.generation import Cancellation
from ChatTTS.params import InferCodeParams
from ChatTTS.pipeline.speech_pass import SpeechPass
from ChatTTS.pipeline.utterance import Utterance
from ChatTTS.weights.tensors import read_tensors
from recipes.voice.evaluation.subject import Subject

from ..common.child import ChildProcess

# With these both packages take the likeliest code, and draw nothing.
_GREEDY: dict[str, Any] = {
    "prompt": "[speed_5]",
    "top_P": 0.7,
    "top_K": 20,
    "temperature": 1e-9,
    "repetition_penalty": 1.0,
    "max_new_token": 400,
    "min_new_token": 0,
    "show_tqdm": False,
    "ensure_non_empty": False,
}

Codes = list[list[list[int]]]


def compared(
    subject: Subject, lines: Sequence[str], speakers: Sequence[str], peer: Path, folder: Path
) -> dict[str, Any]:
    """Count the utterances whose codes are those of the published package.

    Args:
        subject: the checkpoint.
        lines: what each speaker says.
        speakers: speaker strings.
        peer: an interpreter that has the published package.
        folder: for a copy of the checkpoint.
    """
    lines = [line.rstrip(".?") for line in lines]
    module = "benchmarks.common.published"
    in_float32(subject.asset, folder)
    with ChildProcess("the published package", peer, module, 1, isolated=True) as child:
        loaded = child.call("load", folder=str(folder), threads=1, codes_only=True)
        # The published package knows no front end: it is given what ours makes of the texts.
        front_end = subject.chat._loaded.tokenizer.front_end
        texts = lines if front_end is None else [front_end.spoken(line).text for line in lines]
        asked = {"texts": texts, "speakers": list(speakers), "settings": _GREEDY}
        theirs: list[Codes] = child.call("codes", **asked)["codes"]
    engines = {}
    for name, use_vllm in (("standard", False), ("velocity", True)):
        chat = subject.load(use_vllm)
        pairs = [
            (one, other)
            for speaker, expected in zip(speakers, theirs, strict=True)
            for one, other in zip(own_codes(chat, lines, speaker), expected, strict=True)
        ]
        chat.unload()
        engines[name] = {
            "utterances": len(pairs),
            "equal": sum(one == other for one, other in pairs),
            "frames": sum(len(one) for one, _ in pairs),
        }
    return {"versions": loaded["versions"], **engines}


def in_float32(asset: Path, folder: Path) -> None:
    """Copy the files of a checkpoint to ``folder/asset``, with its Llama stored in float32.

    The values are equal. But with newer releases of transformers the published package computes in
    the dtype that it finds in the file, and rounds to the 11 bits of float16.
    """
    copied = folder / "asset"
    shutil.copytree(asset, copied, dirs_exist_ok=True)
    weights = copied / "gpt" / "model.safetensors"
    tensors = {name: tensor.float() for name, tensor in read_tensors(weights).items()}
    save_file(tensors, weights, metadata={"format": "pt"})
    settings = json.loads((copied / "gpt" / "config.json").read_text(encoding="utf-8"))
    settings |= {name: "float32" for name in ("dtype", "torch_dtype") if name in settings}
    (copied / "gpt" / "config.json").write_text(json.dumps(settings), encoding="utf-8")


def own_codes(chat: Chat, lines: Sequence[str], speaker: str) -> Codes:
    """Return the codes of each line, generated greedily."""
    utterances = [Utterance(i, 0, line, first=i) for i, line in enumerate(lines)]
    codes: dict[Utterance, list[torch.Tensor]] = {u: [] for u in utterances}
    for update in SpeechPass(
        chat._loaded,
        utterances,
        InferCodeParams(spk_emb=speaker, **_GREEDY),
        0,
        batch_size=1,
        cancelled=Cancellation(),
    ).updates():
        codes[update.utterance].append(update.delta.ids)
    return [torch.cat(codes[u]).tolist() for u in utterances]
