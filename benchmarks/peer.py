"""The published package ``ChatTTS==0.2.5``, as a child of a command that compares.

Runs in that package's own virtual environment and uses its public interface; nothing of this
project is imported but ``worker``, which lies beside this file.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from worker import Stopwatch, serve


def import_torchaudio() -> None:
    """Import torchaudio without its binary, which does not load beside a CPU build of torch.

    Its own function that loads binaries is made to answer that there are none, before the package
    asks it. ChatTTS needs the pure Python parts only.
    """
    spec = importlib.util.find_spec("torchaudio")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("torchaudio is not installed in the peer's environment")
    name = "torchaudio._extension.utils"
    file = Path(spec.origin).parent / "_extension" / "utils.py"
    own = importlib.util.spec_from_file_location(name, file)
    assert own is not None
    assert own.loader is not None
    utils = importlib.util.module_from_spec(own)
    own.loader.exec_module(utils)
    vars(utils)["_load_lib"] = lambda lib: False
    sys.modules[name] = utils
    importlib.import_module("torchaudio")


class Side:
    """The peer's ``Chat``, imported and loaded on request."""

    def __init__(self) -> None:
        self.chat: Any = None

    def load(self, folder: str, threads: int, dtype: str) -> dict[str, Any]:
        """Load ``folder``; the peer takes no dtype and computes in float32 on a CPU."""
        import torch
        import transformers

        torch.set_num_threads(threads)
        import_torchaudio()
        import ChatTTS

        self.chat = ChatTTS.Chat()
        asset = Path(folder) / "asset"
        if (asset / "config.json").exists():
            sizes = json.loads((asset / "config.json").read_text(encoding="utf-8"))
            override(self.chat.config, sizes)
        start = time.perf_counter()
        # What its `load` comes to after it has checked the files' hashes, which refuses all but
        # the published ones.
        loaded = self.chat._load(
            vocos_ckpt_path=str(asset / "Vocos.safetensors"),
            dvae_ckpt_path=str(asset / "DVAE.safetensors"),
            gpt_ckpt_path=str(asset / "gpt"),
            embed_path=str(asset / "Embed.safetensors"),
            decoder_ckpt_path=str(asset / "Decoder.safetensors"),
            tokenizer_path=str(asset / "tokenizer"),
            device=torch.device("cpu"),
            compile=False,
        )
        seconds = time.perf_counter() - start
        if not loaded:
            raise RuntimeError(f"the published package does not load {folder}; see its log above")
        return {
            "load_s": seconds,
            "versions": {
                "package": f"ChatTTS {version('ChatTTS')}",
                "python": platform.python_version(),
                "torch": torch.__version__,
                "transformers": transformers.__version__,
            },
            "threads": torch.get_num_threads(),
        }

    def run(self, texts: list[str], frames: int) -> dict[str, Any]:
        """Speak ``texts`` side by side, each for exactly ``frames`` frames."""
        with self._watched() as watched:
            start = time.perf_counter()
            self._infer(texts, frames)
            seconds = time.perf_counter() - start
        return {"infer_s": seconds, "generate_s": watched.seconds, **watched.seen}

    def stream(self, texts: list[str], frames: int) -> dict[str, Any]:
        """The same as one stream, of which each text is a row.

        Returns:
            For each row its ``chunks``: seconds since the call, samples, and the frames that all
            rows had by then. ``stream_s`` are seconds until the stream ended.
        """
        rows: list[list[tuple[float, int, int]]] = [[] for _ in texts]
        with self._watched() as watched:
            start = time.perf_counter()
            for chunk in self._infer(texts, frames, stream=True):
                now, generated = time.perf_counter() - start, sum(watched.seen["frames"])
                for row, samples in zip(rows, chunk, strict=True):
                    row.append((now, len(samples), generated))
            seconds = time.perf_counter() - start
        return {"stream_s": seconds, "chunks": rows, **watched.seen}

    def _infer(self, texts: list[str], frames: int, **options: Any) -> Any:
        chat = self.chat
        return chat.infer(
            texts,
            skip_refine_text=True,
            do_text_normalization=False,
            do_homophone_replacement=False,
            split_text=False,
            params_infer_code=chat.InferCodeParams(
                max_new_token=frames, min_new_token=frames, manual_seed=0, show_tqdm=False
            ),
            **options,
        )

    @contextmanager
    def _watched(self) -> Iterator[Watched]:
        """Have generation watched."""
        gpt = self.chat.gpt
        generate = gpt.generate
        watched = Watched(generate)
        gpt.generate = watched
        try:
            yield watched
        finally:
            gpt.generate = generate


class Watched(Stopwatch):
    """The peer's generation, timed.

    Attributes:
        seen: positions of the prompts and numbers of frames so far.
    """

    def __init__(self, generate: Callable[..., Iterator[Any]]) -> None:
        super().__init__()
        self._generate = generate
        self.seen: dict[str, list[int]] = {"prompts": [], "frames": []}

    def __call__(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """As the peer's own."""
        ids = inspect.signature(self._generate).bind(*args, **kwargs).arguments["inputs_ids"]
        self.seen["prompts"] = [ids.shape[1]] * ids.shape[0]
        for output in self.over(self._generate(*args, **kwargs)):
            self.seen["frames"] = [len(row) for row in output.ids]
            yield output


def override(config: Any, values: dict[str, Any]) -> None:
    """Put the values of an ``asset/config.json``, of any depth, into the peer's configuration."""
    for name, value in values.items():
        if isinstance(value, dict):
            override(getattr(config, name), value)
        elif hasattr(config, name):
            setattr(config, name, value)


if __name__ == "__main__":
    side = Side()
    serve({"load": side.load, "run": side.run, "stream": side.stream})
