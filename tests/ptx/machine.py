"""A GPU that runs one launch: all threads of all programs, a warp at a time in step.

Every value is an array over all threads. Warps have program counters of their own. The machine
advances those that are furthest behind, all that stand at one place together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .formats import BITS, UNSIGNED, Values, decode, encode
from .memory import Bytes, Places, TensorMemory
from .overlap import LaunchAccesses
from .program import Address, Instruction, Number, Operand, Program, PtxError, Register, Symbol
from .races import GlobalMemoryWatch, SharedMemoryWatch

WARP = 32
_LANES = np.arange(WARP)
# Memory that was never written holds this, so that a result that depends on it is odd.
_UNWRITTEN = 0xFF

Operation = Callable[["Machine", Instruction], None]
OPERATIONS: dict[str, Operation] = {}


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Declare the function that carries out instructions with these opcodes."""

    def declare(function: Operation) -> Operation:
        OPERATIONS.update(dict.fromkeys(names, function))
        return function

    return declare


@dataclass(frozen=True)
class Copy:
    """An asynchronous copy to shared memory that has not arrived."""

    offsets: Places
    data: Bytes
    threads: Places


class Machine:
    """Runs a kernel once.

    Args:
        program: the kernel.
        grid: the numbers of programs in three directions.
        threads: of a program.
        shared: bytes of shared memory of a program.
        memory: what the launch may access.
        parameters: the raw value of each parameter, by its name.
        races: whether races are looked for; that takes about as long as the rest.
        accesses: receives each access to the tensors.

    Attributes:
        found: what was wrong, a line each.
        executed: instructions that were carried out for some warps.
        fetched: how often each address was fetched into the cache.
        now: the present instruction.
    """

    def __init__(
        self,
        program: Program,
        grid: tuple[int, int, int],
        threads: int,
        shared: int,
        memory: TensorMemory,
        parameters: dict[str, int],
        *,
        races: bool = True,
        accesses: LaunchAccesses | None = None,
    ) -> None:
        self.memory, self.parameters = memory, parameters
        self.found: set[str] = set()
        self.executed = 0
        self.fetched: Counter[int] = Counter()
        self.now = Instruction((), (), "the beginning")
        self._program, self._starts = program, set(program.labels.values())
        programs = grid[0] * grid[1] * grid[2]
        self._warps_each = threads // WARP
        self._program_of = np.repeat(np.arange(programs), threads)
        thread = np.tile(np.arange(threads, dtype=np.uint32), programs)
        self._warp_of = (thread // WARP).astype(np.int32)
        self._special = _special(thread, self._program_of, grid, threads)
        self._registers: dict[str, Values] = {}
        # Threads that carry out the present instruction: of the warps at this place, those whose
        # predicate holds. None means all.
        self._threads: Places | None = None
        self._holding: Values | None = None
        self._shared_size = max(16, -(-shared // 16) * 16)
        self.shared = np.full(programs * self._shared_size, _UNWRITTEN, np.uint8)
        self._epochs = np.zeros(programs, np.int32)
        watched = races and programs > 0
        self._shared_watch = SharedMemoryWatch(len(self.shared), self.found) if watched else None
        self._global_watch = GlobalMemoryWatch() if watched else None
        self._accesses = accesses
        # Copies and products that have not arrived, in the groups that are waited for.
        self.open_copies: list[Copy] = []
        self.copy_groups: list[list[Copy]] = []
        self.open_products: list[Callable[[], None]] = []
        self.product_groups: list[list[Callable[[], None]]] = []
        self.awaited: Counter[str] = Counter()  # registers that products will change

    # ---------------------------------------------------------------- running

    def run(self) -> None:
        """Run until every warp has ended.

        Raises:
            PtxError: the program does something that it must not, or that is not known.
        """
        code = self._program.code
        end = len(code)
        places = np.zeros(len(self._program_of) // WARP, np.int64)
        with np.errstate(all="ignore"):
            while (live := places < end).any():
                here = int(places[live].min())
                warps = np.flatnonzero(places == here)
                whole = len(warps) == len(places)
                self._threads = None if whole else (warps[:, None] * WARP + _LANES).ravel()
                self._run_block(here, warps, places)
        if any(self.copy_groups) or self.open_copies:
            self.found.add("the program ends before its asynchronous copies")
        if any(self.product_groups) or self.open_products:
            self.found.add("the program ends before its asynchronous products")
        if self._global_watch is not None:
            self.found |= self._global_watch.races()

    def _run_block(self, here: int, warps: Places, places: Places) -> None:
        """Run warps from an instruction to a branch, or to a place where others may join them."""
        code = self._program.code
        begin = here
        while here < len(code) and (here == begin or here not in self._starts):
            self.now = instruction = code[here]
            self.executed += 1
            holds = self._predicate(instruction)
            opcode = instruction.parts[0]
            if opcode == "bra":
                self._branch(here, holds, warps, places)
                return
            if opcode == "ret":
                if holds is not None:
                    raise PtxError("some threads of a warp end before others")
                here = len(code)
                break
            if holds is None or holds.any():
                self._holding = None if holds is None or holds.all() else holds
                if opcode in ("bar", "barrier"):
                    self._barrier(instruction, warps)
                else:
                    self._carry_out(instruction)
            here += 1
        places[warps] = here

    def _carry_out(self, instruction: Instruction) -> None:
        function = OPERATIONS.get(instruction.parts[0])
        if function is None:
            raise PtxError(f"not known: {instruction.text}")
        function(self, instruction)

    def _predicate(self, instruction: Instruction) -> Values | None:
        if instruction.predicate is None:
            return None
        holds = self.raw(instruction.predicate, 1)
        return ~holds if instruction.negated else holds

    def _branch(self, here: int, holds: Values | None, warps: Places, places: Places) -> None:
        [target] = self.now.operands
        assert isinstance(target, Symbol)
        there = self._program.labels[target.name]
        if holds is None:
            places[warps] = there
            return
        of_warps = holds.reshape(-1, WARP)
        taken = of_warps[:, 0]
        if (of_warps != taken[:, None]).any():
            raise PtxError(f"a warp parts: {self.now.text}")
        places[warps[taken]] = there
        places[warps[~taken]] = here + 1

    def _barrier(self, instruction: Instruction, warps: Places) -> None:
        if "warp" in instruction.parts:
            return
        programs, counts = np.unique(warps // self._warps_each, return_counts=True)
        if (counts != self._warps_each).any():
            raise PtxError(f"a barrier without all warps of a program: {instruction.text}")
        self._epochs[programs] += 1

    # ---------------------------------------------------------------- values

    @property
    def count(self) -> int:
        """The number of threads of the warps at this place."""
        return len(self._program_of) if self._threads is None else len(self._threads)

    def raw(self, operand: Operand, bits: int) -> Values:
        """Return an operand's raw numbers, for each thread of the warps at this place."""
        wanted = UNSIGNED[bits]
        if isinstance(operand, Number):
            return np.full(self.count, operand.bits & ((1 << bits) - 1), wanted)
        if operand == Symbol("global_smem"):  # shared memory begins at 0
            return np.zeros(self.count, wanted)
        if not isinstance(operand, Register):
            raise PtxError(f"{operand} is no value: {self.now.text}")
        if self.awaited[operand.name]:
            self.found.add(f"reads a product that was not waited for: {self.now.text}")
        found = self._registers.get(operand.name, self._special.get(operand.name))
        if found is None:
            raise PtxError(f"{operand.name} is read before it was written: {self.now.text}")
        own = found if self._threads is None else found[self._threads]
        return own if own.dtype == wanted else own.astype(wanted)

    def value(self, operand: Operand, kind: str) -> Values:
        """Return an operand's values of a type, for each thread of the warps at this place."""
        return decode(self.raw(operand, BITS[kind]), kind)

    def put(self, operand: Operand, raw: Values) -> None:
        """Write raw numbers to a register, in the threads whose predicate holds."""
        assert isinstance(operand, Register)
        if operand.name == "_":
            return
        if self._threads is None and self._holding is None:
            self._registers[operand.name] = raw
            return
        self.put_for(self.threads, operand, self.held(raw))

    def put_for(self, threads: Places, register: Register, raw: Values) -> None:
        """Write raw numbers to a register of given threads."""
        before = self._registers.get(register.name)
        after = np.zeros(len(self._program_of), raw.dtype)
        if before is not None:
            after[:] = before.astype(raw.dtype)
        after[threads] = raw
        self._registers[register.name] = after

    def raw_for(self, threads: Places, register: Register) -> Values:
        """Return the raw numbers in a register of given threads."""
        return self._registers[register.name][threads]

    def put_value(self, operand: Operand, values: Values, kind: str) -> None:
        """Write values of a type to a register."""
        self.put(operand, encode(values, kind))

    def is_written(self, register: Register) -> bool:
        """Return whether a register has ever been written."""
        return register.name in self._registers or register.name in self._special

    # ---------------------------------------------------------------- memory

    @property
    def threads(self) -> Places:
        """The threads that carry out the present instruction."""
        own = np.arange(len(self._program_of)) if self._threads is None else self._threads
        return self.held(own)

    def held(self, values: Values) -> Values:
        """Return what belongs to threads whose predicate holds."""
        return values if self._holding is None else values[self._holding]

    def spread(self, values: Values) -> Values:
        """Return values of threads whose predicate holds at their places, zeros elsewhere."""
        if self._holding is None:
            return values
        wide = np.zeros(self.count, values.dtype)
        wide[self._holding] = values
        return wide

    def addresses(self, operand: Operand) -> Places:
        """Return the addresses of the threads that carry out the present instruction."""
        assert isinstance(operand, Address)
        base = operand.base
        wide = isinstance(base, Register) and base.is_wide
        found = self.raw(base, 64 if wide else 32).astype(np.int64) + operand.offset
        return self.held(found)

    def shared_places(self, operand: Operand, size: int) -> Places:
        """Return places in ``shared`` for accesses of ``size`` bytes."""
        return self.in_shared(self.addresses(operand), size, self.programs())

    def in_shared(self, offsets: Places, size: int, programs: Places) -> Places:
        """Return places in ``shared`` for accesses to offsets of the programs' parts.

        Raises:
            PtxError: a place is outside of the program's shared memory, or misaligned.
        """
        if ((offsets < 0) | (offsets + size > self._shared_size)).any():
            raise PtxError(f"outside of the shared memory: {self.now.text}")
        if (offsets % size).any():
            raise PtxError(f"misaligned in shared memory: {self.now.text}")
        return offsets + programs * self._shared_size

    def programs(self) -> Places:
        """Return the program of each thread that carries out the present instruction."""
        return self._program_of[self.threads]

    def note_shared(self, access: str, places: Places, size: int, threads: Places) -> None:
        """Watch an access to shared memory: ``reads`` or ``writes``."""
        if self._shared_watch is not None:
            warps, epochs = self._warp_of[threads], self._epochs[self._program_of[threads]]
            note = getattr(self._shared_watch, access)
            note(places, size, warps, epochs, self.now.text)

    def note_global(self, access: str, addresses: Places, size: int, threads: Places) -> None:
        """Watch an access to the tensors: ``reads`` or ``writes``."""
        if self._accesses is not None:
            self._accesses.note(access, addresses, size, threads)
        if self._global_watch is not None:
            programs = self._program_of[threads]
            by = programs, self._warp_of[threads], self._epochs[programs]
            times = np.full(len(threads), self.executed)
            getattr(self._global_watch, access)(addresses, size, *by, times)

    def wait_for_launch(self) -> None:
        """Note that the threads wait until the previous launch is done."""
        if self._accesses is not None:
            self._accesses.wait(self.threads)


def _special(
    thread: Values, program: Places, grid: tuple[int, int, int], threads: int
) -> dict[str, Values]:
    """Return the registers that the hardware sets."""
    none = np.zeros_like(thread)
    one = none + np.uint32(1)
    places = program % grid[0], program // grid[0] % grid[1], program // (grid[0] * grid[1])
    found = {"%tid.x": thread, "%ntid.x": one * np.uint32(threads), "%laneid": thread % WARP}
    found |= dict.fromkeys(("%tid.y", "%tid.z"), none) | dict.fromkeys(("%ntid.y", "%ntid.z"), one)
    for axis, place, size in zip("xyz", places, grid, strict=True):
        found[f"%ctaid.{axis}"] = place.astype(np.uint32)
        found[f"%nctaid.{axis}"] = one * np.uint32(size)
    return found
