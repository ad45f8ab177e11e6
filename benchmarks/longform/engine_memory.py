"""Print the memory of the engine: the bundled voice is loaded and has spoken a sentence."""

from __future__ import annotations

from ChatTTS.core import Chat

from ..common.memory import resident_bytes


def main() -> None:
    chat = Chat()
    chat.load_or_raise("bundled", use_vllm=True)
    chat.infer("This is the first sentence of a book.", params_infer_code={"manual_seed": 0})
    print(resident_bytes())


if __name__ == "__main__":
    main()
