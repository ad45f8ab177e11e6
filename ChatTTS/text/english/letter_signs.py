"""Signs that belong to a letter: "C#", "B♭" and "∠B"."""

from __future__ import annotations

from ..spans import span

_ACCIDENTALS = {"#": "sharp", "♯": "sharp", "♭": "flat", "♮": "natural"}
_SHAPES = {
    "∠": "angle", "△": "triangle", "⊥": "perpendicular to", "∥": "parallel to",
    "∂": "partial", "∇": "nabla", "∴": "therefore", "∵": "because", "∀": "for all",
    "∃": "there is", "∉": "is not in", "∅": "the empty set", "∪": "union", "∩": "intersection",
    "⊂": "is a subset of", "⊆": "is a subset of", "∝": "is proportional to",
    "≡": "is equivalent to", "≅": "is congruent to", "∏": "the product",
    "⇒": "implies", "⇔": "if and only if",
    "←": "from", "↔": "to and from", "↑": "up", "↓": "down", "✓": "check", "✔": "check",
    "✗": "cross", "✘": "cross", "¬": "not", "∧": "and", "∨": "or", "†": "", "‡": "",
}  # fmt: skip

LETTER_SIGNS = (
    span(
        "notes and languages",
        r"(?<![\w#&])([A-GJQX])([#♯♭♮])(?![\w#♯♭♮]*[\d#]{2})",
        lambda match: f"{match[1]} {_ACCIDENTALS[match[2]]}",
        without_digits=True,
    ),
    span("bars between fields", r"(?<=[\w.)%\"]) \| (?=\w)", ", ", without_digits=True),
    span(
        "signs of geometry and logic",
        f"[{''.join(_SHAPES)}]",
        lambda match: f" {_SHAPES[match[0]]} ",
    ),
)
