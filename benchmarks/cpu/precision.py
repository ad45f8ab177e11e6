"""Compare the audio of faster dtypes with that of float32, on equal codes.

    python -m benchmarks.cpu.precision --dtypes bfloat16 int8

After the first code that differs, two models generate different speech, which cannot be compared
sample by sample. So float32 samples the codes, and every dtype is given these codes. Its hidden
states and audio are compared with those of float32. The share of equal greedy codes is counted too.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ChatTTS
from ChatTTS.core import Chat
from ChatTTS.model.generation import Cancellation, GenerationRequest
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.synthesis.synthesizer import Synthesizer
from ChatTTS.model.tokenizer import code_prompt

from ..common.command import new_parser, origin, write_json

TEXTS = (
    "good morning, how are you today?",
    "the train to the old town leaves at nine.",
    "please bring me a glass of water and some bread.",
    "we walked along the river until the sun went down.",
)
_MOST_FRAMES = 400


def spoken(chat: Chat, requests: Sequence[GenerationRequest]) -> list[tuple[Any, Any]]:
    """Return codes [T, 4] and hidden states [T, hidden] of each request."""
    rows: list[tuple[list[Any], list[Any]]] = [([], []) for _ in requests]
    for deltas in chat.gpt.generate(requests, Cancellation()):
        for delta in deltas:
            rows[delta.index][0].append(delta.ids)
            rows[delta.index][1].append(delta.hiddens.float())
    return [(torch.cat(ids), torch.cat(hiddens)) for ids, hiddens in rows]


def forced(chat: Chat, request: GenerationRequest, codes: Any) -> tuple[Any, Any]:
    """Return the greedy code [T, 4] and hidden state [T, hidden] at each frame of ``codes``.

    Every frame is a request of its own, whose sample prompt is the codes before it.
    """
    prompt = request.prompt
    before = np.zeros((0, codes.shape[1]), np.int64) if not len(prompt.codes) else prompt.codes
    requests = [
        GenerationRequest(
            type(prompt)(
                prompt.text,
                np.concatenate([before, codes[:frame].numpy()]),
                prompt.speaker,
                prompt.speaker_slots,
            ),
            SamplingParams((0.0,) * codes.shape[1], 1.0, 1, 1.0, 1, 1),
            DrawKey(0, Pass.CODE),
        )
        for frame in range(len(codes))
    ]
    rows = spoken(chat, requests)
    return torch.cat([ids for ids, _ in rows]), torch.cat([hiddens for _, hiddens in rows])


def load(args: argparse.Namespace, dtype: str) -> Chat:
    """Return the chosen checkpoint on the velocity engine in ``dtype``."""
    chat = Chat()
    source = {"source": "bundled"} if args.model is None else {"custom_path": args.model}
    chat.load_or_raise(
        **{"source": "custom", **source},
        device="cpu",
        use_vllm=True,
        dtype=dtype,
        num_threads=args.threads,
    )
    return chat


def measure(exact: Chat, other: Chat) -> dict[str, float]:
    """Return how ``other`` differs from ``exact`` over all texts."""
    config = exact.config
    name = config.defaults.speaker
    speaker = None if name is None else exact.speaker.vector(config.defaults.speakers[name])
    sampling = SamplingParams((0.3,) * config.gpt.num_vq, 0.7, 20, 1.05, 0, _MOST_FRAMES)
    same = frames = 0
    hidden_error = hidden_power = sound_error = sound_power = peak = 0.0
    for number, text in enumerate(TEXTS):
        decorated = code_prompt(text, "[speed_5]", speaker=speaker is not None)
        prompt = exact.tokenizer.prompt(decorated, speaker=speaker)
        request = GenerationRequest(prompt, sampling, DrawKey(number, Pass.CODE))
        ((codes, _),) = spoken(exact, [request])
        ours, wanted = forced(other, request, codes), forced(exact, request, codes)
        same += int((ours[0] == wanted[0]).sum())
        frames += codes.numel()
        hidden_error += float((ours[1] - wanted[1]).square().sum())
        hidden_power += float(wanted[1].square().sum())
        first, second = (
            Synthesizer(chat.decoder, chat.vocos).samples(hiddens)
            for chat, hiddens in ((other, ours[1]), (exact, wanted[1]))
        )
        sound_error += float((first - second).square().sum())
        sound_power += float(second.square().sum())
        peak = max(peak, float((first - second).abs().max()))
    return {
        "same_greedy_codes": same / frames,
        "hidden_error": (hidden_error / hidden_power) ** 0.5,
        "waveform_snr_db": 10 * np.log10(sound_power / sound_error),
        "waveform_max_difference": peak,
    }


def main() -> None:
    parser = new_parser("cpu.precision", __doc__)
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "int8"])
    parser.add_argument("--model", type=Path, help="a checkpoint (default: the bundled voice)")
    parser.add_argument("--threads", type=int, help="default: the cores that may be used")
    parser.add_argument("--json", type=Path, help="write the report here")
    args = parser.parse_args()
    exact = load(args, "float32")
    results = {dtype: measure(exact, load(args, dtype)) for dtype in args.dtypes}
    for dtype, figures in results.items():
        print(
            f"{dtype}: {figures['same_greedy_codes']:.1%} of the most probable codes are the same, "
            f"hidden states differ by {figures['hidden_error']:.2%}, the sound by "
            f"{figures['waveform_snr_db']:.1f} dB (signal to difference; at most "
            f"{figures['waveform_max_difference']:.3f} in a sample)"
        )
    versions = {"package": ChatTTS.__version__, "torch": torch.__version__}
    write_json({**origin(), "versions": versions, "results": results}, args.json)


if __name__ == "__main__":
    main()
