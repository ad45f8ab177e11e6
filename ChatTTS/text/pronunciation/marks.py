"""Marks of punctuation, and the ones that the voices know."""

from __future__ import annotations

from collections.abc import Mapping

# What each mark is to a voice; a mark that is not here has no sound.
SOUNDS_OF_MARKS: Mapping[str, str] = {sound: sound for sound in ';:,.!?—…"()“”'} | {
    mark: sound
    for sound, marks in {
        ",": "，、､﹐﹑",
        ".": "。．｡",
        "!": "！﹗¡",
        "?": "？﹖¿",
        ":": "：﹕",
        ";": "；﹔",
        "…": "⋯‥",
        "—": "―–－",
        "(": "（【〔[［〖｛{",
        ")": "）】〕]］〗｝}",
        "“": "「『《〈«‹„〝‟",
        "”": "」』》〉»›〞〟",
        '"': "＂",
    }.items()
    for mark in marks
}
