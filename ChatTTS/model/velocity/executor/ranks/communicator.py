"""Exchanges between the ranks of an engine by torch.distributed (gloo on CPUs, NCCL on GPUs)."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

# Ranks that load a large checkpoint reach the first exchange at different times. The loss of a rank
# is noticed elsewhere, at once.
_PATIENCE = timedelta(minutes=30)
# The interface of the loopback address, by the name of the system.
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def open_store(address: str) -> tuple[Any, int]:
    """Open the store where ranks find one another.

    Args:
        address: of this host; the store listens on no other one.

    Returns:
        The store, which is there as long as this object, and its port.

    Raises:
        OSError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listening:
        port = listening.getsockname()[1]
        store = dist.TCPStore(  # type: ignore[attr-defined]
            address,
            port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=listening.detach(),
        )
    return store, port


class DistributedCommunicator:
    """See :class:`~ChatTTS.model.llama.shard.Communicator`.

    Args:
        address, port: of the store where the ranks find one another.
        rank, ranks: of a stage.
        stage, stages: of the pipeline.
        device: of the rank.
    """

    def __init__(
        self,
        address: str,
        port: int,
        *,
        rank: int,
        ranks: int,
        stage: int,
        stages: int,
        device: torch.device,
    ) -> None:
        self._rank, self._ranks = rank, ranks
        self._place = stage * ranks + rank
        if ipaddress.ip_address(address).is_loopback and sys.platform in _LOOPBACK:
            os.environ["GLOO_SOCKET_IFNAME"] = _LOOPBACK[sys.platform]
        store = dist.TCPStore(address, port, is_master=False, timeout=_PATIENCE)  # type: ignore[attr-defined]
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=store,
            rank=self._place,
            world_size=ranks * stages,
            timeout=_PATIENCE,
            device_id=device if device.type == "cuda" else None,
        )
        # Every rank makes the groups of all stages, as torch.distributed wants it.
        groups = [
            dist.new_group(range(first * ranks, (first + 1) * ranks)) for first in range(stages)
        ]
        self._group = groups[stage]
        # What the next stage may still be reading, and what tells its end.
        self._passed: tuple[Tensor, Any] | None = None

    def all_gather(self, part: Tensor, columns: Sequence[int]) -> Tensor:
        if self._ranks == 1:
            return part
        # All ranks give as many columns. As bytes, since gloo does not know every dtype.
        most = max(columns)
        padded = part.new_zeros(len(part), most)
        padded[:, : part.shape[1]] = part
        parts = [torch.empty_like(padded) for _ in columns]
        dist.all_gather(
            [part.view(torch.uint8) for part in parts], padded.view(torch.uint8), self._group
        )
        return torch.cat([part[:, :n] for part, n in zip(parts, columns, strict=True)], dim=1)

    def receive(self, rows: Tensor) -> Tensor:
        dist.recv(rows.view(torch.uint8), self._place - self._ranks)
        return rows

    def send(self, rows: Tensor) -> None:
        if self._passed is not None:
            self._passed[1].wait()
        rows = rows.contiguous()
        sending = dist.isend(rows.view(torch.uint8), self._place + self._ranks)
        self._passed = rows, sending


def leave() -> None:
    """Leave the ranks' group, if this process is in one."""
    if dist.is_initialized():
        dist.destroy_process_group()
