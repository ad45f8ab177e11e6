"""Processes of this machine, and the addresses that they listen on, as Linux tells them."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """Return the processes below a process, with their command lines."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if fields[0] != "Z":
                parents[int(folder.name)] = int(fields[1])
    found: dict[int, str] = {}
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        for child in level:
            try:
                line = Path(f"/proc/{child}/cmdline").read_bytes()
            except OSError:
                continue
            found[child] = line.replace(b"\0", b" ").decode(errors="replace")
    return found


def listening_addresses(pids: Iterable[int]) -> set[str]:
    """Return the IP addresses that these processes listen on."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    inodes.add(os.readlink(file))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(_address(fields[1].partition(":")[0]))
    return found


def _address(words: str) -> str:
    """Return an address as text, from the hexadecimal numbers of 32 bits in the kernel's tables."""
    numbers = [words[i : i + 8] for i in range(0, len(words), 8)]
    packed = b"".join(bytes.fromhex(number)[::-1] for number in numbers)
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def is_gone(pid: int) -> bool:
    """Return whether a process has ended, though its parent may not have waited for it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"
