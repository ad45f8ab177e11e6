"""PTX as Triton writes it, parsed into instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass


class PtxError(RuntimeError):
    """The program does what no GPU would do well, or what the emulator does not know."""


@dataclass(frozen=True)
class Register:
    """A register; ``_`` takes a value that is not needed."""

    name: str

    @property
    def is_wide(self) -> bool:
        """Whether it has 64 bits."""
        return self.name.startswith("%rd")


@dataclass(frozen=True)
class Number:
    """A number in the program, as raw bits."""

    bits: int


@dataclass(frozen=True)
class Symbol:
    """The name of a parameter, a label or the shared memory."""

    name: str


@dataclass(frozen=True)
class Address:
    """A place in memory: a base and an offset in bytes."""

    base: Register | Symbol
    offset: int


@dataclass(frozen=True)
class Vector:
    """Several operands in braces."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class WithPredicate:
    """A destination of ``shfl`` with the predicate that tells whether its source was valid."""

    value: Register
    predicate: Register


Operand = Register | Number | Symbol | Address | Vector | WithPredicate


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        parts: the opcode and its modifiers, such as ``("ld", "global", "b32")``.
        operands: in the order of the text.
        text: as it stands in the program.
        predicate: the register that decides whether a thread carries it out.
        negated: whether the register must be false.
    """

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    text: str
    predicate: Register | None = None
    negated: bool = False

    @property
    def kind(self) -> str:
        """The last modifier, which is the type of most instructions."""
        return self.parts[-1]

    @property
    def vector_size(self) -> int:
        """The number of values that a load or store moves."""
        return next((int(part[1:]) for part in self.parts if re.fullmatch(r"[vx]\d", part)), 1)


@dataclass(frozen=True)
class Program:
    """A kernel.

    Attributes:
        parameters: the names of its parameters.
        code: its instructions.
        labels: the place of the instruction behind each label.
    """

    parameters: tuple[str, ...]
    code: tuple[Instruction, ...]
    labels: dict[str, int]


_COMMA = re.compile(r",\s*(?![^{\[]*[}\]])")
_DECLARATIONS = (".reg", ".loc", ".pragma", ".local", ".shared")
# Braces around the declarations of inline assembly; all instances of it are in step here.
_SCOPES = ("{", "}")
# Half of a pair of registers, for which the compiler declares a register of its own.
_UPPER = re.compile(r"\{\s*\.reg \.b32 tmp;\s*mov\.b64 \{tmp, (%\w+)\}, (%\w+);\s*\}")
_LOWER = re.compile(r"\{\s*\.reg \.b32 tmp;\s*mov\.b64 \{(%\w+), tmp\}, (%\w+);\s*\}")

# Inline assembly that declares registers for itself, each under a name without a percent sign.
_OWN_REGISTERS = re.compile(r"\{\s*((?:\.reg \.\w+ \w+<\d+>;\s*)+)((?:[^{}]|\{[^{}]*\})*)\}")


def parse(ptx: str) -> Program:
    """Parse the text of a module with a single kernel."""
    ptx = re.sub(r"//[^\n]*", "", ptx)
    ptx = _UPPER.sub(r"mov.b64 {_, \1}, \2;", ptx)
    ptx = _LOWER.sub(r"mov.b64 {\1, _}, \2;", ptx)
    ptx = _OWN_REGISTERS.sub(_with_usual_names, ptx)
    entry = re.search(r"\.visible\s+\.entry\s+\w+\s*\(([^)]*)\)", ptx)
    if entry is None:
        raise PtxError("the module has no kernel")
    parameters = tuple(named.split()[-1] for named in entry[1].split(",") if named.strip())
    body = ptx[entry.end() :].split("{", 1)[1]
    body = re.split(r"^\}", body, maxsplit=1, flags=re.M)[0]
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in body.split("\n"):
        rest = line.strip()
        while label := re.match(r"(\$?[\w$]+):\s*", rest):
            labels[label[1]] = len(code)
            rest = rest[label.end() :]
        statements = (statement.strip() for statement in rest.split(";"))
        statements = (s for s in statements if s and s not in _SCOPES)
        code += [_instruction(s) for s in statements if not s.startswith(_DECLARATIONS)]
    return Program(parameters, tuple(code), labels)


def _with_usual_names(assembly: re.Match[str]) -> str:
    declared = re.findall(r"(\w+)<(\d+)>", assembly[1])
    names = "|".join(f"{name}{i}" for name, count in declared for i in range(int(count)))
    return re.sub(rf"\b({names})\b", r"%\1", assembly[2])


def _instruction(text: str) -> Instruction:
    predicate, negated, rest = None, False, text
    if guard := re.match(r"@(!?)(%\w+)\s+", text):
        negated, predicate = bool(guard[1]), Register(guard[2])
        rest = text[guard.end() :]
    matched = re.match(r"([\w.:]+)\s*(.*)$", rest, re.S)
    if matched is None:
        raise PtxError(f"not an instruction: {text}")
    named = matched[2].strip()
    operands = tuple(_operand(each.strip()) for each in _COMMA.split(named)) if named else ()
    return Instruction(tuple(matched[1].split(".")), operands, text, predicate, negated)


def _operand(text: str) -> Operand:
    if text.startswith("{"):
        items = (item.strip() for item in text[1:-1].split(","))
        return Vector(tuple(_operand(item) for item in items if item))
    if text.startswith("["):
        return _address(text[1:-1].strip())
    if text.startswith("%"):
        value, _, predicate = text.partition("|")
        return WithPredicate(Register(value), Register(predicate)) if predicate else Register(text)
    if text == "_":
        return Register(text)
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}", text):
        return Number(int(text[2:], 16))
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)U?", text):
        return Number(int(text.rstrip("U"), 0))
    return Symbol(text)


def _address(text: str) -> Address:
    matched = re.fullmatch(r"(%?[\w$]+)\s*(?:\+\s*(-?\w+))?", text)
    if matched is None:
        raise PtxError(f"not an address: {text}")
    base = Register(matched[1]) if matched[1].startswith("%") else Symbol(matched[1])
    return Address(base, int(matched[2], 0) if matched[2] else 0)
