"""``Chat``: load a checkpoint, speak, stream, interrupt, unload.

A call is a pipeline: texts -> utterances -> (refined) -> frames -> samples.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch

from . import params as parameters
from .audio import reference_audio
from .audio.samples import is_path
from .checkpoints import assets
from .checkpoints.hashes import check_hashes
from .compat.calls import ScriptCalls
from .compat.successes import succeeds
from .errors import ChatTTSError
from .loading import load_model
from .longform.ssml_speech import document_stream
from .model.cuda.graphs import give_back_memory
from .model.devices.placement import choose_placement
from .model.generation import Cancellation
from .model.gpt import EngineOptions
from .model.lora.names import adapter_folders
from .model.speaker import encode_sample
from .params import as_params
from .pipeline.alignment.head_scores import HeadChoice
from .pipeline.call import InferCall
from .pipeline.call_options import CallOptions, StreamOptions, takes
from .pipeline.call_setup import set_up_call
from .pipeline.head_search import find_heads, keep_heads
from .pipeline.model import Model
from .pipeline.streams import SpeechStream, WaveformStream
from .pipeline.utterances import refined_texts
from .text import Normalizer, load_homophones
from .text.setting_tags import known_settings
from .utils import machine, openmp
from .utils.garbage import return_free_memory
from .utils.locks import new_lock
from .utils.process_hooks import finish_before_exit

if TYPE_CHECKING:
    from .longform.recording import Recording
    from .longform.script import Script
    from .longform.settings import ReadSettings

logger = logging.getLogger(__name__)


class Chat(ScriptCalls):
    """Text to speech with one checkpoint.

    Threads may share it: calls do not affect one another.

    Args:
        logger: takes the errors of loading and downloading; ``ChatTTS`` by default. All other
            messages go to loggers under ``ChatTTS``.
    """

    RefineTextParams: TypeAlias = parameters.RefineTextParams
    InferCodeParams: TypeAlias = parameters.InferCodeParams

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self.logger = logger or logging.getLogger("ChatTTS")
        self.normalizer = Normalizer()
        # Weak: a stream that is dropped unfinished must not stay here.
        self._running: weakref.WeakSet[Cancellation] = weakref.WeakSet()
        self._files = Path()  # of the loaded checkpoint
        self._lock = new_lock()

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
        use_vllm: bool | None = None,
        experimental: bool = False,
        enable_cache: bool = True,
        *,
        dtype: str | torch.dtype = "float32",
        num_threads: int | None = None,
        kv_memory: int | str | None = None,
        kv_cache_dtype: str = "auto",
        batch_invariant: bool | None = None,
        tensor_parallel_size: int = 1,
        pipeline_parallel_size: int = 1,
        distributed_executor_backend: str | None = None,
        homophones: str | Path | None = None,
        adapter: str | Path | Mapping[str, str | Path] | None = None,
    ) -> None:
        """Load a checkpoint. If that fails, the earlier one stays loaded.

        Args:
            source: ``local`` (./asset, else the hub's cache, else a download), ``huggingface``,
                ``custom`` (needs ``custom_path``) or ``bundled`` (the voice in the package).
            force_redownload: fetch files from the hub again.
            compile: run the standard engine's Llama through ``torch.compile``, on CUDA; the first
                calls then compile for minutes, at each new kind of shape.
            custom_path: the folder that holds ``asset/``, or that folder itself.
            device: such as ``cpu`` or ``cuda:0``; the best available one by default.
            coef: the mel scale; the checkpoint's own is used, and a difference is logged.
            use_flash_attn: use flash-attn, where it is installed, on CUDA in half precision.
            use_vllm: ``True`` for the velocity engine, ``False`` for the standard one; by default
                velocity, where it is faster here and does what the other arguments ask for.
            experimental: use Triton kernels on CUDA, which are velocity's; without effect, since
                velocity is the default where they run.
            enable_cache: ``False`` computes without a KV cache, slowly, for reference.
            dtype: ``float32``, ``bfloat16``, ``float16``, ``auto`` (a dtype that is fast on the
                device), or ``int8`` (velocity only: weights in eight bits, the rest as ``auto``).
            num_threads: threads of torch's CPU operators, for the whole process, and of the
                velocity engine; by default the cores that the process may use.
            kv_memory: size of velocity's KV cache, in bytes or as text such as ``2GB``.
            kv_cache_dtype: ``int8`` keeps velocity's keys and values in eight bits, on a GPU with
                Triton kernels; ``auto`` in the dtype of the weights.
            batch_invariant: ``False`` lets the last bits of velocity's results depend on the other
                requests of the batch, where that is faster.
            tensor_parallel_size, pipeline_parallel_size: divide velocity's model among so many
                devices or processes, by the outputs of each layer and by layers.
            distributed_executor_backend: ``mp`` for processes on this machine (the default), or
                ``ray`` for a Ray cluster.
            homophones: a JSON table of characters to replace by others that sound alike; by default
                the checkpoint's ``asset/homophones_map.json``, if there is one.
            adapter: the folder of an adapter (LoRA, as peft saves it), which is then used for all
                speech; or a dict of names and folders, for ``InferCodeParams(adapter=name)``. The
                one with the name ``default`` speaks where none is named.

        Raises:
            ChatTTSError: a file or argument is wrong; the message names it and the remedy.
        """
        placement = choose_placement(device, dtype)
        if num_threads is not None:
            num_threads = machine.checked_threads(num_threads)
            openmp.set_threads(num_threads)
        options = EngineOptions(
            use_vllm=use_vllm,
            use_flash_attn=use_flash_attn,
            compile=compile,
            experimental=experimental,
            enable_cache=enable_cache,
            kv_memory=kv_memory,
            kv_cache_dtype=kv_cache_dtype,
            batch_invariant=batch_invariant,
            num_threads=num_threads,
            tensor_parallel_size=tensor_parallel_size,
            pipeline_parallel_size=pipeline_parallel_size,
            distributed_executor_backend=distributed_executor_backend,
            adapters=adapter_folders(adapter),
        )
        folder = assets.locate(source, custom_path, force_redownload)
        check_hashes(folder)
        if homophones is None and folder.homophones.exists():
            homophones = folder.homophones
        table = None if homophones is None else load_homophones(homophones)
        with finish_before_exit():
            model = load_model(folder, placement, options, coef)
        defaults = model.config.defaults
        self.normalizer = Normalizer(
            homophones=table,
            characters=defaults.characters,
            known_tags=model.tokenizer.control_tokens,
            language=defaults.language,
            knows=model.tokenizer.knows,
            registered=self.normalizer.normalizers,
            reads_phonemes=model.tokenizer.front_end is not None,
        )
        self._model, self._assigned_device, self._files = model, None, folder.asset
        self._compile = compile
        openmp.return_threads()  # the engine computes in a thread of its own

    load = succeeds(load_or_raise)
    load.__doc__ = "Load as :meth:`load_or_raise` does, but log an error and return ``False``."

    def download_models(
        self,
        source: str = "local",
        force_redownload: bool = False,
        custom_path: str | Path | None = None,
    ) -> str | None:
        """Find or fetch a checkpoint; return its folder, or log an error and return ``None``."""
        try:
            return str(assets.locate(source, custom_path, force_redownload).path)
        except ChatTTSError as error:
            self.logger.error("%s", error)
            return None

    def has_loaded(self, use_decoder: bool = False) -> bool:
        """Return whether a checkpoint is loaded; it always has both decoders."""
        return self._model is not None

    def unload(self) -> None:
        """Interrupt all calls, and free the model and the registered normalizers."""
        self.interrupt()
        self.normalizer = Normalizer()
        self._assigned_device = None
        model, self._model = self._model, None
        if model is not None:
            model.gpt.close()
            del model
            return_free_memory()
            give_back_memory()

    # -- voices ----------------------------------------------------------------------------

    def sample_random_speaker(self) -> str:
        """Return a random voice as a speaker string; ``torch.manual_seed`` makes it repeatable."""
        return self._loaded.speaker.sample_random()

    def sample_audio_speaker(
        self, wav: Any, sample_rate: int | None = None, *, trim: bool | None = None
    ) -> str:
        """Return the sample prompt string of a recording.

        It is for ``InferCodeParams(spk_smp=..., txt_smp=...)``.

        Args:
            wav: a path, or samples as an array or tensor, mono or stereo, float or int16.
            sample_rate: of an array, in Hz; 24 000 by default.
            trim: leave out the silence at both ends, which a model takes for the end of all
                speech; by default that of a file, and not that of an array.

        Raises:
            AudioError: the audio is unreadable, silent, too short or too long.
        """
        model = self._loaded
        recording = reference_audio(wav, sample_rate, trim=is_path(wav) if trim is None else trim)
        with finish_before_exit(), torch.inference_mode():
            samples = torch.from_numpy(recording).to(model.dvae.coef.device)
            return encode_sample(model.dvae.encode(samples.unsqueeze(0))[0].cpu().numpy())

    # -- words -----------------------------------------------------------------------------

    def find_alignment_heads(
        self, *, show_tqdm: bool = True, interrupt: threading.Event | None = None
    ) -> HeadChoice | None:
        """Find the attention heads that follow the text, from sentences that the model speaks.

        The times of words are found from them. The choice is used at once. It is stored beside a
        checkpoint in a folder of the caller's, else in the cache folder; later loads read it. For a
        checkpoint whose configuration names heads, those stay in use, and nothing is stored.

        Args:
            show_tqdm: show a progress bar on a terminal.
            interrupt: an event that ends this call alone; any thread may set it.

        Returns:
            The choice with its scores, or ``None`` after an interrupt.

        Raises:
            EngineUnavailableError: the engine's kernels do not give attention.
            GenerationError: the model speaks none of the sentences.
        """
        model = self._loaded
        cancelled = self._new_cancellation(interrupt)
        with finish_before_exit(cancelled.set):
            choice = find_heads(model, cancelled, show=show_tqdm)
            if choice is None or model.config.defaults.alignment_heads:
                return choice
            return keep_heads(model, choice)

    # -- speaking --------------------------------------------------------------------------

    @takes(CallOptions)
    def infer(self, asked: CallOptions) -> Any:
        """Speak one text or several.

        Args:
            text: a string is one text, and ``""`` is none; a list has several. A text of a list
                with nothing to speak in it gives an empty waveform and a warning.
            stream: return chunks while they are generated.
            lang: ``en`` or ``zh``; by default, and for any other value, detected from the text.
            skip_refine_text: speak the text as it is, without inserted breaks and laughs.
            refine_text_only: return the refined text and no sound.
            use_decoder: decode the hidden states (better); ``False`` decodes the codes.
            do_text_normalization: spell out numbers and symbols, drop what cannot be spoken.
            do_homophone_replacement: apply the checkpoint's table, if it has one.
            split_text: cut long texts into utterances, which follow one another in the waveform.
            max_split_batch: utterances generated side by side, with ``split_text``. The velocity
                engine uses it for streams only.
            params_refine_text, params_infer_code: objects, or dicts with their fields.
            low_latency: let a stream begin before its samples are final: ``True``, or a
                ``LowLatency`` or dict with its numbers.
            interrupt: an event that ends this call alone; any thread may set it.
            word_times: find when each word is spoken, for ``Waveforms.words``, or for ``words`` of
                each of a stream's ``rows``. For a checkpoint that names no attention heads for it,
                the first such call begins with :meth:`find_alignment_heads`.
            guard: find the times and lost or repeated words. ``report`` names faults in ``rows``,
                ``retry`` also generates the utterance again, up to three times, and keeps the best;
                a stream then gives out whole utterances.
            lexicon: the caller's words and their sayings, a ``Lexicon`` or a mapping. The results
                tell where it was applied, in ``lexicon_uses``.
            silence_before, silence_after: seconds before the first and after the last audible
                sample of each text; by default both ends are as the voice speaks them.
            paragraph_pause: seconds of silence at blank lines, and after a paragraph of SSML.
            reads_ssml: whether a string that begins with ``<speak`` is SSML.
            duration: seconds that the speech of the text shall take, or a list with those of each
                text, ``None`` for as long as it takes. ``Waveforms.fits`` tells how it was done. A
                stream begins when the whole text is spoken, and ignores ``low_latency``.
            may_be_late: give speech that does not fit as short as can be, instead of an error.

        Returns:
            ``Waveforms``, a list with a 1-D float32 array at 24 kHz for each text; with ``stream``
            a ``WaveformStream``, a generator of chunks [texts, n]; with ``refine_text_only`` a
            string (the utterances, one a line) or, without ``split_text``, a list of strings; with
            both, a generator that gives this once.

        Raises:
            TextError: a text is too long for the model; or a string has nothing to speak, and
                ``ensure_non_empty`` is on.
            VoiceError, ConfigError: a parameter cannot be used.
            EngineUnavailableError: the times of words with kernels that do not give attention.
            EmptySpeechError: utterances stayed empty; it carries all waveforms.
            DurationError: texts do not fit their time; it names the shortest one that they can
                take, and carries all waveforms, with these as short as can be.
        """
        if asked.is_document:
            document = document_stream(self, asked)
            return document.chunks() if asked.stream else document.whole()
        with self._call(asked) as call:
            if asked.stream and not asked.refine_text_only:
                samples = call.synthesizer.samples_per_frame
                return WaveformStream(call.generation(), call.params, samples)
            utterances = call.read_texts.utterances
            if asked.refine_text_only or not asked.skip_refine_text:
                utterances = call.refined()
            if not asked.refine_text_only:
                return call.waveforms(utterances)
            refined = refined_texts(utterances, len(call.read_texts.left_out), asked.split_text)
            return (each for each in (refined,)) if asked.stream else refined

    @takes(StreamOptions)
    def stream(self, asked: StreamOptions) -> SpeechStream:
        """Speak one text piece by piece: ``for piece in chat.stream(text)``, or ``async for``.

        The joined pieces are the waveform that :meth:`infer` returns. The next pieces are generated
        while the caller uses the earlier ones. ``Piece.words`` and ``Piece.faults`` have what is
        found in the sound. A guard that retries ignores ``low_latency``. All arguments but one are
        as in :meth:`infer`.

        Args:
            first_utterance: number of the text's first utterance in a longer text that is spoken
                in parts; with an equal seed they then sound as they would in the whole.

        Raises:
            TextError, VoiceError, ConfigError, EngineUnavailableError: as in :meth:`infer`. Errors
                of refined texts, of utterances that stay empty, and of texts that do not fit, come
                later, when these are generated.
        """
        if asked.is_document:
            return cast(SpeechStream, document_stream(self, asked))
        with self._call(asked) as call:
            return SpeechStream(call.generation(), call.params)

    def read(
        self, script: Script | str, settings: ReadSettings | None = None, **options: Any
    ) -> Recording:
        """Speak a script, a text with marks or SSML; see :func:`~.longform.reading.read_aloud`."""
        from .longform.reading import read_aloud

        return read_aloud(self, self._loaded, self._files, script, settings, **options)

    @contextmanager
    def _call(self, asked: CallOptions) -> Iterator[InferCall]:
        """Give a new call, which an interrupt or the end of the process cancels."""
        model = self._loaded
        refining, coding = self._params(model, asked.params_refine_text, asked.params_infer_code)
        cancelled = self._new_cancellation(asked.interrupt)
        with finish_before_exit(cancelled.set):
            yield set_up_call(model, asked, self.normalizer, refining, coding, cancelled)

    def _params(
        self,
        model: Model,
        refining: parameters.RefineTextParams | Mapping[str, Any] | None,
        coding: parameters.InferCodeParams | Mapping[str, Any] | None,
    ) -> tuple[parameters.RefineTextParams, parameters.InferCodeParams]:
        """Return checked copies of the parameters, with the voice's own defaults."""
        defaults = model.config.defaults
        refine = as_params(self.RefineTextParams, refining).with_defaults(defaults.refine)
        code = as_params(self.InferCodeParams, coding).with_defaults(defaults.code)
        for params in (refine, code):
            params.prompt = known_settings(params.prompt, model.tokenizer.control_tokens)
        return refine, code

    def _new_cancellation(self, outer: threading.Event | None) -> Cancellation:
        """Return a new call's cancellation, set by :meth:`interrupt` or the caller's event."""
        cancelled = Cancellation(outer)
        with self._lock:
            self._running.add(cancelled)
        return cancelled

    def interrupt(self) -> None:
        """End all running calls; later calls are not affected."""
        with self._lock:
            running = list(self._running)
        for cancelled in running:
            cancelled.set()
