"""Serve the published package by its own REST example, on random weights.

    peer/bin/python benchmarks/serving/published_rest.py REPOSITORY FOLDER --port 8881

REPOSITORY is a clone of the published package with its ``examples/api/openai_api.py``, which runs
as it is. The interpreter has what that example needs. FOLDER holds a checkpoint of the published
sizes (``python -m benchmarks.common.random_checkpoint FOLDER``). Random weights find no end, so
each utterance gets ``--frames`` frames. This program imports nothing of this project's package.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path
from typing import Any

_PROJECT = Path(__file__).resolve().parents[2]


def speak_random_weights(folder: Path, frames: int, threads: int) -> None:
    """Change the package's ``Chat`` so that it loads ``folder`` and speaks so many frames."""
    from benchmarks.common.published import PublishedChat, import_torchaudio

    import_torchaudio()
    package: Any = importlib.import_module("ChatTTS")
    chat_class = package.Chat
    infer = chat_class.infer

    class Loaded(PublishedChat):
        def __init__(self, chat: Any) -> None:
            self.chat = chat

    def load(self: Any, *args: Any, **kwargs: Any) -> bool:
        vars(package)["Chat"] = lambda: self
        Loaded(self).load(str(folder), threads)
        return True

    def infer_frames(self: Any, *args: Any, params_infer_code: Any, **kwargs: Any) -> Any:
        params_infer_code.min_new_token = params_infer_code.max_new_token = frames
        params_infer_code.show_tqdm = False
        return infer(self, *args, params_infer_code=params_infer_code, **kwargs)

    chat_class.load, chat_class.infer = load, infer_frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("repository", type=Path)
    parser.add_argument("folder", type=Path, help="of the checkpoint")
    parser.add_argument("--frames", type=int, default=350, help="of each utterance")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--port", type=int, default=8881)
    args = parser.parse_args()
    folder, repository = args.folder.resolve(), args.repository.resolve()
    os.chdir(repository)
    # The package of the repository goes before this project's.
    sys.path[:0] = [str(repository), str(repository / "examples" / "api")]
    sys.path.append(str(_PROJECT))
    speak_random_weights(folder, args.frames, args.threads)
    uvicorn = importlib.import_module("uvicorn")
    uvicorn.run(importlib.import_module("openai_api").app, port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
