"""The engine as it runs on a GPU: captured steps, and plans of several steps ahead."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ChatTTS.core import Chat
from ChatTTS.model.cuda import graphs
from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.executor import InProcessExecutor
from ChatTTS.model.velocity.input_batch import SequenceState
from ChatTTS.model.velocity.llm_engine import LLMEngine
from ChatTTS.model.velocity.model_loader import ModelLoader
from ChatTTS.model.velocity.plan import Pending, StepPlan, Work
from ChatTTS.model.velocity.worker import Worker

from .....support.capture_tools import ForgetfulCapturer, capture_anywhere
from .....support.chat_tools import LIVELY, TEXT
from .....support.kernel_tools import DEVICE, EMULATED
from .....support.places import DATA
from .....support.torch_references import use_torch_references
from .....support.velocity_driver import STEPS, Driver, alone, everything, make_data
from .....support.velocity_fakes import Joined, run_all
from .....support.waiting import wait_until

from ChatTTS.model.kernels.cuda import prompt_attention  # isort: skip
from ChatTTS.model.velocity.backends.cuda.decode_steps import DecodeSteps  # isort: skip
from ChatTTS.model.velocity.backends.cuda.operations import TritonOperations  # isort: skip

MODEL = DATA / "model-a"


def take_triton(monkeypatch: pytest.MonkeyPatch, *, late: bool = False) -> None:
    """Use the Triton path on the CPU as well.

    Args:
        late: capture steps when they are first taken, for kernels that are slow without a GPU.
    """
    monkeypatch.setattr(ModelLoader, "_team", lambda loader: None)
    monkeypatch.setattr(ModelLoader, "_has_triton", lambda *_: True)
    capture_anywhere(monkeypatch, late=late)


def make_worker(*, behind: bool = True, **changes: Any) -> Worker:
    """Return a worker with a pool that was never written.

    Args:
        behind: capture the steps, too, that are left to a thread.
    """
    usual: dict[str, Any] = {"block_size": 8, "kv_memory": "8MB", "max_num_seqs": 5}
    usual |= {"model": MODEL, "device": "cpu"}
    args = EngineArgs(**(usual | changes))
    worker = Worker(args.create_engine_config())
    worker.init_cache(worker.plan_cache())
    while behind and worker.capturable is not None and worker.capturable.capture_next():
        pass
    # Memory that was never written holds NaN.
    worker._pool.view(torch.uint8).fill_(0xFF)
    return worker


@pytest.mark.parametrize("chunk", [3, 10_000])
def test_the_ids_of_the_reference(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Requests for texts and codes, with and without a speaker or a sample, share their steps."""
    expected = Driver(make_worker(), everything()).run(STEPS)
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    worker = make_worker()
    assert worker.depth == 2
    told = Driver(worker, everything()).run(STEPS, chunk=chunk)
    runner: Any = worker._runner
    for steps in runner._step_runner._decode.values():
        idle = steps._active[:-1] == 0
        assert not steps._positions[:-1][idle].any()
        assert steps._slot_of[:-1][idle].equal(5 + idle.nonzero().squeeze(1))
        assert not steps._state.generated[5:-1].any()
    for seq_id, own in told.items():
        assert own.ids == expected[seq_id].ids
        assert own.logprobs == pytest.approx(expected[seq_id].logprobs, abs=1e-4)
        assert all(own.finite)
        difference = torch.stack(own.hiddens) - torch.stack(expected[seq_id].hiddens)
        assert difference.abs().max() < 2e-5


def test_sequences_that_miss_steps_have_the_ids_of_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = Driver(make_worker(), everything()).run(STEPS)
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    driver, dice = Driver(make_worker(), everything()), Random(0)
    while todo := [seq_id for seq_id, own in driver.told.items() if len(own.ids) < STEPS]:
        if some := [seq_id for seq_id in todo if dice.random() < 0.6]:
            driver.step(some)
    assert {seq_id: own.ids for seq_id, own in driver.told.items()} == {
        seq_id: own.ids for seq_id, own in expected.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model-a", "model-b"])
def test_the_kernels_themselves(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Two rows of different length: their prompts and two steps, with greedy codes."""
    _need_compiled_kernels()
    hidden = {"model-a": 64, "model-b": 96}[name]
    greedy: dict[str, Any] = {"temperature": (0.0,) * 4, "hidden": hidden}
    datas = [make_data(0, length=5, **greedy), make_data(1, length=4, codes=2, **greedy)]
    sizes: dict[str, Any] = {"model": DATA / name, "max_num_seqs": 2, "max_num_batched_tokens": 16}
    expected = Driver(make_worker(**sizes), datas).run(3)
    take_triton(monkeypatch, late=True)
    told = Driver(make_worker(**sizes, device=str(DEVICE)), datas).run(3)
    for seq_id, own in told.items():
        assert own.ids == expected[seq_id].ids
        difference = torch.stack(own.hiddens) - torch.stack(expected[seq_id].hiddens)
        assert difference.abs().max() < 2e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype", "int8_cache"),
    [
        ("model-a", "float32", {}),
        ("model-a", "bfloat16", {}),
        ("model-b", "bfloat16", {}),
        ("model-a", "bfloat16", {"kv_cache_dtype": "int8"}),
        ("model-b", "bfloat16", {"quantization": "int8"}),
    ],
    ids=[
        "float32-model-a",
        "bfloat16-model-a",
        "bfloat16-model-b",
        *(f"bfloat16-{name}-in-eight-bits" for name in ("model-a-cache", "model-b-weights")),
    ],
)
def test_bits_of_compiled_kernels(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str, int8_cache: dict[str, Any]
) -> None:
    """Sequences alone, together, in parts, and in larger steps have equal codes and vectors."""
    _need_compiled_kernels()
    hidden = {"model-a": 64, "model-b": 96}[name]
    datas = [
        make_data(0, length=5, hidden=hidden),
        make_data(1, length=9, codes=2, hidden=hidden),
        make_data(2, length=18, hidden=hidden),
    ]
    sizes: dict[str, Any] = {"model": DATA / name, "max_num_batched_tokens": 32, "dtype": dtype}
    sizes |= {"device": str(DEVICE), **int8_cache}
    take_triton(monkeypatch, late=True)
    # Prompts are read in tiles, although so few would not be.
    monkeypatch.setattr(prompt_attention, "MIN_PROGRAMS", 1)
    together = Driver(make_worker(**sizes), datas).run(3)
    in_parts = Driver(make_worker(**sizes), datas).run(3, chunk=6)
    in_larger = Driver(make_worker(behind=False, **sizes), datas).run(3)
    worker = make_worker(**sizes)
    for data in datas:
        for other in (in_parts[data.seq_id], in_larger[data.seq_id], alone(worker, data, 3)):
            assert other.ids == together[data.seq_id].ids
            assert torch.stack(other.hiddens).equal(torch.stack(together[data.seq_id].hiddens))


def _need_compiled_kernels() -> None:
    """Leave a test of whole engines to GPUs and to the emulator; the interpreter takes minutes."""
    if not (EMULATED or torch.cuda.is_available()):
        pytest.skip("needs compiled kernels: tests/ptx runs it")


@pytest.mark.slow
def test_what_steps_read_outlives_their_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    capturer = ForgetfulCapturer()
    monkeypatch.setattr(graphs, "CudaGraphCapturer", lambda *_, **__: capturer)
    worker = make_worker()
    assert capturer.captures > 4
    assert capturer.lost() == 0
    worker.close()


@pytest.fixture
def bare() -> DecodeSteps:
    """Steps of at most three rows that compute nothing; one row is laid out."""
    embed: Any = SimpleNamespace(num_codebooks=4, end_of_speech=625, code=nn.Embedding(8, 16))
    none: Any = None
    steps = DecodeSteps(
        none, embed, torch.zeros(4, 1, 2, 1, 8, 4), none, max_rows=3, max_positions=32
    )
    steps._assign_slots(*some_work(0))
    return steps


def some_work(*seq_ids: int) -> tuple[list[Work], list[SequenceState]]:
    """Work of sequences that have drawn two frames, of which each code is their number."""
    works, states = [], []
    for seq_id in seq_ids:
        state = SequenceState(make_data(seq_id, length=4 + seq_id).request, 4, 32)
        state.append(np.full((2, 4), seq_id))
        works.append(Work(seq_id, 5 + seq_id, 1, (seq_id % 4,), draws=True))
        states.append(state)
    return works, states


def test_only_rows_with_a_sequence_count(bare: DecodeSteps) -> None:
    """The counters of the others would overflow in a server that never fills a bucket."""
    bare._assign_slots(*some_work(0, 1, 2))
    assert bare._active[:3].tolist() == [1, 1, 1]
    assert bare._table_of[:3].tolist() == [0, 1, 2]
    bare._assign_slots(*some_work(0, 2))  # a smaller bucket holds them: rows move, and slots stay
    assert bare._active[:3].tolist() == [1, 1, 0]
    assert bare._table_of[:3].tolist() == [0, 2, -1]
    bare._assign_slots(*some_work(2))
    assert bare._active[:3].tolist() == [1, 0, 0]
    assert bare._table_of[:3].tolist() == [2, -1, -1]
    assert bare._slot_of[:3].tolist() == [2, 4, 5]
    assert bare._positions[:3].tolist() == [7, 0, 0]
    assert bare._ids[2].tolist() == [2] * 4
    assert bare._state.generated[:-1].tolist() == [2, 2, 2, 0, 0, 0]


def test_results_of_steps_lie_on_the_host(bare: DecodeSteps) -> None:
    """The default device of the caller's thread makes no difference."""
    graph: Any = SimpleNamespace(replay=lambda: None)
    bare._captured.add(1, False, graph)
    with torch.device("meta"):
        decoded = bare.sample(*some_work(0), 2)()
    assert decoded.ids.shape == (2, 4)


# ---------------------------------------------------------------- plans ahead


class WatchedExecutor(InProcessExecutor):
    """An executor that notes the plans, and how many were in flight when each was begun."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.plans: list[StepPlan] = []
        self.depths: list[int] = []
        self.flying = 0

    def execute_model(self, plan: StepPlan) -> Pending:
        self.plans.append(plan)
        self.depths.append(self.flying)
        self.flying += 1
        pending = super().execute_model(plan)

        def result() -> Any:
            self.flying -= 1
            return pending()

        return result


def make_engine(**changes: Any) -> tuple[LLMEngine, WatchedExecutor]:
    usual: dict[str, Any] = {"block_size": 8, "kv_memory": "8MB", "max_num_seqs": 5}
    args = EngineArgs(MODEL, device="cpu", **(usual | changes))
    config = args.create_engine_config()
    executor = WatchedExecutor(config)
    return LLMEngine(config, executor), executor


def make_requests(count: int) -> list[GenerationRequest]:
    requests = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        length = int(rng.integers(4, 40))
        kind = Pass.REFINE if seed % 5 == 4 else Pass.CODE
        num_codebooks = 4 if kind is Pass.CODE else 1
        prompt = Prompt(
            rng.integers(0, 400, length),
            rng.integers(0, 625, (int(rng.integers(0, 6)), 4)) if seed % 3 == 0 else NO_CODES,
            None,
            np.zeros(length, dtype=np.bool_),
        )
        most = int(rng.integers(1, 40))
        # A high temperature, so that some end by themselves.
        sampling = SamplingParams(
            (float(rng.choice([0.0, 1.0, 30.0])),) * num_codebooks,
            1.0,
            626,
            1.1,
            int(rng.integers(0, 4)),
            most,
            n=1 + seed % 3 // 2,
        )
        requests.append(
            GenerationRequest(prompt, sampling, DrawKey(seed, kind), request_id=f"r{seed}")
        )
    return requests


NO_CODES = np.zeros((0, 0), dtype=np.int64)


def run_staggered(engine: LLMEngine, requests: list[GenerationRequest]) -> Joined:
    """Run requests, of which some arrive while others run."""
    joined = Joined()
    for request in requests:
        engine.add([request])
        for _ in range(request.key.seed * 7 % 4):
            joined.take(engine.step())
    return run_all(engine, joined)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"max_num_seqs": 2, "max_num_batched_tokens": 7},
        {"kv_memory": "170KB", "enable_prefix_caching": False},  # too little for all: preempted
        {"kv_memory": "170KB", "swap_memory": "1MB"},
    ],
    ids=["roomy", "narrow", "recomputed", "swapped"],
)
def test_going_ahead_changes_no_id(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    requests = make_requests(12)
    expected = run_staggered(make_engine()[0], requests)
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    engine, executor = make_engine(**changes)
    joined = run_staggered(engine, requests)
    for request in requests:
        for sample in range(request.sampling.n):
            assert joined.ids(request, sample) == expected.ids(request, sample)
            assert joined.finish(request, sample) is expected.finish(request, sample)
    assert max(executor.depths) == 1
    assert max(plan.steps for plan in executor.plans) > 1
    metrics = engine.metrics()
    assert metrics.requests_stopped
    assert metrics.requests_at_limit
    if "kv_memory" in changes:
        assert metrics.preempted_swap if "swap_memory" in changes else metrics.preempted_recompute
    assert metrics.used_blocks == 0


@pytest.mark.slow
def test_attention_of_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some ask for it and others do not, in steps alone and in plans of several steps."""
    heads = [(), ((0, 1),), ((1, 0), (0, 0), (1, 1))]
    requests = [
        replace(request, alignment_heads=heads[number % 3])
        for number, request in enumerate(make_requests(9))
    ]

    def run() -> dict[tuple[str, int], torch.Tensor]:
        engine = make_engine()[0]
        engine.add(requests[:5])
        found: dict[tuple[str, int], list[torch.Tensor]] = {}
        waiting = requests[5:]
        while engine.has_unfinished_requests():
            for output in engine.step():
                for delta in output.deltas:
                    if delta.attention is not None:
                        assert len(delta.attention) == len(delta.ids)
                        key = output.request_id, delta.index
                        found.setdefault(key, []).append(delta.attention)
            if waiting:
                engine.add([waiting.pop()])
        return {key: torch.cat(own) for key, own in found.items()}

    expected = run()
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    plain = TritonOperations.attend_text

    def attend(table: TritonOperations, *given: Any) -> None:
        # Another alignment would be compiled while requests run.
        assert all(each.data_ptr() % 16 == 0 for each in given if isinstance(each, torch.Tensor))
        plain(table, *given)

    monkeypatch.setattr(TritonOperations, "attend_text", attend)
    found = run()
    assert found.keys() == expected.keys()
    assert len({key[0] for key in found}) > 4
    for key, own in found.items():
        torch.testing.assert_close(own, expected[key], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_request_that_waits_for_blocks_does_not_hold_up_running_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    engine, executor = make_engine(kv_memory="170KB", enable_prefix_caching=False)
    none = np.zeros(30, dtype=np.bool_)
    endless = SamplingParams((0.0,) * 4, 1.0, 626, 1.0, 60, 60)
    for seed in range(6):
        prompt = Prompt(np.arange(30) + seed, NO_CODES, None, none)
        engine.add(
            [GenerationRequest(prompt, endless, DrawKey(seed, Pass.CODE), request_id=f"r{seed}")]
        )
    run_all(engine, Joined())
    assert sum(executor.depths) > len(executor.depths) / 2
    assert engine.metrics().used_blocks == 0


def test_joins_and_leaves_do_not_stop_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next plan is made before the last one's result is known, and ids stay those of before.

    Two requests for frames go on, while short ones for frames and for texts join them and leave.
    """
    none = np.zeros(9, dtype=np.bool_)

    def request(seed: int, most: int, kind: Pass = Pass.CODE) -> GenerationRequest:
        prompt = Prompt(np.arange(9) + seed, NO_CODES, None, none)
        hot = (1.0,) * (4 if kind is Pass.CODE else 1)
        sampling = SamplingParams(hot, 0.9, 20, 1.1, most, most)
        return GenerationRequest(prompt, sampling, DrawKey(seed, kind), request_id=f"r{seed}")

    lasting = [request(0, 40), request(1, 40)]
    short = [request(2 + i, 3 + i % 3, Pass.REFINE if i % 3 == 2 else Pass.CODE) for i in range(9)]

    def run(engine: LLMEngine) -> Joined:
        joined = Joined()
        engine.add(lasting)
        for each in short:
            joined.take(engine.step())
            engine.add([each])
        return run_all(engine, joined)

    expected = run(make_engine()[0])
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    engine, executor = make_engine()
    found = run(engine)
    for each in lasting + short:
        assert found.ids(each) == expected.ids(each)
    assert executor.depths[0] == 0
    assert set(executor.depths[1:]) == {1}
    joined_at = [plan for plan, depth in zip(executor.plans, executor.depths, strict=True) if depth]
    assert sum(len(plan.new) for plan in joined_at) == len(short)
    assert engine.metrics().used_blocks == 0


def test_a_chat_on_captured_steps(monkeypatch: pytest.MonkeyPatch, standard: Chat) -> None:
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    chat = Chat()
    chat.load_or_raise("custom", custom_path=MODEL, device="cpu", use_vllm=True)
    texts = [TEXT, "hello."]
    settings: dict[str, Any] = {"skip_refine_text": True, "params_infer_code": LIVELY}
    for found, expected in zip(
        chat.infer(texts, **settings), standard.infer(texts, **settings), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    refining: dict[str, Any] = {"params_refine_text": {"manual_seed": 1, "max_new_token": 6}}
    assert chat.infer(TEXT, refine_text_only=True, **refining) == standard.infer(
        TEXT, refine_text_only=True, **refining
    )
    endless = {**LIVELY, "min_new_token": 900, "max_new_token": 900}
    stream = chat.stream(TEXT, skip_refine_text=True, params_infer_code=endless)
    first = next(stream)
    chat.interrupt()
    rest = list(stream)
    assert stream.finish_reason == "abort"
    assert len(first.samples) + sum(len(piece.samples) for piece in rest) < 1799 * 256
    velocity: Any = chat.gpt.engine
    metrics = velocity.engine.metrics
    wait_until(lambda: metrics().used_blocks == metrics().running == 0)
    chat.unload()
