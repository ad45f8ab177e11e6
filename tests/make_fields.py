"""Write the table of request fields into docs/serving/fields.md: `python -m tests.make_fields`."""

from __future__ import annotations

from ChatTTS.config.request_fields import INTERFACES, REQUEST_FIELDS, RequestField

from .support.places import ROOT

DOCUMENT = ROOT / "docs" / "serving" / "fields.md"
BEGIN, END = "<!-- fields: begin -->\n", "<!-- fields: end -->\n"


def table() -> str:
    """Return the table, with its title line."""
    rows = ["| field | value | by default | meaning | where |", "| --- | --- | --- | --- | --- |"]
    return "".join(f"{row}\n" for row in (*rows, *map(_row, REQUEST_FIELDS)))


def _row(field: RequestField) -> str:
    default = "" if field.default is None else f"`{field.default}`".lower()
    value = field.values if field.bounds is None else f"{field.values}, {field.bounds.rule}"
    where = ", ".join(_place(field, name) for name in INTERFACES if name in field.on)
    return f"| `{field.name}` | {value} | {default} | {field.meaning} | {where} |"


def _place(field: RequestField, interface: str) -> str:
    spelling = field.on[interface]
    return interface if spelling == field.name else f"{interface} (`{spelling}`)"


def written(text: str) -> str:
    """Return the document with the table in its place."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
