"""Calls of programs that join the passes themselves: refine, codes in a stream, decoding."""

import numpy as np
import torch

import ChatTTS

torch.manual_seed(6666)


class RefineTextParams:
    prompt = ""
    top_P = 0.7
    top_K = 20
    temperature = 0.7
    repetition_penalty = 1.0
    max_new_token = 384
    min_new_token = 0
    show_tqdm = True
    ensure_non_empty = True
    manual_seed = None


chat = ChatTTS.Chat()
chat.load(compile=True)


class InferCodeParams(RefineTextParams):
    prompt: str = "[speed_5]"
    spk_emb = chat.sample_random_speaker()
    spk_smp = None
    txt_smp = None
    temperature = 0.1
    repetition_penalty = 1.05
    max_new_token = 2048
    stream_batch = 4
    stream_speed = 12000
    pass_first_n_batches = 2


chat.context.set(False)
text = chat.normalizer("This text has some words.", True, True, None)
refined = chat._refine_text([text], chat.device, RefineTextParams())
tokens = [ids[ids.less(chat.tokenizer.break_0_ids)] for ids in refined.ids]
text = chat.tokenizer.decode(tokens)
refined.destroy()

frames = 0
for result in chat._infer_code(text, True, "cpu", True, InferCodeParams()):
    ids = result.ids[0].T[None, :, frames:]
    frames += ids.shape[2]
    hidden = result.hiddens[0]
    with torch.inference_mode():
        mel = chat.decoder(hidden[None].permute(0, 2, 1))
        tail = chat._vocos_decode(mel)
assert frames > 40

result = next(chat._infer_code(text, False, chat.device, True, InferCodeParams()))
wavs = chat._decode_to_wavs(result.hiddens, True)
assert wavs.shape == (1, (2 * len(result.ids[0]) - 1) * 256)
assert chat._decode_to_wavs(result.ids, False).shape == wavs.shape
assert np.abs(wavs).max() > 0.01
