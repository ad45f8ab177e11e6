"""Calls of servers with JSON bodies: models of pydantic, one chat, an archive of results."""

import io
import zipfile

import soundfile
import torch
from pydantic import BaseModel

import ChatTTS


class Body(BaseModel):
    text: list[str]
    stream: bool = False
    lang: str | None = None
    skip_refine_text: bool = False
    use_decoder: bool = True
    do_text_normalization: bool = True
    do_homophone_replacement: bool = False
    params_refine_text: ChatTTS.Chat.RefineTextParams = None
    params_infer_code: ChatTTS.Chat.InferCodeParams


chat = ChatTTS.Chat()
if not chat.load(source="huggingface"):
    raise SystemExit(1)
params = Body(
    text=["Good morning.", "It is nine o'clock."],
    params_infer_code={"manual_seed": 10, "temperature": 0.3, "spk_emb": None},
    params_refine_text={"prompt": "", "manual_seed": 11},
)
if params.params_infer_code.manual_seed is not None:
    torch.manual_seed(params.params_infer_code.manual_seed)
    params.params_infer_code.spk_emb = chat.sample_random_speaker()
text = params.text
if params.params_refine_text:
    text = chat.infer(text=params.text, skip_refine_text=False, refine_text_only=True)
wavs = chat.infer(
    text=text,
    stream=params.stream,
    lang=params.lang,
    skip_refine_text=params.skip_refine_text,
    use_decoder=params.use_decoder,
    do_text_normalization=params.do_text_normalization,
    do_homophone_replacement=params.do_homophone_replacement,
    params_infer_code=params.params_infer_code,
    params_refine_text=params.params_refine_text,
)
archive = io.BytesIO()
with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED, False) as file:
    for i, wav in enumerate(wavs):
        sound = io.BytesIO()
        soundfile.write(sound, wav, 24000, format="wav")
        file.writestr(f"{i}.wav", sound.getvalue())
assert len(archive.getvalue()) > 10_000
