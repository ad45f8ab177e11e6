"""The published package on a GPU, as a child of ``gpu_peer.py``.

As ``peer.py`` it uses that package alone, and in float32: it knows no other dtype by itself.
"""

from __future__ import annotations

import json
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peer import Side, import_torchaudio, override
from worker import serve


class DeviceSide(Side):
    """The peer on any device."""

    def load(self, folder: str, threads: int, device: str) -> dict[str, Any]:
        """Load ``folder`` for ``device``, without the check of hashes."""
        import torch
        import transformers

        torch.set_num_threads(threads)
        import_torchaudio()
        import ChatTTS

        self.chat = ChatTTS.Chat()
        asset = Path(folder) / "asset"
        if (asset / "config.json").exists():
            override(self.chat.config, json.loads((asset / "config.json").read_text("utf-8")))
        files = {
            f"{key}_path": str(asset / file)
            for key, file in (
                ("vocos_ckpt", "Vocos.safetensors"),
                ("dvae_ckpt", "DVAE.safetensors"),
                ("gpt_ckpt", "gpt"),
                ("embed", "Embed.safetensors"),
                ("decoder_ckpt", "Decoder.safetensors"),
                ("tokenizer", "tokenizer"),
            )
        }
        began = time.perf_counter()
        if not self.chat._load(**files, device=torch.device(device), compile=False):
            raise RuntimeError(f"the published package does not load {folder}; see its log above")
        return {
            "load_s": time.perf_counter() - began,
            "versions": {
                "package": f"ChatTTS {version('ChatTTS')}",
                "python": platform.python_version(),
                "torch": torch.__version__,
                "transformers": transformers.__version__,
            },
        }


if __name__ == "__main__":
    side = DeviceSide()
    serve({"load": side.load, "run": side.run})
