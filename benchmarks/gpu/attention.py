"""Attention of a decode step over paged keys and values."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
import torch

from ChatTTS.model.cuda import graphs
from ChatTTS.model.kernels.cuda.attention import attend_rows
from ChatTTS.model.velocity.configs import CacheConfig

from .scale import Task
from .timing import device_seconds


@torch.inference_mode()
def measure(task: Task, dtype: str) -> None:
    """Record microseconds of a layer's attention, and GB/s of keys and values that it reads.

    All streams are at position ``scale.positions``.
    """
    scale, device, kind = task.scale, task.device, getattr(torch, dtype)
    task.record.put(dtype=dtype, positions=scale.positions)
    gpt = scale.gpt
    heads, size = gpt.num_attention_heads, gpt.hidden_size // gpt.num_attention_heads
    depth, block_size = gpt.num_hidden_layers, CacheConfig.block_size
    blocks = -(-scale.positions // block_size)
    capturer = graphs.CudaGraphCapturer(device, advice="end what else uses the GPU")
    results: dict[str, Any] = {}
    for streams in scale.streams:
        one = 2 * streams * scale.positions * gpt.hidden_size * kind.itemsize
        # So many batches take turns that their keys and values do not fit into the GPU's caches.
        batches = -(-scale.spread_bytes // (one * depth))
        shape = (batches * streams * blocks, depth, 2, heads, block_size, size)
        pool = torch.empty(shape, dtype=kind, device=device).normal_()
        places = np.random.default_rng(0).permutation(batches * streams * blocks)
        tables = torch.from_numpy(places.astype(np.int32)).to(device)
        query = torch.randn(streams, heads, size, device=device).to(kind)
        table_of = torch.arange(streams, dtype=torch.int32, device=device)
        positions = torch.full_like(table_of, scale.positions - 1)
        own = tables.view(batches, streams, blocks).unbind()

        def work(
            query: torch.Tensor = query,
            pool: torch.Tensor = pool,
            own: tuple[torch.Tensor, ...] = own,
            rows: tuple[torch.Tensor, torch.Tensor] = (table_of, positions),
        ) -> None:
            for table in own:
                for layer in range(depth):
                    attend_rows(
                        query, pool, layer, table, *rows, max_positions=gpt.max_position_embeddings
                    )

        replay = capturer.capture(work).replay
        seconds = median(device_seconds(replay, device, scale.rounds)) / (batches * depth)
        results[str(streams)] = {"us": 1e6 * seconds, "gb_s": one / seconds / 1e9}
        task.record.put(streams=results)
