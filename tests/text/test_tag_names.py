"""Names of control tags for readers."""

from __future__ import annotations

from ChatTTS.text.tag_names import named_tags

BERT = ["[CLS]", "[UNK]", "[unused12]", "a", "##b"]
PROMPT = ["[Stts]", "[Ebreak]", "[spk_emb]", "[empty_spk]"]


def test_tags_are_named_in_the_order_of_their_kinds() -> None:
    steps = [*(f"[speed_{n}]" for n in range(11)), "[laugh_0]", "[laugh_1]"]
    known = ["[llbreak]", "[pure]", *steps, "[laugh]", "[uv_break]", "[v_break]", *BERT, *PROMPT]
    found = named_tags(known)
    assert [(tag.tag, tag.name, tag.kind) for tag in found] == [
        ("[uv_break]", "short pause", "pause"),
        ("[v_break]", "short pause", "pause"),
        ("[llbreak]", "longer pause", "pause"),
        ("[laugh]", "laughter", "sound"),
        ("[pure]", "clean speech", "setting"),
        ("[laugh_0]", "laughter 0 of 1", "setting"),
        ("[laugh_1]", "laughter 1 of 1", "setting"),
        *((f"[speed_{n}]", f"pace {n} of 10", "setting") for n in range(11)),
    ]


def test_tags_of_other_checkpoints_have_their_words_as_names() -> None:
    found = named_tags({"[heavy_breath]", "[笑]", "[mood_2]", "[mood_3]", "[_]"})
    names = {tag.tag: (tag.name, tag.kind) for tag in found}
    assert names == {
        "[heavy_breath]": ("heavy breath", "sound"),
        "[笑]": ("笑", "sound"),
        "[_]": ("_", "sound"),
        "[mood_2]": ("mood 2 of 3", "setting"),
        "[mood_3]": ("mood 3 of 3", "setting"),
    }
