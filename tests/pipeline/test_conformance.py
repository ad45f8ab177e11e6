"""Two small random checkpoints against what the published package computed from them.

The expected values are described in ``tests/data/README.md``. Draws are made at a temperature of
1e-7, which makes each one the arg-max.
"""

import json
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ChatTTS.checkpoints.assets import AssetFolder
from ChatTTS.loading import load_model
from ChatTTS.model import processors
from ChatTTS.model.devices.placement import choose_placement
from ChatTTS.model.generation import Cancellation, GenerationRequest
from ChatTTS.model.gpt import EngineOptions
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.speaker import decode_sample, encode_sample
from ChatTTS.model.standard.engine import embed_prompt
from ChatTTS.model.synthesis.synthesizer import Synthesizer
from ChatTTS.model.tokenizer import Prompt, code_prompt, refine_prompt
from ChatTTS.params import InferCodeParams, RefineTextParams
from ChatTTS.pipeline.model import Model
from ChatTTS.pipeline.refine_pass import refine
from ChatTTS.pipeline.routines import run
from ChatTTS.pipeline.speech_pass import SpeechPass
from ChatTTS.pipeline.utterance import Utterance
from ChatTTS.text import Normalizer
from ChatTTS.utils import base16384

from ..support.places import DATA

CASES = (
    "single",
    "speaker",
    "ragged",
    "sample",
    "both",
    "penalty",
    "ending",
    "minimum",
    "maximum",
)


class Conformance:
    """A model and its expected values."""

    def __init__(self, name: str, engine: str) -> None:
        self.tensors = load_file(DATA / name / "expected.safetensors")
        self.facts = json.loads((DATA / name / "expected.json").read_text(encoding="utf-8"))
        self.cases = {case["name"]: case for case in self.facts["cases"]}
        self.name = name
        self.model = load(name, use_vllm=engine == "velocity")

    def sample(self) -> np.ndarray:
        return decode_sample(self.facts["spk_smp"], 4, 625)

    def prompts(self, kind: str) -> list[Prompt]:
        """The prompts of all texts: ``none``, ``spk`` or ``smp``."""
        model = self.model
        vector = model.speaker.vector(self.facts["speaker_seeded"]) if kind == "spk" else None
        codes = self.sample() if kind == "smp" else None
        return [
            model.tokenizer.prompt(text, speaker=vector, codes=codes)
            for text in self.facts[f"prompts_{kind}"]
        ]

    def rows(self, case: str, what: str) -> list[torch.Tensor]:
        return [self.tensors[f"{case}_{what}_{i}"] for i in range(len(self.cases[case]["texts"]))]


def load(name: str, **options: Any) -> Model:
    folder = AssetFolder(DATA / name, "custom")
    return load_model(folder, choose_placement("cpu"), EngineOptions(**options))


@pytest.fixture(scope="module", params=["standard", "velocity"])
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module", params=["model-a", "model-b"])
def conformance(request: pytest.FixtureRequest, engine: str) -> Conformance:
    return Conformance(request.param, engine)


def code_params(case: dict[str, Any]) -> InferCodeParams:
    names = (
        "max_new_token",
        "min_new_token",
        "temperature",
        "spk_emb",
        "spk_smp",
        "txt_smp",
        "prompt",
        "repetition_penalty",
        "top_P",
        "top_K",
    )
    return InferCodeParams(**{n: case[n] for n in names}, manual_seed=1, ensure_non_empty=False)


def spoken(
    model: Model, texts: list[str], params: InferCodeParams, batch_size: int
) -> list[tuple[Tensor, Tensor]]:
    """Codes [T, 4] and hiddens [T, H] of each text."""
    utterances = [Utterance(i, 0, text) for i, text in enumerate(texts)]
    rows: list[tuple[list[Tensor], list[Tensor]]] = [([], []) for _ in texts]
    for update in SpeechPass(
        model,
        utterances,
        params,
        1,
        batch_size=batch_size,
        cancelled=Cancellation(),
    ).updates():
        ids, hiddens = rows[update.utterance.text_index]
        ids.append(update.delta.ids)
        hiddens.append(update.delta.hiddens)
    return [(torch.cat(ids), torch.cat(hiddens)) for ids, hiddens in rows]


def test_decorated_prompts(conformance: Conformance) -> None:
    facts = conformance.facts
    texts = facts["texts"]
    assert [code_prompt(t, "[speed_5]", speaker=False) for t in texts] == facts["prompts_none"]
    assert [code_prompt(t, "[speed_5]", speaker=True) for t in texts] == facts["prompts_spk"]
    with_sample = [code_prompt(t, "[speed_3]", speaker=False, transcript="one word") for t in texts]
    assert with_sample == facts["prompts_smp"]
    prompt = facts["refine"]["prompt"]
    assert [refine_prompt(t, prompt) for t in texts] == facts["decorate_text"]


def test_texts_bring_no_voice_marks_of_their_own() -> None:
    marked = " one [spk_emb] [Stts]two[empty_spk] "
    decorated = code_prompt(marked, "[speed_5]", speaker=False, transcript=marked)
    assert decorated == "[Stts][empty_spk]one  two[speed_5]one  two[Ptts]"


@pytest.mark.parametrize("kind", ["none", "spk", "smp"])
def test_token_ids_and_masks(conformance: Conformance, kind: str) -> None:
    expected = conformance.tensors
    for row, prompt in enumerate(conformance.prompts(kind)):
        mask = expected[f"tok_{kind}_attention"][row].bool()
        ids = expected[f"tok_{kind}_ids"][row][mask]
        is_text = expected[f"tok_{kind}_text_mask"][row][mask]
        assert len(prompt) == int(mask.sum())
        assert mask[-len(prompt) :].all()  # left padding
        assert is_text.tolist() == [True] * len(prompt.text) + [False] * len(prompt.codes)
        assert ids[is_text].T.tolist() == [prompt.text.tolist()] * 4
        if len(prompt.codes):
            assert ids[~is_text].tolist() == prompt.codes.tolist()


@pytest.mark.parametrize("kind", ["spk", "smp"])
def test_prompt_embeddings(conformance: Conformance, kind: str) -> None:
    sampling = SamplingParams.from_params(InferCodeParams(), num_codebooks=4)
    for row, prompt in enumerate(conformance.prompts(kind)):
        request = GenerationRequest(prompt, sampling, DrawKey(0, Pass.CODE))
        expected = conformance.tensors[f"emb_{kind}"][row][-len(prompt) :]
        found = embed_prompt(request, conformance.model.gpt.embed)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_speaker_strings(conformance: Conformance) -> None:
    speaker, seeded = conformance.model.speaker, conformance.facts["speaker_seeded"]
    expected = conformance.tensors["speaker_vector"].float().numpy()
    vector = speaker.vector(seeded)
    np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=2e-3)
    codes = conformance.sample()
    assert codes.T.tolist() == conformance.tensors["spk_smp_codes"].tolist()
    assert decode_sample(encode_sample(codes.T), 4, 625).tolist() == codes.tolist()


def test_logits_processors(conformance: Conformance) -> None:
    expected = conformance.tensors
    logits = expected["proc_logits"]
    factors = 1.2 ** processors.count_repetitions(expected["proc_history"], logits.shape[-1])
    logits = processors.apply_repetition_penalty(logits, factors)
    logits = processors.apply_top_p_top_k(logits, torch.tensor([0.7]), torch.tensor([20]))
    torch.testing.assert_close(logits, expected["proc_out"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow_for("model-b-velocity-[!s]*", "model-a-standard-*-1", "model-b-standard-*")
def test_codes_hiddens_and_lengths(conformance: Conformance, name: str, batch_size: int) -> None:
    case = conformance.cases[name]
    rows = spoken(conformance.model, case["texts"], code_params(case), batch_size)
    assert [len(ids) for ids, _ in rows] == case["lengths"]
    for (ids, hiddens), want_ids, want_hiddens in zip(
        rows, conformance.rows(name, "ids"), conformance.rows(name, "hiddens"), strict=True
    ):
        assert ids.tolist() == want_ids.tolist()
        torch.testing.assert_close(hiddens, want_hiddens, atol=1e-4, rtol=0)


def test_all_cases_are_tested(conformance: Conformance) -> None:
    assert set(conformance.cases) == set(CASES)


@pytest.mark.slow_for("model-b-*")
def test_without_a_cache_the_same_codes(conformance: Conformance) -> None:
    case = conformance.cases["ending"]
    without = load(conformance.name, enable_cache=False)
    rows = spoken(without, case["texts"], code_params(case), 3)
    assert [ids.tolist() for ids, _ in rows] == [
        ids.tolist() for ids in conformance.rows("ending", "ids")
    ]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow_for("*-minimum", "*-maximum")
def test_waveforms(conformance: Conformance, name: str) -> None:
    model = conformance.model
    for mel_decoder, inputs, outputs in (
        (model.decoder, "hiddens", "wav"),
        (model.dvae, "ids", "dvaewav"),
    ):
        synthesizer = Synthesizer(mel_decoder, model.vocos)
        for frames, expected in zip(
            conformance.rows(name, inputs), conformance.rows(name, outputs), strict=True
        ):
            samples = synthesizer.samples(frames)
            assert len(samples) == synthesizer.length(len(frames)) == len(expected)
            torch.testing.assert_close(samples, expected, atol=1e-4, rtol=0)


def test_codec(conformance: Conformance) -> None:
    expected, model = conformance.tensors, conformance.model
    wav = expected["codec_wav"].unsqueeze(0)
    with torch.inference_mode():
        mel = model.dvae.preprocessor_mel(wav)[0]
        codes = model.dvae.encode(wav)[0]
        decoded = model.dvae.decode(expected["codec_ids"].long().unsqueeze(0))
        samples = model.vocos(decoded)
    torch.testing.assert_close(mel, expected["codec_mel_in"], atol=1e-4, rtol=0)
    assert codes.tolist() == expected["codec_ids"].tolist()
    torch.testing.assert_close(decoded, expected["codec_mel_out"], atol=1e-4, rtol=0)
    torch.testing.assert_close(samples, expected["codec_wav_out"], atol=1e-4, rtol=0)


def test_refine(conformance: Conformance) -> None:
    facts, model = conformance.facts["refine"], conformance.model
    params = RefineTextParams(
        prompt=facts["prompt"],
        temperature=facts["temperature"],
        max_new_token=facts["max_new_token"],
        min_new_token=facts["min_new_token"],
    )
    utterances = [Utterance(i, 0, text) for i, text in enumerate(facts["texts"])]
    for batch_size in (1, 2):
        answers: list[Utterance] = []
        cancelled = Cancellation()
        refining = refine(
            model,
            utterances,
            params,
            1,
            batch_size=batch_size,
            cancelled=cancelled,
            tell=answers.append,
        )
        run(refining, model.gpt, cancelled)
        for answer in answers:
            ids = conformance.tensors[f"refine_ids_{answer.text_index}"].numpy()
            text = model.tokenizer.text(ids[ids < model.tokenizer.first_setting])
            assert answer.text == text.strip()
        assert len(answers) == 2


def test_characters(conformance: Conformance) -> None:
    normalizer = Normalizer()
    for text, expected in conformance.facts["normalized"].items():
        assert normalizer(text, do_text_normalization=False) == expected


def test_coef(conformance: Conformance) -> None:
    stored = load_file(DATA / conformance.name / "asset" / "Decoder.safetensors")["coef"]
    values = base16384.decode(conformance.model.coef)
    assert np.frombuffer(values, dtype="<f4").tolist() == stored.flatten().tolist()
