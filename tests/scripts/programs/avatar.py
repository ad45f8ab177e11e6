"""Calls of programs that bring their own files: ``_load`` with paths, then sentence by sentence."""

import os
from dataclasses import asdict

import numpy as np
import torch

import ChatTTS
import ChatTTS.core
import ChatTTS.model.dvae
import ChatTTS.utils.io
from ChatTTS.config.config import Config

root = os.path.join(os.path.dirname(ChatTTS.__file__), "bundled")
chat = ChatTTS.Chat()
chat._load(
    vocos_ckpt_path=os.path.join(root, "asset", "Vocos.safetensors"),
    dvae_ckpt_path=os.path.join(root, "asset", "DVAE.safetensors"),
    gpt_ckpt_path=os.path.join(root, "asset", "gpt"),
    decoder_ckpt_path=os.path.join(root, "asset", "Decoder.safetensors"),
    tokenizer_path=os.path.join(root, "asset", "tokenizer"),
    embed_path=os.path.join(root, "asset", "Embed.safetensors"),
    compile=False,
)
assert chat.has_loaded(use_decoder=True)
torch.manual_seed(42)
speaker = chat.sample_random_speaker()
for sentence in ("Hello,", "how are you?"):
    params = ChatTTS.Chat.InferCodeParams(
        spk_emb=speaker, temperature=0.3, top_P=0.7, top_K=20, prompt="[speed_5]"
    )
    wavs = chat.infer([sentence], params_infer_code=params, use_decoder=True)
    if len(wavs[0].shape) == 1:
        audio = wavs[0][np.newaxis, ...]
    assert audio.shape[1] > 4_000
other = ChatTTS.Chat()
other._load(**{k: os.path.join(root, v) for k, v in asdict(Config().path).items()}, device="cpu")
assert other.infer("Good night.", skip_refine_text=True)[0].any()
other.normalizer.destroy()
