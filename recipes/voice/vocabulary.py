"""The tokenizer of a voice that reads phonemes.

Speech is made from phonemes, each symbol one token, ``<ə>``. Texts are refined as letters, since
both sides of that pass are text; upper case stays, for acronyms are pronounced by it. A letter at
the beginning of a word has another token than inside a word, so spaces need none. The phonemes come
last: an answer of the refine pass keeps only ids below that of ``[break_0]``, and so never has one.
"""

from __future__ import annotations

import json
import string
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from ChatTTS.text.pronunciation.alphabet import ALPHABET, as_tokens

MARKS = ",.?!'"
# Tags that a refined text may contain.
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
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_SETTINGS = (
    *(f"[break_{n}]" for n in range(8)),
    *(f"[oral_{n}]" for n in range(10)),
    *(f"[laugh_{n}]" for n in range(3)),
    *(f"[speed_{n}]" for n in range(10)),
)
_FRAME = ("[Stts]", "[Ptts]", "[spk_emb]", "[empty_spk]", "[Sbreak]", "[Pbreak]", "[Ebreak]")
_LETTERS = string.ascii_letters
CONTROLS = (*SPOKEN_TAGS, *_SETTINGS, *_FRAME)
PHONEMES = tuple(map(as_tokens, ALPHABET))
TOKENS = (
    *_SPECIAL,
    *MARKS,
    *_LETTERS,
    *(f"##{letter}" for letter in _LETTERS + "'"),
    *CONTROLS,
    *PHONEMES,
)


def phoneme_tokenizer() -> Tokenizer:
    """Return a WordPiece tokenizer over ``TOKENS``; the ids follow that order."""
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    # BERT's own pre-tokenizer cuts at apostrophes: "don't" would be refined to "don ' t".
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(f"[^{_LETTERS}']"), "isolated"),
        ]
    )
    made.decoder = decoders.WordPiece()
    # The normaliser would change phonemes; added tokens are found before it.
    made.add_special_tokens(
        [
            AddedToken(token, normalized=False, special=True)
            for token in (*_SPECIAL, *CONTROLS, *PHONEMES)
        ]
    )
    return made


def save_tokenizer(folder: Path) -> None:
    """Write the three files of ``asset/tokenizer``."""
    folder.mkdir(parents=True, exist_ok=True)
    phoneme_tokenizer().save(str(folder / "tokenizer.json"))
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": False,
        "clean_up_tokenization_spaces": True,
        **names,
    }
    _write(folder / "tokenizer_config.json", settings)
    _write(
        folder / "special_tokens_map.json",
        {"additional_special_tokens": [*CONTROLS, *PHONEMES], **names},
    )


def _write(path: Path, values: dict[str, object]) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
