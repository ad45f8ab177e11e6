"""Texts with faults made on purpose, and frames that are read as another text's speech."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ChatTTS.model.generation import Cancellation
from ChatTTS.pipeline.alignment.faults import FaultFinder, FaultKind, Limits
from recipes.voice.counter_rng import CounterRng
from recipes.voice.evaluation.faults import Reader, Tap, cases, changed, rates
from recipes.voice.evaluation.subject import Subject

LINE = "we went to the market, to buy some bread."
OTHER = "she put the flowers in a glass of water."


@pytest.mark.parametrize("place", range(20))
def test_what_is_said_instead(place: int) -> None:
    plain = LINE.rstrip(".").split()

    def said(kind: str) -> list[str]:
        text = changed(LINE, kind, CounterRng(1, place), OTHER)
        assert text[-1] == "."
        assert text[-2] != ","
        return text[:-1].split()

    assert said("good") == plain
    cut, tail = said("cut"), said("tail")
    assert 1 <= len(plain) - len(cut) <= 3
    assert [word.rstrip(",") for word in cut] == [w.rstrip(",") for w in plain[: len(cut)]]
    assert tail == plain + OTHER.split()[: len(tail) - len(plain)]
    skipped, repeated = said("skipped"), said("repeated")
    assert skipped[-1] == repeated[-1] == plain[-1]
    run = len(plain) - len(skipped)
    assert run == len(repeated) - len(plain)
    first = next(i for i, word in enumerate([*skipped, ""]) if word != plain[i])
    assert plain[:first] + plain[first + run :] == skipped
    assert repeated.count(plain[first]) > plain.count(plain[first])


@pytest.mark.smoke
def test_each_kind_of_fault_is_in_both_halves() -> None:
    made = list(cases(20))
    for half in (0, 1):
        kinds = {case.kind for case in made if case.number % 2 == half}
        assert kinds == {"good", *(kind.value for kind in FaultKind)}
    assert all((case.line == case.said) == (case.kind in ("good", "wordless")) for case in made)


def test_rates_count_the_cases_with_any_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([[], ["one", "two"], ["one"]])
    monkeypatch.setattr(FaultFinder, "faults", lambda self, limits: next(found))
    finder = object.__new__(FaultFinder)
    good, bad = list(cases(1))
    counted = rates([(good, finder), (bad, finder), (good, finder)], Limits())
    assert counted == {"good": "1 of 2", bad.kind: "1 of 1"}


@pytest.mark.slow
def test_frames_are_read_as_the_engine_reads_them() -> None:
    subject = Subject()
    tap = Tap(subject.chat.gpt.engine)
    subject.chat.gpt.engine = tap
    waveforms = subject.chat.infer(
        LINE, skip_refine_text=True, guard="report", params_infer_code={"manual_seed": 2}
    )
    codes = torch.cat(tap.frames[0])
    finder = Reader(subject).finder(LINE, tap.requests[0], codes.numpy())
    again = list(tap.inner.generate(tap.requests, Cancellation()))
    frames = torch.cat([d.attention for deltas in again for d in deltas if d.attention is not None])
    looks = frames[:, 0, -len(finder._heard) :].argmax(dim=1).numpy()
    assert len(finder._path) == len(codes)
    assert np.mean(np.abs(looks - np.array(finder._looks)) <= 1) > 0.9
    assert len(finder.faults(Limits())) == len(waveforms.faults[0])
