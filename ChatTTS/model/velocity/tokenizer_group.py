"""Make prompts of texts in a group of threads, so that an asyncio loop is not held up."""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError, EngineDeadError
from ...utils.locks import new_lock
from ...utils.process_hooks import register_thread_owner
from ..draws import Pass
from ..tokenizer import Prompt, Tokenizer, code_prompt, refine_prompt


class TokenizerGroup:
    """A tokenizer with a few threads, which start with their first work.

    Args:
        threads: how many texts :meth:`prompt_async` encodes at once.

    Raises:
        ConfigError: ``threads`` is less than 1.
    """

    def __init__(self, tokenizer: Tokenizer, threads: int = 1) -> None:
        if threads < 1:
            raise ConfigError(f"threads must be at least 1, not {threads}")
        self.tokenizer = tokenizer
        self._threads = threads
        self._lock = new_lock()
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False
        register_thread_owner(self)

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
        """Return the prompt of one text, encoded in one of the group's threads.

        Args:
            parts: see :meth:`prompt`.

        Raises:
            TextError: the tokenizer cannot read the text.
            EngineDeadError: the group was closed.
        """
        work = functools.partial(self.prompt, text, kind, **parts)
        return await asyncio.get_running_loop().run_in_executor(self._workers(), work)

    def close(self) -> None:
        """Wait for the work that was given, and end the threads."""
        with self._lock:
            pool, self._pool = self._pool, None
            self._closed = True
        if pool is not None:
            pool.shutdown()

    def at_exit(self) -> None:
        """At the interpreter's end: end the threads."""
        self.close()

    def after_fork(self) -> None:
        """In a forked child: forget the threads, which exist only in the parent."""
        self._pool = None

    def _workers(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._closed:
                raise EngineDeadError("the tokenizers were closed with their engine; load it again")
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, "chattts-tokenizer")
            return self._pool
