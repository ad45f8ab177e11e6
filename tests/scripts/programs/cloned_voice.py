"""Calls of programs that take a voice from a recording, and keep voices as tensors and strings."""

import numpy as np
import torch

import ChatTTS
from ChatTTS.utils import load_safetensors, select_device  # noqa: F401  as such programs do

chat = ChatTTS.Chat()
chat.load(source="local", use_vllm=False, device=torch.device("cpu"))
torch.manual_seed(5)
speaker = chat.sample_random_speaker()
recording = chat.infer("The sun is out.", params_infer_code={"spk_emb": speaker})[0]
sample = chat.sample_audio_speaker(recording)
codes = chat.speaker.decode_prompt(sample)
assert codes.shape[0] == chat.config.gpt.num_vq
assert chat.speaker.encode_prompt(codes) == sample
params = ChatTTS.Chat.InferCodeParams(
    spk_smp=sample, txt_smp="The sun is out.", max_new_token=64, ensure_non_empty=False
)
chat.infer("We go out.", skip_refine_text=True, params_infer_code=params)

vector = chat.speaker._decode(speaker)
mixed = torch.from_numpy(np.asarray(vector)).float() * 0.5
wavs = chat.infer(
    ["Good day."],
    skip_refine_text=True,
    params_infer_code=ChatTTS.Chat.InferCodeParams(spk_emb=mixed, prompt="[speed_3]"),
)
assert len(wavs) == 1
chat.dvae.to(chat.device)
with torch.inference_mode():
    codes = chat.dvae.sample_audio(recording)
    sound = chat.vocos.decode(chat.dvae(codes[None]))
assert sound.shape[-1] > 10_000
