"""Calls of wrappers with OpenAI's speech API: a lock, fixed seeds, a generator of bytes."""

import asyncio
import inspect

import numpy as np
import torch

import ChatTTS

chat = ChatTTS.Chat()
lock = asyncio.Lock()
assert chat.load(source="huggingface", compile=True)
torch.manual_seed(1234)
voices = {"default": chat.sample_random_speaker()}


async def create_speech(text, stream):
    params_infer_code = chat.InferCodeParams(
        prompt="[speed_5]",
        top_P=0.5,
        top_K=10,
        temperature=0.1,
        repetition_penalty=1.1,
        max_new_token=2048,
        min_new_token=0,
        show_tqdm=False,
        ensure_non_empty=True,
        manual_seed=42,
        spk_emb=voices["default"],
        spk_smp=None,
        txt_smp=None,
        stream_batch=24,
        stream_speed=12000,
        pass_first_n_batches=2,
    )
    async with lock:
        wavs = chat.infer(
            text=[text],
            stream=stream,
            lang=None,
            skip_refine_text=True,
            use_decoder=True,
            do_text_normalization=True,
            do_homophone_replacement=True,
            params_infer_code=params_infer_code,
        )

    async def chunks():
        for wav in wavs:
            yield (wav * 32767).astype(np.int16).tobytes()

    if inspect.isgenerator(wavs):
        return b"".join([chunk async for chunk in chunks()])
    return (wavs[0] * 32767).astype(np.int16).tobytes()


whole = asyncio.run(create_speech("The train leaves at nine.", False))
streamed = asyncio.run(create_speech("The train leaves at nine.", True))
assert len(whole) == len(streamed) > 24_000
