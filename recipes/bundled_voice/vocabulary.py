"""The tokenizer of the bundled voice: letters, four marks and the control tokens.

A letter at the beginning of a word has another token than inside a word, so spaces need none. An
apostrophe belongs to its word. Tokens are letters rather than pieces of words, so that a small
model learns spelling from every word of its training, and can read unknown words.
"""

from __future__ import annotations

import json
import string
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

MARKS = ",.?'"
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Tags that a refined text may contain. Their ids must be below that of [break_0] for refining.
SPOKEN_TAGS = (
    "[uv_break]",
    "[v_break]",
    "[lbreak]",
    "[llbreak]",
    "[undefine]",
    "[laugh]",
    "[music]",
    "[pure]",
)
_SETTINGS = (
    *(f"[break_{n}]" for n in range(8)),
    *(f"[oral_{n}]" for n in range(10)),
    *(f"[laugh_{n}]" for n in range(3)),
    *(f"[speed_{n}]" for n in range(10)),
)
_FRAME = ("[Stts]", "[Ptts]", "[spk_emb]", "[empty_spk]", "[Sbreak]", "[Pbreak]", "[Ebreak]")
CONTROLS = (*SPOKEN_TAGS, *_SETTINGS, *_FRAME)
_LETTERS = string.ascii_lowercase
_WITHIN = _LETTERS + "'"
TOKENS = (*_SPECIAL, *MARKS, *_LETTERS, *(f"##{letter}" for letter in _WITHIN), *CONTROLS)


def tokenizer() -> Tokenizer:
    """Return a WordPiece tokenizer over ``TOKENS``; the ids follow that order."""
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    # BERT's own pre-tokenizer cuts at apostrophes: "don't" would be refined to "don ' t".
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(f"[^{_LETTERS}']"), "isolated"),
        ]
    )
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in (*_SPECIAL, *CONTROLS)]
    )
    return made


def save_tokenizer(folder: Path) -> None:
    """Write the three files of ``asset/tokenizer``."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "clean_up_tokenization_spaces": True,
        **names,
    }
    _write(folder / "tokenizer_config.json", settings)
    _write(
        folder / "special_tokens_map.json", {"additional_special_tokens": list(CONTROLS), **names}
    )


def _write(path: Path, values: dict[str, object]) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
