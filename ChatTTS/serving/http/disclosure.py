"""The header by which answers with speech say that it is synthetic."""

from __future__ import annotations

from ...config.mark import SOFTWARE, Mark

DISCLOSURE = "ai-disclosure"
"""Its name, from the Internet-Draft ``draft-abaris-aicdh``; there is no standard yet."""


def disclosure_headers(mark: Mark | None) -> dict[str, str]:
    """Return the header, a dictionary of RFC 9651; none without a mark.

    The ``Date`` of the answer says when the speech was made.
    """
    if mark is None:
        return {}
    members = ["mode=machine-generated", f'model="{SOFTWARE}"']
    if mark.producer:
        members.append(f"provider={_text(mark.producer)}")
    return {DISCLOSURE: ", ".join(members)}


def _text(value: str) -> str:
    """Return a String of RFC 9651, or a Display String where it has more than ASCII."""
    if value.isascii():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    plain = {byte for byte in range(0x20, 0x7F) if byte not in b'%"'}
    shown = (chr(byte) if byte in plain else f"%{byte:02x}" for byte in value.encode())
    return f'%"{"".join(shown)}"'
