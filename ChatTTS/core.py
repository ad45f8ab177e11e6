"""``Chat``: load a checkpoint, speak, stream, stop. It reads like the pipeline that it is:

texts -> utterances -> (refined) -> frames -> samples.
"""

from __future__ import annotations

import functools
import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import torch

from . import assets
from . import params as parameters
from .audio import reference_audio
from .call import Call
from .config import Config
from .errors import ChatTTSError, ConfigError, NotLoadedError, TextError
from .hashes import check_hashes
from .loading import Model, load_model
from .lru import CacheCounts
from .model.dvae import DVAE, MelDecoder
from .model.embed import Embed
from .model.generation import Cancellation
from .model.gpt import GPT, EngineOptions
from .model.placement import choose_placement
from .model.speaker import Speaker, encode_sample
from .model.tokenizer import Tokenizer
from .model.vocoder import Vocoder
from .params import as_params
from .speech import Utterance, choose_seed
from .streams import SpeechStream, WaveformStream
from .text import Normalizer, load_homophones, prepare

P = ParamSpec("P")


def _succeeds(load: Callable[Concatenate[Chat, P], None]) -> Callable[Concatenate[Chat, P], bool]:
    """``load`` as scripts know it: ``False`` after logging what is wrong."""

    @functools.wraps(load)
    def logged(self: Chat, *args: P.args, **kwargs: P.kwargs) -> bool:
        try:
            load(self, *args, **kwargs)
        except ChatTTSError as error:
            self.logger.error("%s", error)
            return False
        return True

    return logged


class Chat:
    """Text to speech with one checkpoint.

    May be shared by threads: calls do not touch one another.

    Args:
        logger: takes the errors of loading and downloading; ``ChatTTS`` by default. Everything
            else is said under ``ChatTTS`` always.
    """

    RefineTextParams = parameters.RefineTextParams
    InferCodeParams = parameters.InferCodeParams

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self.logger = logger or logging.getLogger("ChatTTS")
        self.normalizer = Normalizer()
        self._model: Model | None = None
        # Weak: a call ends with the last reference to it, also a stream that nobody finished.
        self._running: weakref.WeakSet[Cancellation] = weakref.WeakSet()
        self._lock = threading.Lock()

    # -- loading ---------------------------------------------------------------------------

    def load_or_raise(
        self,
        source: str = "local",
        force_redownload: bool = False,
        compile: bool = False,
        custom_path: str | Path | None = None,
        device: str | torch.device | None = None,
        coef: str | None = None,
        use_flash_attn: bool = False,
        use_vllm: bool = False,
        experimental: bool = False,
        enable_cache: bool = True,
        *,
        dtype: str | torch.dtype = "float32",
        num_threads: int | None = None,
        kv_memory: int | str | None = None,
        batch_invariant: bool | None = None,
        homophones: str | Path | None = None,
    ) -> None:
        """Load a checkpoint. If that fails, what was loaded before stays.

        Args:
            source: ``local`` (./asset, else the hub's cache, else a download), ``huggingface``,
                ``custom`` (needs ``custom_path``) or ``bundled`` (the voice in the package).
            force_redownload: fetch files from the hub again.
            compile: run the Llama through ``torch.compile``; the first calls then compile for
                minutes, at each new kind of shape.
            custom_path: the folder that holds ``asset/``, or that folder itself.
            device: such as ``cpu`` or ``cuda:0``; the best one there is by default.
            coef: the mel scale; the checkpoint's own wins, and a difference is logged.
            use_flash_attn: flash-attn, where it is installed, on CUDA in half precision.
            use_vllm: the velocity engine: many requests side by side, from many threads.
            experimental: the accelerated Llama.
            enable_cache: ``False`` computes without a key-value cache, slowly, for reference.
            dtype: ``float32``, ``bfloat16``, ``float16``, ``auto`` (what the device is fast in), or
                ``int8`` (velocity only: weights in eight bits, the rest as with ``auto``).
            num_threads: threads of torch's CPU operators, for the whole process, and of the
                velocity engine; the cores that the process may use by default.
            kv_memory: of velocity's key-value cache, in bytes or as text such as ``2GB``.
            batch_invariant: ``False`` lets the last bits of velocity's results depend on what runs
                beside a request, where that is faster.
            homophones: a JSON table of characters to replace by others that sound alike; the
                checkpoint's ``asset/homophones_map.json``, if any, by default.

        Raises:
            ChatTTSError: what is wrong, with the file or argument and the remedy.
        """
        placement = choose_placement(device, dtype)
        if num_threads is not None:
            if num_threads < 1:
                raise ConfigError(f"num_threads must be at least 1, not {num_threads}")
            torch.set_num_threads(num_threads)
        options = EngineOptions(
            use_vllm=use_vllm,
            use_flash_attn=use_flash_attn,
            compile=compile,
            experimental=experimental,
            enable_cache=enable_cache,
            kv_memory=kv_memory,
            batch_invariant=batch_invariant,
            num_threads=num_threads,
        )
        folder = assets.locate(source, custom_path, force_redownload)
        check_hashes(folder)
        model = load_model(folder, placement, options, coef)
        if homophones is None and folder.homophones.exists():
            homophones = folder.homophones
        defaults = model.config.defaults
        self.normalizer = self.normalizer.adapted(
            homophones=load_homophones(homophones) if homophones is not None else None,
            characters=defaults.characters,
            known_tags=model.tokenizer.control_tokens,
            language=defaults.language,
        )
        self._model = model

    load = _succeeds(load_or_raise)
    load.__doc__ = "As :meth:`load_or_raise`, but ``False`` after logging the error."

    def load_models(
        self,
        source: str = "huggingface",
        force_redownload: bool = False,
        local_path: str | Path | None = None,
        compile: bool = False,
        **options: Any,
    ) -> bool:
        """``load`` under the name and arguments of old versions."""
        if local_path is not None:
            source = "custom"
        return self.load(source, force_redownload, compile, local_path, **options)

    def download_models(
        self,
        source: str = "local",
        force_redownload: bool = False,
        custom_path: str | Path | None = None,
    ) -> str | None:
        """Find or fetch a checkpoint; its folder, or ``None`` after logging what is wrong."""
        try:
            return str(assets.locate(source, custom_path, force_redownload).path)
        except ChatTTSError as error:
            self.logger.error("%s", error)
            return None

    def has_loaded(self, use_decoder: bool = False) -> bool:
        """Whether a checkpoint is there; it always comes with both decoders."""
        return self._model is not None

    def unload(self) -> None:
        """Interrupt what runs and let go of the model."""
        self.interrupt()
        model, self._model = self._model, None
        if model is not None:
            model.gpt.close()

    @property
    def _loaded(self) -> Model:
        model = self._model
        if model is None:
            raise NotLoadedError(
                "no checkpoint is loaded: call chat.load(), and look at what it returned; "
                'chat.load("bundled") always works'
            )
        return model

    @property
    def config(self) -> Config:
        """Sizes and voice defaults of the checkpoint."""
        return self._loaded.config

    @property
    def device(self) -> torch.device:
        """Where the language model runs."""
        return self._loaded.placement.device

    @property
    def coef(self) -> str:
        """The checkpoint's mel scale as base16384 text."""
        return self._loaded.coef

    @property
    def tokenizer(self) -> Tokenizer:
        return self._loaded.tokenizer

    @property
    def speaker(self) -> Speaker:
        return self._loaded.speaker

    @property
    def gpt(self) -> GPT:
        return self._loaded.gpt

    @property
    def embed(self) -> Embed:
        return self._loaded.gpt.embed

    @property
    def decoder(self) -> MelDecoder:
        return self._loaded.decoder

    @property
    def dvae(self) -> DVAE:
        return self._loaded.dvae

    @property
    def vocos(self) -> Vocoder:
        return self._loaded.vocos

    # -- voices ----------------------------------------------------------------------------

    def sample_random_speaker(self) -> str:
        """A random voice as a speaker string; ``torch.manual_seed(n)`` before it repeats it."""
        return self._loaded.speaker.sample_random()

    @property
    def voice_caches(self) -> dict[str, CacheCounts]:
        """How often speaker strings and sample prompts had been read before."""
        model = self._loaded
        return {"speaker": model.vectors.counts, "sample": model.samples.counts}

    def sample_audio_speaker(self, wav: Any, sample_rate: int | None = None) -> str:
        """Audio to a sample prompt string, for ``InferCodeParams(spk_smp=..., txt_smp=...)``.

        Args:
            wav: a path, or samples as an array or tensor, mono or stereo, float or int16.
            sample_rate: of an array; 24 000 by default.

        Raises:
            AudioError: unreadable, silent, too short or too long.
        """
        model = self._loaded
        samples = torch.from_numpy(reference_audio(wav, sample_rate)).to(model.dvae.coef.device)
        with torch.inference_mode():
            return encode_sample(model.dvae.encode(samples.unsqueeze(0))[0].cpu().numpy())

    # -- speaking --------------------------------------------------------------------------

    def infer(
        self,
        text: str | Sequence[str],
        stream: bool = False,
        lang: str | None = None,
        skip_refine_text: bool = False,
        refine_text_only: bool = False,
        use_decoder: bool = True,
        do_text_normalization: bool = True,
        do_homophone_replacement: bool = True,
        split_text: bool = True,
        max_split_batch: int = 4,
        params_refine_text: parameters.RefineTextParams | Mapping[str, Any] | None = None,
        params_infer_code: parameters.InferCodeParams | Mapping[str, Any] | None = None,
        *,
        low_latency: bool | parameters.LowLatency | Mapping[str, Any] = False,
        interrupt: threading.Event | None = None,
    ) -> Any:
        """Speak one text or several.

        Args:
            text: a string is one row; a list gives one row for each text.
            stream: give chunks while they are generated.
            lang: ``en`` or ``zh``; found out from the text by default.
            skip_refine_text: speak the text as it is, without breaks and laughs put in.
            refine_text_only: give the refined text and no sound.
            use_decoder: sound from hidden states (better); ``False`` takes the codes.
            do_text_normalization: read out numbers and symbols, drop what cannot be spoken.
            do_homophone_replacement: apply the checkpoint's table, if it has one.
            split_text: cut long texts into utterances, which follow one another in the row.
            max_split_batch: utterances generated side by side; the velocity engine decides that
                by itself, but for streams.
            params_refine_text, params_infer_code: objects, or dicts with their fields.
            low_latency: let a stream begin before its samples are final: ``True``, or a
                ``LowLatency`` or dict with its numbers.
            interrupt: set this event from anywhere to end this call alone.

        Returns:
            ``Waveforms``, a list with a 1-D float32 array at 24 kHz for each row; with ``stream``
            a ``WaveformStream`` of chunks (rows, n); with ``refine_text_only`` a string (the
            utterances, one a line) or, without ``split_text``, a list of strings.

        Raises:
            TextError: a text has nothing to speak, or too much for the model.
            VoiceError, ConfigError: a parameter that cannot be used.
            EmptySpeechError: utterances stayed empty; it carries the other rows.
        """
        early = parameters.as_low_latency(low_latency)
        if early is not None and not stream:
            raise ConfigError("low_latency is about streams: give stream=True as well")
        model = self._loaded
        refining, coding = self._params(model, params_refine_text, params_infer_code)
        texts = [text] if isinstance(text, str) else list(text)
        utterances = self._utterances(
            model,
            texts,
            lang=lang,
            do_text_normalization=do_text_normalization,
            do_homophone_replacement=do_homophone_replacement,
            split_text=split_text,
        )
        # A stream gives all rows at once, so all of them are generated at once.
        together = len(texts) if stream or not split_text else 1
        if model.gpt.batches_itself and not stream:
            together = len(utterances)
        call = self._call(model, max_split_batch, together, interrupt)
        if stream and not refine_text_only:
            production = call.produce(
                utterances, coding, use_decoder, early, None if skip_refine_text else refining
            )
            samples = model.synthesizer(use_decoder).samples_per_frame
            return WaveformStream(production, coding, samples)
        if refine_text_only or not skip_refine_text:
            utterances = call.refined(utterances, refining, choose_seed(refining))
        if refine_text_only:
            lines = [u.text for u in utterances]
            return "\n".join(lines) if split_text else lines
        return call.waveforms(utterances, coding, use_decoder)

    def stream(
        self,
        text: str,
        *,
        low_latency: bool | parameters.LowLatency | Mapping[str, Any] = False,
        lang: str | None = None,
        skip_refine_text: bool = False,
        use_decoder: bool = True,
        do_text_normalization: bool = True,
        do_homophone_replacement: bool = True,
        split_text: bool = True,
        max_split_batch: int = 4,
        params_refine_text: parameters.RefineTextParams | Mapping[str, Any] | None = None,
        params_infer_code: parameters.InferCodeParams | Mapping[str, Any] | None = None,
        first_utterance: int = 0,
        interrupt: threading.Event | None = None,
    ) -> SpeechStream:
        """Speak one text piece by piece: ``for piece in chat.stream(text)``, or ``async for``.

        The pieces of an utterance follow one another, and so do the utterances; joined they are the
        waveform that :meth:`infer` gives. While one is heard the next ones are generated.

        Args:
            low_latency: begin before the samples are final: ``True``, or a ``LowLatency`` or dict
                with its numbers.
            lang, skip_refine_text, use_decoder, do_text_normalization, do_homophone_replacement,
                split_text, max_split_batch, params_refine_text, params_infer_code, interrupt: as
                in :meth:`infer`.
            first_utterance: number of the text's first utterance in a longer text that is spoken
                in parts; with the same seed they then sound as they would in the whole.

        Raises:
            TextError, VoiceError, ConfigError: as in :meth:`infer`. What is wrong with a refined
                text, and an utterance that stays empty, is said when it is its turn.
        """
        early = parameters.as_low_latency(low_latency)
        if not isinstance(text, str):
            raise TextError(
                "stream speaks one text, a string; infer(texts, stream=True) takes many"
            )
        if first_utterance < 0:
            raise ConfigError(f"first_utterance must be 0 or more, not {first_utterance}")
        model = self._loaded
        refining, coding = self._params(model, params_refine_text, params_infer_code)
        utterances = self._utterances(
            model,
            [text],
            lang=lang,
            do_text_normalization=do_text_normalization,
            do_homophone_replacement=do_homophone_replacement,
            split_text=split_text,
            first=first_utterance,
        )
        production = self._call(model, max_split_batch, 1, interrupt).produce(
            utterances, coding, use_decoder, early, None if skip_refine_text else refining
        )
        return SpeechStream(production, coding)

    def _params(
        self,
        model: Model,
        refining: parameters.RefineTextParams | Mapping[str, Any] | None,
        coding: parameters.InferCodeParams | Mapping[str, Any] | None,
    ) -> tuple[parameters.RefineTextParams, parameters.InferCodeParams]:
        """Checked copies, with the voice's own defaults."""
        defaults = model.config.defaults
        return (
            as_params(self.RefineTextParams, refining).with_defaults(defaults.refine),
            as_params(self.InferCodeParams, coding).with_defaults(defaults.code),
        )

    def _utterances(
        self, model: Model, texts: Sequence[str], first: int = 0, **reading: Any
    ) -> list[Utterance]:
        """The texts cut into what is spoken in one go, numbered from ``first``."""
        most = model.config.defaults.max_utterance_characters
        return [
            Utterance(row, index, piece, first)
            for row, text in enumerate(texts)
            for index, piece in enumerate(
                prepare(text, self.normalizer, max_characters=most, **reading)
            )
        ]

    def _call(
        self, model: Model, max_split_batch: int, together: int, interrupt: threading.Event | None
    ) -> Call:
        """A call that can be ended by :meth:`interrupt`, and by the caller's own event.

        Args:
            together: utterances that are generated side by side at least.
        """
        if max_split_batch < 1:
            raise ConfigError(f"max_split_batch must be at least 1, not {max_split_batch}")
        cancelled = Cancellation(interrupt)
        with self._lock:
            self._running.add(cancelled)
        return Call(model, batch_size=max(together, max_split_batch), cancelled=cancelled)

    def interrupt(self) -> None:
        """End the calls that are running, each on its own; later calls are not touched."""
        with self._lock:
            running = list(self._running)
        for cancelled in running:
            cancelled.set()
