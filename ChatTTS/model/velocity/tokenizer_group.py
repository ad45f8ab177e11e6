"""Prompts of texts, also in another thread, so that an asyncio loop is not held up."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..random_numbers import Pass
from ..tokenizer import Prompt, Tokenizer, code_prompt, refine_prompt


class TokenizerGroup:
    """A tokenizer, and the threads of the asyncio loop that asks it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def prompt(
        self,
        text: str,
        kind: Pass = Pass.CODE,
        *,
        tags: str = "",
        speaker: NDArray[np.float32] | None = None,
        codes: NDArray[np.int64] | None = None,
        transcript: str | None = None,
    ) -> Prompt:
        """Return the prompt of one text, encoded in the calling thread.

        Args:
            kind: the pass that the prompt is for: speech or refining.
            tags: control tags such as ``[speed_5]`` or ``[oral_2][laugh_0]``.
            speaker: float32 [hidden], for speech.
            codes, transcript: a sample prompt, int64 [frames, num_codebooks], and what it says.

        Raises:
            TextError: the tokenizer cannot read the text.
        """
        if kind is Pass.REFINE:
            return self.tokenizer.prompt(refine_prompt(text, tags))
        decorated = code_prompt(text, tags, speaker=speaker is not None, transcript=transcript)
        return self.tokenizer.prompt(decorated, speaker=speaker, codes=codes)

    async def prompt_async(self, text: str, kind: Pass = Pass.CODE, **parts: Any) -> Prompt:
        """Return the prompt of one text, encoded in one of the threads of the loop.

        Args:
            parts: see :meth:`prompt`.

        Raises:
            TextError: the tokenizer cannot read the text.
        """
        return await asyncio.to_thread(self.prompt, text, kind, **parts)
