"""Calls of web pages: seeds, refined text that a person edits, interrupts, a reload."""

import numpy as np
import torch

import ChatTTS

chat = ChatTTS.Chat()


def load_chat(cust_path, coef):
    if cust_path is None:
        return chat.load(coef=coef)
    return chat.load("custom", custom_path=cust_path, coef=coef)


def reload_chat(coef):
    if chat.has_loaded():
        chat.unload()
    if len(coef) != 230:
        coef = None
    assert load_chat(None, coef)
    return chat.coef


def refine(text, text_seed, flag):
    if not flag:
        return text
    return chat.infer(
        text,
        skip_refine_text=False,
        refine_text_only=True,
        params_refine_text=chat.RefineTextParams(
            temperature=0.3, top_P=0.7, top_K=20, manual_seed=text_seed
        ),
        split_text=True,
    )


def speak(text, stream, audio_seed, spk_emb):
    params = chat.InferCodeParams(
        spk_emb=spk_emb,
        temperature=0.3,
        top_P=0.7,
        top_K=20,
        manual_seed=audio_seed,
    )
    wav = chat.infer(
        text,
        skip_refine_text=True,
        params_infer_code=params,
        stream=stream,
        split_text=True,
        max_split_batch=2,
    )
    if stream:
        for gen in wav:
            audio = gen[0]
            if audio is not None and len(audio) > 0:
                yield 24000, (audio * 32767).astype(np.int16)
        return
    yield 24000, (np.array(wav[0]) * 32767).astype(np.int16)


reload_chat(reload_chat(""))
chat.normalizer.register("en", lambda text: text.replace("&", "and"))
torch.manual_seed(2)
speaker = chat.sample_random_speaker()
refined = refine("Salt & pepper. Good night.", 42, True)
assert isinstance(refined, str)
rate, whole = next(speak(refined, False, 7, speaker))
chunks = [chunk for _, chunk in speak(refined, True, 7, speaker)]
assert np.abs(np.concatenate(chunks).astype(int) - whole.astype(int)).max() <= 4
chat.interrupt()
