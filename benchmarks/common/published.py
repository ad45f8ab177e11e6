"""The published package ``ChatTTS==0.2.5``, as a child of a command that compares.

The child runs where that package is installed and uses its public interface. It imports nothing of
this project but :mod:`.child`; start it with ``isolated=True``.
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

from .child import Stopwatch, serve


def import_torchaudio() -> None:
    """Import torchaudio without its binary, which does not load beside a CPU build of torch.

    torchaudio's own function that loads binaries is replaced by one that says that there are none,
    before the package calls it. ChatTTS needs only the parts in pure Python.
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


class PublishedChat:
    """The published package's ``Chat``, imported and loaded on request."""

    def __init__(self) -> None:
        self.chat: Any = None

    def load(
        self,
        folder: str,
        threads: int,
        dtype: str = "float32",
        device: str = "cpu",
        codes_only: bool = False,
    ) -> dict[str, Any]:
        """Load ``folder``.

        Args:
            codes_only: load no audio decoders. They take no part in the codes, and the package
                has only those of the published sizes' proportions.

        Raises:
            ValueError: ``dtype`` is not float32, the only one that the package offers.
            RuntimeError: the package does not load the checkpoint.
        """
        if dtype != "float32":
            raise ValueError(f"the published package computes in float32, not in {dtype}")
        import torch
        import transformers

        torch.set_num_threads(threads)
        import_torchaudio()
        package: Any = importlib.import_module("ChatTTS")
        self.chat = package.Chat()
        asset = Path(folder) / "asset"
        if (asset / "config.json").exists():
            sizes = json.loads((asset / "config.json").read_text(encoding="utf-8"))
            override(self.chat.config, sizes)
        if codes_only:
            vars(importlib.import_module("ChatTTS.core"))["DVAE"] = NoDecoder
        start = time.perf_counter()
        # The package's own `load` does this after it has checked the files' hashes, and that check
        # refuses all files but the published ones.
        loaded = self.chat._load(
            vocos_ckpt_path=str(asset / "Vocos.safetensors"),
            dvae_ckpt_path=str(asset / "DVAE.safetensors"),
            gpt_ckpt_path=str(asset / "gpt"),
            embed_path=str(asset / "Embed.safetensors"),
            decoder_ckpt_path=str(asset / "Decoder.safetensors"),
            tokenizer_path=str(asset / "tokenizer"),
            device=torch.device(device),
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
        """Speak ``texts`` in one batch, each for exactly ``frames`` frames.

        Returns:
            Seconds of the whole call (``infer_s``) and of generation (``generate_s``); ``prompts``
            and ``frames``: positions and generated frames of each text.
        """
        with self._timed_generation() as timed:
            start = time.perf_counter()
            self._infer(texts, frames)
            seconds = time.perf_counter() - start
        return {"infer_s": seconds, "generate_s": timed.seconds, **timed.seen}

    def stream(self, texts: list[str], frames: int) -> dict[str, Any]:
        """Speak ``texts`` in one batch, as one stream that yields audio of all texts at a time.

        Returns:
            For each text its ``chunks``: seconds since the call, samples, and the frames that all
            texts had by then. ``stream_s`` is the time in seconds until the stream ended.
        """
        chunks: list[list[tuple[float, int, int]]] = [[] for _ in texts]
        with self._timed_generation() as timed:
            start = time.perf_counter()
            for chunk in self._infer(texts, frames, stream=True):
                now, generated = time.perf_counter() - start, sum(timed.seen["frames"])
                for own, samples in zip(chunks, chunk, strict=True):
                    own.append((now, len(samples), generated))
            seconds = time.perf_counter() - start
        return {"stream_s": seconds, "chunks": chunks, **timed.seen}

    def codes(
        self, texts: list[str], speakers: list[str], settings: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the ``codes`` of each speaker and text, [frames][codebooks], one text at a time.

        Args:
            settings: fields of ``InferCodeParams``.
        """
        chat = self.chat
        found: list[list[Any]] = []
        for speaker in speakers:
            params = chat.InferCodeParams(spk_emb=speaker, manual_seed=0, **settings)
            found.append([])
            for text in texts:
                *_, last = chat._infer_code([text], False, chat.device, True, params)
                found[-1].append(last.ids[0].tolist())
        return {"codes": found}

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
    def _timed_generation(self) -> Iterator[TimedGeneration]:
        """Replace the package's ``generate`` by one that is timed."""
        gpt = self.chat.gpt
        generate = gpt.generate
        timed = TimedGeneration(generate)
        gpt.generate = timed
        try:
            yield timed
        finally:
            gpt.generate = generate


class NoDecoder:
    """Stands for the package's audio decoders where only codes are wanted."""

    def __init__(self, **sizes: Any) -> None:
        self.coef = sizes["coef"]

    def load_pretrained(self, *_: Any) -> None:
        """Load nothing."""

    def eval(self) -> NoDecoder:
        """Return itself, as modules do."""
        return self

    def __str__(self) -> str:
        return str(self.coef)


class TimedGeneration(Stopwatch):
    """The published package's ``generate``, timed.

    Attributes:
        seen: for each text, positions of the prompt (``prompts``) and number of frames so far
            (``frames``).
    """

    def __init__(self, generate: Callable[..., Iterator[Any]]) -> None:
        super().__init__()
        self._generate = generate
        self.seen: dict[str, list[int]] = {"prompts": [], "frames": []}

    def __call__(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Call ``generate``, time its items and count their frames."""
        ids = inspect.signature(self._generate).bind(*args, **kwargs).arguments["inputs_ids"]
        self.seen["prompts"] = [ids.shape[1]] * ids.shape[0]
        for output in self.over(self._generate(*args, **kwargs)):
            self.seen["frames"] = [len(row) for row in output.ids]
            yield output


def override(config: Any, values: dict[str, Any]) -> None:
    """Put the values of an ``asset/config.json``, however nested, into the package's config.

    Settings that only this project knows are left out.
    """
    for name, value in values.items():
        if not hasattr(config, name):
            continue
        if isinstance(value, dict):
            override(getattr(config, name), value)
        else:
            setattr(config, name, value)


if __name__ == "__main__":
    published = PublishedChat()
    serve(
        {
            "load": published.load,
            "run": published.run,
            "stream": published.stream,
            "codes": published.codes,
        }
    )
