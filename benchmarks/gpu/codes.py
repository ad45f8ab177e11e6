"""Compare codes and hidden states on the GPU with those on the CPU and of the published package.

They come from the conformance models and their recorded cases in ``tests/data``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from ChatTTS.config import Config
from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import Tokenizer, code_prompt
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.llm_engine import LLMEngine
from ChatTTS.params import InferCodeParams

from .model import key
from .scale import Task

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
MODELS = ("model-a", "model-b")
ALLOWED = 2e-5
_PARAMS = (
    "max_new_token",
    "min_new_token",
    "temperature",
    "repetition_penalty",
    "top_P",
    "top_K",
)


@dataclass(frozen=True)
class Answer:
    """The result of a request: ids [n, num_codebooks] and hidden states [n, hidden]."""

    ids: np.ndarray
    hiddens: Tensor


def measure(task: Task, models: Sequence[str] = MODELS) -> None:
    """Run every recorded case of both models, all requests of a model in one batch.

    Raises:
        RuntimeError: results differ; the record says which.
    """
    results: dict[str, Any] = {}
    for name in models:
        results[name] = _compare(name, task.scale.device)
        task.record.put(models=results, allowed=ALLOWED)
    wrong = [
        f"{name}: {what}"
        for name, found in results.items()
        for what, is_right in found["is_right"].items()
        if not is_right
    ]
    if wrong:
        raise RuntimeError(f"not as it must be: {'; '.join(wrong)}")


def _compare(name: str, device: str) -> dict[str, Any]:
    """Compare one model on the device, with several settings, with the CPU."""
    requests, expected = _cases(name)
    on_cpu = _answers(name, requests, device="cpu")
    together = _answers(name, requests, device=device)
    alone = _answers(name, requests, device=device, max_num_seqs=1)
    dependent = _answers(name, requests, device=device, batch_invariant=False)
    is_right = {
        "codes are the published package's": all(map(np.array_equal, _ids(together), expected)),
        "codes are the CPU's": _same_ids(together, on_cpu),
        "hiddens are the CPU's": _difference(together, on_cpu) <= ALLOWED,
        "codes without batch invariance are the CPU's": _same_ids(dependent, on_cpu),
    }
    if device != "cpu":  # the kernels guarantee it, but not their torch references of a dry run
        is_right["not a bit depends on the batch"] = _same_ids(together, alone) and all(
            a.hiddens.equal(b.hiddens) for a, b in zip(together, alone, strict=True)
        )
    return {
        "requests": len(requests),
        "frames": sum(len(answer.ids) for answer in on_cpu),
        "hiddens": _difference(together, on_cpu),
        "hiddens_not_batch_invariant": _difference(dependent, on_cpu),
        "is_right": is_right,
    }


def _cases(name: str) -> tuple[list[GenerationRequest], list[np.ndarray]]:
    """Return all requests of the recorded cases, and the recorded codes of each."""
    folder = DATA / name
    facts = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    tensors = load_file(folder / "expected.safetensors")
    num_codebooks = Config.from_file(folder / "asset" / "config.json").gpt.num_vq
    tokenizer = Tokenizer(folder / "asset" / "tokenizer")
    vector = tensors["speaker_vector"].float().numpy()
    vector /= np.linalg.norm(vector)
    sample = tensors["spk_smp_codes"].long().T.contiguous().numpy()
    requests: list[GenerationRequest] = []
    expected: list[np.ndarray] = []
    for case in facts["cases"]:
        params = InferCodeParams(**{param: case[param] for param in _PARAMS})
        settings = SamplingParams.from_params(params, num_codebooks=num_codebooks)
        has_speaker, has_sample = case["spk_emb"] is not None, case["spk_smp"] is not None
        for row, text in enumerate(case["texts"]):
            prompt = tokenizer.prompt(
                code_prompt(text, case["prompt"], speaker=has_speaker, transcript=case["txt_smp"]),
                speaker=vector if has_speaker else None,
                codes=sample if has_sample else None,
            )
            number = len(requests)
            requests.append(
                GenerationRequest(prompt, settings, key(number), request_id=f"r{number}")
            )
            expected.append(tensors[f"{case['name']}_ids_{row}"].numpy())
    return requests, expected


def _answers(name: str, requests: list[GenerationRequest], **settings: Any) -> list[Answer]:
    """Run the requests on an engine with ``settings``; return results in the requests' order."""
    args = EngineArgs(
        DATA / name,
        dtype="float32",
        **{"kv_memory": "64MB", "max_num_seqs": len(requests), "num_threads": 2, **settings},
    )
    engine = LLMEngine.from_engine_args(args)
    answers = answers_of(engine, requests)
    engine.close()
    return answers


def answers_of(engine: LLMEngine, requests: Sequence[GenerationRequest]) -> list[Answer]:
    """Run requests side by side; return results in their order.

    Raises:
        RuntimeError: a request failed.
    """
    ids: dict[str, list[np.ndarray]] = {request.request_id: [] for request in requests}
    hiddens: dict[str, list[Tensor]] = {request.request_id: [] for request in requests}
    engine.add(list(requests))
    while engine.has_unfinished_requests():
        for output in engine.step():
            if output.error is not None:
                raise RuntimeError(output.error)
            for delta in output.deltas:
                ids[output.request_id].append(delta.ids.numpy())
                hiddens[output.request_id].append(delta.hiddens.float())
    return [Answer(np.concatenate(ids[r]), torch.cat(hiddens[r])) for r in ids]


def _ids(answers: list[Answer]) -> list[np.ndarray]:
    return [answer.ids for answer in answers]


def _same_ids(ours: list[Answer], theirs: list[Answer]) -> bool:
    return all(map(np.array_equal, _ids(ours), _ids(theirs)))


def _difference(ours: list[Answer], theirs: list[Answer]) -> float:
    """Return the largest difference of hidden states; infinite if their numbers differ."""
    if any(a.hiddens.shape != b.hiddens.shape for a, b in zip(ours, theirs, strict=True)):
        return float("inf")
    return max(
        float((a.hiddens - b.hiddens).abs().max()) for a, b in zip(ours, theirs, strict=True)
    )
