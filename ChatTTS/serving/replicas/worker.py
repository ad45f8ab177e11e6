"""The work of a replica: a loaded ``Chat`` that answers jobs with messages."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import torch

from ...audio.samples import Samples
from ...checkpoints.assets import AssetFolder
from ...checkpoints.hashes import verify
from ...core import Chat
from ...errors import ChatTTSError
from ...model.kernels.cpu.build import BuildError
from ...model.kernels.cpu.library import load as load_kernels
from ...utils.machine import cpu_features
from ...version import __version__
from ..requests.jobs import RefineJob, SpeechJob
from ..speech.local_model import LocalModel, refine
from .messages import Alive, Ended, Failed, Fingerprint, Message, Opened, ReplicaState
from .pool import Facts

_HEALTH_TEXT = "Hi."
_HEALTH = {"manual_seed": 0, "max_new_token": 1, "ensure_non_empty": False}
_THREADS = 16
_BEAT_SECONDS = 1.0


class Replica:
    """One loaded model, which answers the calls of :class:`.pool.ReplicaPool`.

    Args:
        chat: loaded, with the velocity engine.
        fingerprint: of it, see :func:`fingerprint_of`.
        name: of this replica; by default a random one.
    """

    def __init__(self, chat: Chat, fingerprint: Fingerprint, name: str | None = None) -> None:
        self._model = LocalModel(chat)
        self.fingerprint = fingerprint
        self.name = secrets.token_hex(4) if name is None else name
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="replica")

    @property
    def unrecorded(self) -> int:
        """Return how many launches on a GPU are not recorded yet."""
        return self._model.unrecorded

    def facts(self) -> Facts:
        """Return what the front must know."""
        model = self._model
        return Facts(
            self.fingerprint,
            model.gives_attention,
            model.has_alignment_heads,
            model.fallback,
            model.adapters,
            model.languages,
        )

    async def speak(self, job: SpeechJob) -> AsyncGenerator[Message, None]:
        """Yield the messages of a job; errors of the job are messages, too."""
        interrupt = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            opening = asyncio.ensure_future(self._model.open_stream(job, interrupt))
            try:
                stream = await asyncio.shield(opening)
            except asyncio.CancelledError:  # its thread opens the stream nevertheless
                interrupt.set()
                stream = await opening
                await loop.run_in_executor(self._threads, stream.close)
                raise
        except ChatTTSError as error:
            yield Failed.of(error, self.name)
            return
        try:
            texts = tuple(utterance.text for utterance in stream.utterances)
            yield Opened(self.fingerprint, texts, self.state(), stream.left_out)
            async for piece in stream:
                yield piece
            yield Ended(stream.finish_reason, self.state())
        except ChatTTSError as error:
            yield Failed.of(error, self.name)
        finally:
            interrupt.set()
            await asyncio.shield(loop.run_in_executor(self._threads, stream.close))

    def refine(self, job: RefineJob, interrupt: threading.Event) -> str | Failed:
        """Return the refined utterances of a job; blocks a thread."""
        try:
            return refine(self._model.chat, job, interrupt)
        except ChatTTSError as error:
            return Failed.of(error)

    def encode_sample(self, samples: Samples, sample_rate: int) -> str | Failed:
        """Return the sample prompt string of a recording; blocks a thread."""
        try:
            return self._model.encode_sample(samples, sample_rate)
        except ChatTTSError as error:
            return Failed.of(error)

    def check_health(self) -> None:
        """Speak one frame, through the engine's thread; blocks a thread.

        Raises:
            ChatTTSError: the engine is dead. A caller with a time limit also notices an engine
                that hangs.
        """
        self._model.chat.infer(_HEALTH_TEXT, skip_refine_text=True, params_infer_code=_HEALTH)

    def state(self) -> ReplicaState:
        """Return the name of this replica and the counts of its engine and its caches."""
        return ReplicaState(self.name, self._model.metrics(), self._model.caches())

    def close(self) -> None:
        """Unload the model."""
        self._model.close()
        self._threads.shutdown(wait=False)


async def with_signs_of_life(
    messages: AsyncIterator[Message], seconds: float = _BEAT_SECONDS
) -> AsyncGenerator[Message, None]:
    """Yield the messages, and ``Alive`` whenever none comes for so many seconds."""
    while True:
        coming = asyncio.ensure_future(anext(messages))
        try:
            while not coming.done():
                await asyncio.wait({coming}, timeout=seconds)
                if not coming.done():
                    yield Alive()
            try:
                message = coming.result()
            except StopAsyncIteration:
                return
            yield message
        finally:
            if coming.cancel():
                await asyncio.wait({coming})


def fingerprint_of(chat: Chat, folder: AssetFolder) -> Fingerprint:
    """Return the fingerprint of a loaded ``Chat``.

    Args:
        folder: of its checkpoint. A large file that was hashed at loading is not hashed again.
    """
    placement = chat._loaded.placement
    digest = hashlib.sha256()
    for file in sorted(verify(folder, again=False).files, key=lambda file: file.name):
        digest.update(f"{file.name} {file.found}\n".encode())
    for name, info in sorted(chat.gpt.adapters.items()):
        digest.update(f"adapter {name} {info.digest}\n".encode())
    dtypes = [str(placement.dtype).removeprefix("torch."), placement.quantization or ""]
    if chat.gpt.kv_cache_dtype != "auto":
        dtypes.append(f"keys and values {chat.gpt.kv_cache_dtype}")
    if placement.device.type == "cuda":
        kernels = torch.cuda.get_device_name(placement.device)
    else:
        try:
            kernels = load_kernels().chattts_build().decode("ascii")
        except BuildError:
            kernels = "torch"
    return Fingerprint(
        package=__version__,
        checkpoint=digest.hexdigest(),
        dtype=" ".join(filter(None, dtypes)),
        kernels=kernels,
        instructions=f"{torch.backends.cpu.get_cpu_capability()} {' '.join(cpu_features())}",
        torch=torch.__version__,
    )
