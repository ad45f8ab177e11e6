"""Places that a form may stand in: where in a sentence, beside which marks, in which characters."""

from __future__ import annotations

from .form import Place

_WIDE = str.maketrans({chr(48 + digit): chr(0xFF10 + digit) for digit in range(10)})


def _wide(text: str) -> str:
    return text.translate(_WIDE)


ENGLISH = (
    Place("alone in a sentence", "They wrote ", ".", "they wrote", r"\."),
    Place("last without a stop", "We saw ", "", "we saw", ""),
    Place("in the middle", "I think ", " is what we want.", "i think", r"is what we want\."),
    Place("before a comma", "After ", ", we left.", "after", r"we left\."),
    Place("behind a comma", "In the end, ", " it was.", "in the end", r"it was\."),
    Place("in brackets", "The note (", ") is old.", "the note", r"is old\."),
    Place("in quotes", 'It says "', '" there.', "it says", r"there\."),
    Place("in curly quotes", "It says “", "” there.", "it says", r"there\."),
    Place("in a list", "We have tea, ", ", and milk.", "we have tea", r"and milk\."),
    Place("before a question mark", "Did you see ", "?", "did you see", r"\?"),
    Place(
        "before a new sentence", "They wrote ", ". Then we left.", "they wrote", r"\.then we left\."
    ),
    Place("bold", "They wrote **", "** there.", "they wrote", r"there\."),
    Place("a list item", "- We need ", " here", "we need", "here"),
    Place("in two lines", "We saw it:\n", " is here.", "we saw it", r"is here\."),
    Place("full width digits", "They wrote ", " there.", "they wrote", r"there\.", _wide),
    Place("behind a dash", "It was this — ", " — at last.", "it was this", r"at last\."),
)

MANDARIN = (
    Place("最后", "他写的是", "。", "他写的是", r"\."),
    Place("没有句号", "请看", "", "请看", ""),
    Place("中间", "我们说", "就是这样。", "我们说", r"就是这样\."),
    Place("逗号前", "看到", "，我们就走了。", "看到", r"我们就走了\."),
    Place("逗号后", "最后，", "还在这里。", "最后", r"还在这里\."),
    Place("括号", "这里（", "）写着。", "这里", r"写着\."),
    Place("半角括号", "这里(", ")写着。", "这里", r"写着\."),
    Place("引号", "上面写着“", "”字样。", "上面写着", r"字样\."),
    Place("顿号", "我要茶、", "、还有牛奶。", "我要茶", r"还有牛奶\."),
    Place("问号", "你看到", "了吗？", "你看到", r"了吗\?"),
    Place("空格", "他写的是 ", " 对吧。", "他写的是", r"对吧\."),
    Place("粗体", "他写的是**", "**对吧。", "他写的是", r"对吧\."),
    Place("全角数字", "他写的是", "对吧。", "他写的是", r"对吧\.", _wide),
    Place("新的一句", "他写的是", "。后来我们走了。", "他写的是", r"\.后来我们走了\."),
)
