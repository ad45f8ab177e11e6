"""A worker that runs plans written by hand computes what the standard path computes.

No bit depends on blocks that were lost, moved or shared, or on the sequences that ran beside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ChatTTS
from ChatTTS.core import Chat
from ChatTTS.model.generation import Cancellation, Delta
from ChatTTS.model.kernels.cpu.build import BuildError
from ChatTTS.model.random_numbers import Pass
from ChatTTS.model.velocity import model_loader
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.plan import (
    BlockMove,
    MoveKind,
    SequenceData,
)
from ChatTTS.model.velocity.worker import Worker

from ...support.places import DATA
from ...support.velocity_driver import BLOCK, HIDDEN, STEPS, Driver, alone, everything, make_data
from ...support.velocity_models import make_team


def without_kernels(size: int) -> None:
    raise BuildError("not in this test")


@pytest.fixture(params=["native", "torch"])
def make_worker(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Worker]:
    if request.param == "torch":
        monkeypatch.setattr(model_loader, "Team", without_kernels)
    else:
        make_team(1)

    def make(model: Path = DATA / "model-a", **changes: Any) -> Worker:
        usual: dict[str, Any] = {"block_size": BLOCK, "kv_memory": "8MB", "swap_memory": "2MB"}
        args = EngineArgs(model, device="cpu", num_threads=2, **(usual | changes))
        worker = Worker(args.create_engine_config())
        worker.init_cache(worker.plan_cache())
        worker._pool.view(torch.uint8).fill_(0xFF)  # unwritten memory holds NaN
        return worker

    return make


# ---------------------------------------------------------------- against the standard path


def standard_chat(folder: Path | None) -> Chat:
    """Load a checkpoint, or the bundled voice, on the standard engine."""
    chat = Chat()
    source = "bundled" if folder is None else "custom"
    chat.load_or_raise(source, custom_path=folder, device="cpu", use_vllm=False)
    return chat


@pytest.fixture(scope="module")
def reference() -> Chat:
    return standard_chat(DATA / "model-a")


def standard(chat: Chat, datas: Sequence[SequenceData]) -> dict[int, tuple[Tensor, Tensor]]:
    """Ids and hidden states of the standard path."""
    requests = [
        replace(d.request, sampling=replace(d.request.sampling, max_new=STEPS)) for d in datas
    ]
    parts: dict[int, list[Delta]] = {}
    for deltas in chat.gpt.generate(requests, Cancellation()):
        for delta in deltas:
            parts.setdefault(datas[delta.index].seq_id, []).append(delta)
    return {
        seq_id: (torch.cat([d.ids for d in own]), torch.cat([d.hiddens for d in own]))
        for seq_id, own in parts.items()
    }


@pytest.mark.parametrize("chunk", [3, 10_000])
def test_the_ids_of_the_standard_path(
    make_worker: Callable[..., Worker], reference: Chat, chunk: int
) -> None:
    """Texts and codes share a step, and the windows of the repetition penalty are full."""
    told = Driver(make_worker(), everything()).run(STEPS, chunk=chunk)
    for seq_id, (ids, hiddens) in standard(reference, everything()).items():
        num_codebooks = ids.shape[1]
        assert [row[:num_codebooks] for row in told[seq_id].ids] == ids.tolist()
        assert not np.any([row[num_codebooks:] for row in told[seq_id].ids])
        assert (torch.stack(told[seq_id].hiddens) - hiddens).abs().max() < 1e-4
        assert all(told[seq_id].finite)


@pytest.mark.slow
def test_the_bundled_voice(make_worker: Callable[..., Worker]) -> None:
    worker = make_worker(Path(ChatTTS.__file__).parent / "bundled", block_size=32)
    sizes = worker.model.config.gpt
    own: dict[str, Any] = {"hidden": sizes.hidden_size, "texts": sizes.num_text_tokens}
    data = [make_data(0, speaker=False, **own), make_data(1, length=33, **own)]
    driver = Driver(worker, data)
    driver.tables = {0: [3, 1, 0], 1: [2, 5, 4]}  # blocks of 32 positions, more than needed
    told = driver.run(STEPS)
    for seq_id, (ids, _) in standard(standard_chat(None), data).items():
        assert told[seq_id].ids == ids.tolist()


def test_the_log_probability_is_that_of_the_plain_model(
    make_worker: Callable[..., Worker], reference: Chat
) -> None:
    worker = make_worker()
    told = Driver(worker, everything()).run(3)
    embed = reference.gpt.embed
    for data in everything():
        is_code = data.request.key.kind is Pass.CODE
        heads = embed.code_logits if is_code else embed.text_logits
        own = told[data.seq_id]
        plain = heads(torch.stack(own.hiddens)).log_softmax(dim=-1)
        ids = torch.tensor(own.ids)[:, : plain.shape[1], None]
        assert plain.gather(-1, ids).mean(dim=(1, 2)).tolist() == pytest.approx(
            own.logprobs, abs=1e-4
        )


# ---------------------------------------------------------------- bits


def test_neighbours_and_chunks_change_no_bit(make_worker: Callable[..., Worker]) -> None:
    worker = make_worker()
    together = Driver(worker, everything()).run(STEPS, chunk=7)
    for data in everything():
        together[data.seq_id].assert_equal(alone(worker, replace(data, seq_id=100)))


def test_computing_again_what_was_lost_gives_the_same_bits(
    make_worker: Callable[..., Worker],
) -> None:
    worker = make_worker()
    expected = Driver(worker, everything(), first_block=60).run(STEPS)
    driver = Driver(worker, everything())
    driver.run(STEPS // 2)
    for seq_id, pieces in ((2, 5), (1, 10_000), (0, 1)):
        for block in driver.new_table(seq_id):
            worker._pool[block].view(torch.uint8).fill_(0xFF)
        driver.computed[seq_id] = 0
        before = len(driver.told[seq_id].ids)
        while len(driver.told[seq_id].ids) == before:
            driver.step([seq_id], chunk=pieces)
    # Each recomputation drew one id more.
    driver.run(STEPS - STEPS // 2 - 1)
    for seq_id, told in expected.items():
        while len(driver.told[seq_id].ids) < STEPS:
            driver.step([seq_id])
        driver.told[seq_id].assert_equal(told)


def test_moved_blocks_are_whole(make_worker: Callable[..., Worker]) -> None:
    worker = make_worker()
    expected = Driver(worker, everything(), first_block=60).run(STEPS)
    driver = Driver(worker, everything())
    driver.run(STEPS // 2)

    # One sequence goes to other blocks of the device, another to the host, and back to others.
    old, moves = driver.new_table(0), []
    for source, target in zip(old, driver.tables[0], strict=True):
        moves.append(BlockMove(MoveKind.COPY, source, target))
    away = driver.new_table(2)
    moves += [BlockMove(MoveKind.OUT, block, host) for host, block in enumerate(away)]
    driver.step([0, 1], moves=tuple(moves))
    for block in (*old, *away):
        worker._pool[block].view(torch.uint8).fill_(0xFF)
    driver.step([0, 3])
    back = [BlockMove(MoveKind.IN, host, block) for host, block in enumerate(driver.tables[2])]
    driver.step(moves=tuple(back))
    for seq_id, told in expected.items():
        while len(driver.told[seq_id].ids) < STEPS:
            driver.step([seq_id])
        driver.told[seq_id].assert_equal(told)


def test_moves_are_carried_out_one_after_another(make_worker: Callable[..., Worker]) -> None:
    """A block that is emptied and filled again in one plan holds the data of the last move."""
    worker = make_worker()
    pool, host = worker._pool, worker._host
    for block in range(3):
        pool[block].view(torch.uint8).fill_(block + 1)
    host[0].view(torch.uint8).fill_(9)
    moves = (
        BlockMove(MoveKind.OUT, 0, 1),
        BlockMove(MoveKind.COPY, 1, 0),
        BlockMove(MoveKind.COPY, 0, 5),
        BlockMove(MoveKind.IN, 0, 1),
        BlockMove(MoveKind.OUT, 1, 2),
        BlockMove(MoveKind.IN, 1, 2),
    )
    Driver(worker, [make_data(0)], first_block=60).step(moves=moves)

    def is_full_of(block: Tensor, value: int) -> bool:
        return bool((block.contiguous().view(torch.uint8) == value).all())

    assert is_full_of(host[1], 1)
    assert is_full_of(pool[0], 2)
    assert is_full_of(pool[5], 2)
    assert is_full_of(pool[1], 9)
    assert is_full_of(host[2], 9)
    assert is_full_of(pool[2], 1)


def test_samples_of_one_prompt_share_its_blocks(make_worker: Callable[..., Worker]) -> None:
    worker = make_worker()
    length = 3 * BLOCK
    datas = [make_data(i, length=length, sample=i) for i in range(3)]
    driver = Driver(worker, datas)
    driver.step([0], chunk=length - 1)
    for seq_id in (1, 2):
        # Whole blocks are shared; the last one holds the position that draws, and is copied.
        driver.tables[seq_id][:2] = driver.tables[0][:2]
        driver.computed[seq_id] = length - 1
    copies = [BlockMove(MoveKind.COPY, driver.tables[0][2], driver.tables[i][2]) for i in (1, 2)]
    driver.step(moves=tuple(copies))
    told = driver.run(STEPS - 1)
    assert told[0].hiddens[0].equal(told[1].hiddens[0])
    assert told[0].ids != told[1].ids != told[2].ids
    for data in datas:
        told[data.seq_id].assert_equal(alone(worker, replace(data, seq_id=100)))


def seeded(data: SequenceData, seed: int) -> SequenceData:
    key = replace(data.request.key, seed=seed)
    return SequenceData(2, replace(data.request, key=key))


def test_the_same_seed_repeats_and_another_differs(make_worker: Callable[..., Worker]) -> None:
    worker = make_worker()
    data = make_data(0, temperature=(1.0,) * 4)
    first, again = alone(worker, data), alone(worker, replace(data, seq_id=1))
    first.assert_equal(again)
    other = alone(worker, seeded(data, 7))
    assert other.ids != first.ids
    assert len({tuple(row) for row in first.ids}) > STEPS // 2


# ---------------------------------------------------------------- what it knows


def test_sequences_are_forgotten_when_they_are_told_to_be(
    make_worker: Callable[..., Worker],
) -> None:
    worker = make_worker()
    driver = Driver(worker, everything())
    driver.run(2)
    driver.step([0], ended=(1, 2, 77))  # 77 is unknown: it never had work
    for seq_id in (1, 2):
        with pytest.raises(KeyError):
            driver.step([seq_id])
    # The id can be had again, even in the plan that ends it.
    again = Driver(worker, [make_data(0, length=40), make_data(1, length=22)], first_block=60)
    again.step(ended=(0,))
    told = again.run(STEPS - 1)
    for data in again.data.values():
        told[data.seq_id].assert_equal(alone(worker, replace(data, seq_id=100 + data.seq_id)))


def test_work_that_does_not_draw(make_worker: Callable[..., Worker]) -> None:
    driver = Driver(make_worker(), everything())
    result = driver.step([0, 2], chunk=5)
    assert result.hiddens.shape == (0, HIDDEN)
    result = driver.step([2, 4, 0], chunk=6)
    assert len(result.ids) == 1
    assert len(driver.told[4].ids) == 1


def test_a_speaker_that_is_no_number_spoils_its_own_row(make_worker: Callable[..., Worker]) -> None:
    worker = make_worker()
    expected = Driver(worker, everything(), first_block=60).run(5)
    datas = everything()
    bad = datas[2].request.prompt.speaker
    assert bad is not None
    bad[7] = np.nan
    told = Driver(worker, datas).run(5)
    assert told[2].finite == [False] * 5
    for seq_id in (0, 1, 3, 4):
        assert all(told[seq_id].finite)
        told[seq_id].assert_equal(expected[seq_id])


def test_a_prompt_may_reach_to_the_end_of_the_model(make_worker: Callable[..., Worker]) -> None:
    worker = make_worker()
    data = make_data(0, length=1022, max_new=10_000)
    driver = Driver(worker, [data])
    driver.step(chunk=1000)
    for _ in range(3):  # positions 1021, 1022 and 1023
        driver.step()
    assert driver.computed[0] == 1024
    assert all(driver.told[0].finite)


def test_the_callers_prompt_is_left_alone(make_worker: Callable[..., Worker]) -> None:
    data, same = make_data(2, length=31, codes=17), make_data(2, length=31, codes=17)
    alone(make_worker(), data)
    for name in ("text", "codes", "speaker", "speaker_slots"):
        assert np.array_equal(
            getattr(data.request.prompt, name), getattr(same.request.prompt, name)
        )
