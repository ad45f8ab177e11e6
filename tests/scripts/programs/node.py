"""Calls of nodes for graphs of pictures and sound: old names, dicts, batches, a tensor out."""

import numpy as np
import torch

import ChatTTS
from ChatTTS.core import Chat
from ChatTTS.utils.gpu_utils import select_device

assert Chat is ChatTTS.Chat
device = select_device(4096)
chat = ChatTTS.Chat()
chat.load_models(source="custom", custom_path="models", compile=False)
if not hasattr(chat, "speaker"):
    raise SystemExit("not loaded")
texts = ["One day a fox met a crow.", "The crow had cheese."]
params_infer_code = {
    "spk_emb": chat.sample_random_speaker(),
    "prompt": "[speed_4]",
    "temperature": 0.0001,
    "top_P": 0.7,
    "top_K": 20,
}
params_refine_text = {"prompt": "[oral_1][laugh_1][break_3]", "top_K": 20}
all_wavs = []
for batch in (texts[:1], texts[1:]):
    all_wavs.extend(
        chat.infer(
            batch,
            use_decoder=True,
            do_text_normalization=False,
            skip_refine_text=False,
            params_infer_code={**params_infer_code},
            params_refine_text=params_refine_text,
        )
    )
waveform = torch.from_numpy(np.concatenate([np.squeeze(wav) for wav in all_wavs]))
audio = {"waveform": waveform[None, None], "sample_rate": 24000}
assert audio["waveform"].shape[-1] > 24_000
torch.cuda.empty_cache()
chat.unload()
assert not chat.has_loaded()
