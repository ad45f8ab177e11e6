"""Calls of notebooks: load, a random voice, tags in the text, a list, a file of each."""

import soundfile
import torch

import ChatTTS

torch.set_float32_matmul_precision("high")
chat = ChatTTS.Chat()
chat.load(compile=False)

texts = ["So we found being competitive and collaborative.", "Good morning."]
wavs = chat.infer(texts)
for i, wav in enumerate(wavs):
    soundfile.write(f"basic{i}.wav", torch.from_numpy(wav).unsqueeze(0)[0].numpy(), 24000)

rand_spk = chat.sample_random_speaker()
print(rand_spk)
params_infer_code = ChatTTS.Chat.InferCodeParams(
    spk_emb=rand_spk, temperature=0.3, top_P=0.7, top_K=20
)
params_refine_text = ChatTTS.Chat.RefineTextParams(prompt="[oral_2][laugh_0][break_6]")
wavs = chat.infer(
    texts,
    params_refine_text=params_refine_text,
    params_infer_code=params_infer_code,
)
text = "What is [uv_break]your favorite food?[laugh][lbreak]"
wavs = chat.infer(
    text,
    skip_refine_text=True,
    params_refine_text=params_refine_text,
    params_infer_code=params_infer_code,
)
soundfile.write("words.wav", wavs[0], 24000)
