"""Compile every kernel as the package launches it, for a GPU that need not be there.

This is the main module of a process of its own, because a process declares its kernels either for
Triton's interpreter or for a GPU. The package's own code launches them, at full size and on the
CPU's memory; a launch then compiles its kernel and computes nothing. So a new launch is compiled
without anyone listing its arguments.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import triton
from torch import Tensor
from triton.backends import nvidia
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from ChatTTS.config import ConvNetConfig, EmbedConfig, MelConfig, VocosConfig
from ChatTTS.model.dvae import MelDecoder
from ChatTTS.model.embed import Embed
from ChatTTS.model.kernels import cuda as kernels
from ChatTTS.model.kernels.cuda import prefetch
from ChatTTS.model.kernels.cuda.product_kernels import product_in_turns
from ChatTTS.model.kernels.cuda.products import product
from ChatTTS.model.llama.config import LlamaShape, projections
from ChatTTS.model.llama.weights import LayerWeights
from ChatTTS.model.lora.adapter import Adapter, LowRank
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling import SamplingRow
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.synthesis.cuda_decoder import CudaStreamingDecoder
from ChatTTS.model.synthesis.cuda_layers import cuda_layers
from ChatTTS.model.synthesis.launch_shapes import LaunchShapes
from ChatTTS.model.synthesis.layer_operations import kernel_operations
from ChatTTS.model.synthesis.layers import vocoder_layers
from ChatTTS.model.synthesis.vocoder import Vocoder
from ChatTTS.model.velocity.backends.cuda.decode_steps import DecodeSteps
from ChatTTS.model.velocity.backends.cuda.operations import TritonOperations
from ChatTTS.model.velocity.backends.cuda.sampler import TritonSampler
from ChatTTS.model.velocity.backends.cuda.text_attention import TextAttention
from ChatTTS.model.velocity.backends.torch.linear import MatrixLinear
from ChatTTS.model.velocity.input_batch import InputBatch
from ChatTTS.model.velocity.layers import Llama
from ChatTTS.params import InferCodeParams

from .capture_tools import EagerCapturer

# Triton ships it; the module that knows its path differs from release to release.
_CUOBJDUMP = Path(nvidia.__path__[0]) / "bin" / "cuobjdump"


@dataclass(frozen=True)
class Compiled:
    """A kernel with one set of arguments.

    Attributes:
        kernel: module and name.
        arguments: the dtypes, constants and options that it was compiled for.
        error: why it could not be compiled; empty if it was. The numbers are 0 on an error.
        registers: registers of a thread.
        stack: bytes of local memory of a thread, mainly for spilled registers.
        shared: bytes of shared memory of a program.
        instructions: lines of its PTX that are instructions.
    """

    kernel: str
    arguments: str
    error: str = ""
    registers: int = 0
    stack: int = 0
    shared: int = 0
    instructions: int = 0


class Compiler:
    """A stand-in for the CUDA driver: launches compile a kernel and run nothing.

    Args:
        capability: the compute capability of the GPU to compile for, 90 for 9.0.
    """

    def __init__(self, capability: int) -> None:
        self.compiled: list[Compiled] = []
        self._target = GPUTarget("cuda", capability, 32)
        self._seen: set[str] = set()

    def install(self) -> None:
        """Replace the driver and the launches in this process, for good."""
        is_compiled = isinstance(product_in_turns, JITFunction)
        assert is_compiled, "kernels of the interpreter cannot be compiled"
        driver.set_active(self)
        launch = JITFunction.run

        def run(kernel: JITFunction[Any], *args: Any, **options: Any) -> None:
            self._note(kernel, args, options, launch)

        JITFunction.run = run
        # Launchers check it, since the interpreter on a CPU needs other launches.
        torch.Tensor.is_cuda = True
        # Nothing runs, so nothing has to be waited for.
        done = SimpleNamespace(query=lambda: True)
        stream = SimpleNamespace(record_event=lambda: done)
        setattr(torch.cuda, "current_stream", lambda device: stream)  # noqa: B010
        setattr(prefetch, "cache_bytes", lambda x: 50 << 20)  # noqa: B010

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def _note(
        self,
        kernel: JITFunction[Any],
        args: tuple[Any, ...],
        options: dict[str, Any],
        launch: Callable[..., Any],
    ) -> None:
        name = f"{kernel.module.rpartition('.')[2]}.{kernel.fn.__name__}"
        arguments = _describe(kernel, args, options)
        try:
            built = launch(kernel, *args, **(options | {"warmup": True}))
        except Exception as error:  # of any kind: the other kernels are to be compiled as well
            key, found = name + arguments, Compiled(name, arguments, str(error) or repr(error))
        else:
            if built.hash in self._seen:
                return
            registers, stack = _resources(built.asm["cubin"])
            key = built.hash
            shared, lines = built.metadata.shared, _instructions(built.asm["ptx"])
            found = Compiled(name, arguments, "", registers, stack, shared, lines)
        if key not in self._seen:
            self._seen.add(key)
            self.compiled.append(found)


def _describe(kernel: JITFunction[Any], args: tuple[Any, ...], options: dict[str, Any]) -> str:
    """Return the dtypes of the tensors, the constants and the options."""
    given = dict(zip(kernel.arg_names, args, strict=False)) | options
    tensors = [value for value in given.values() if isinstance(value, Tensor)]
    dtypes = dict.fromkeys(str(x.dtype)[6:] for x in tensors if x.is_floating_point())
    constants = [param.name for param in kernel.params if param.is_constexpr]
    settings = [name for name in ("num_warps", "num_stages") if name in options]
    return " ".join([*dtypes, *(f"{name}={given[name]}" for name in constants + settings)])


def _instructions(ptx: str) -> int:
    return len(re.findall(r"^\s+(?:@!?%\w+\s+)?[a-z][^\n]*;", ptx, re.M))


def _resources(cubin: bytes) -> tuple[int, int]:
    """Return the registers and the stack bytes of a thread."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = subprocess.run(
            [_CUOBJDUMP, "--dump-resource-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    usage = {name: int(count) for name, count in re.findall(r"(REG|STACK|LOCAL):(\d+)", told)}
    return usage["REG"], usage["STACK"] + usage["LOCAL"]


# ---------------------------------------------------------------- launches


PUBLISHED = LlamaShape(
    hidden_size=768,
    intermediate_size=3072,
    num_attention_heads=12,
    num_hidden_layers=20,
    max_position_embeddings=4096,
    num_key_value_heads=12,
    head_dim=64,
)
# No size but the number of heads is a power of two.
SMALL = LlamaShape(
    hidden_size=96,
    intermediate_size=192,
    num_attention_heads=4,
    num_hidden_layers=3,
    max_position_embeddings=1024,
    num_key_value_heads=4,
    head_dim=24,
)
# The largest heads that are accepted.
WIDE = replace(SMALL, hidden_size=256, num_attention_heads=2, num_key_value_heads=2, head_dim=128)
ROWS = (1, 16, 64, 128)
TEXT_IDS, CODEBOOKS, CODES = 21178, 4, 626


def launch_little(dtype: torch.dtype) -> None:
    """Launch each kernel at least once, in the published model's size."""
    _steps(PUBLISHED, 32, dtype, (1,), batch_invariant=True)
    for given in ({"batch_invariant": True, "adapted": True}, {"batch_invariant": False}):
        llama, _ = _steps(PUBLISHED, 32, dtype, (1,), **given)
        llama.forward(_prompt(128, PUBLISHED, 32), llama.new_pool(4))
    _products(dtype)
    _draws()
    launch_audio_decoder(dtype)


def launch_published(dtype: torch.dtype) -> None:
    """Launch all kernels in every way that the package uses for the published model."""
    _engine(PUBLISHED, 32, dtype)
    _engine(PUBLISHED, 32, dtype, int8_cache=True)
    _engine(PUBLISHED, 32, dtype, int8_weights=True)
    for rounds in (False, True):
        given = {"batch_invariant": True, "adapted": True, "int8_weights": rounds}
        _steps(PUBLISHED, 32, dtype, ROWS, **given)
    _draws()
    launch_audio_decoder(dtype)


def launch_sizes(dtype: torch.dtype) -> None:
    """Launch the engine's kernels in sizes of no published model."""
    for kv_heads in (4, 1):
        _engine(replace(PUBLISHED, num_key_value_heads=kv_heads), 32, dtype)
    for shape, block_size in ((SMALL, 8), (SMALL, 64), (WIDE, 16)):
        _engine(shape, block_size, dtype)
        _engine(shape, block_size, dtype, int8_weights=True)
        # In tiles the largest heads of float32 do not fit into registers once they are widened.
        if shape is not WIDE or dtype != torch.float32:
            _engine(shape, block_size, dtype, int8_cache=True)
    grouped = replace(SMALL, num_key_value_heads=1)
    _steps(grouped, 32, dtype, ROWS[:3], batch_invariant=True, adapted=True)


def _engine(shape: LlamaShape, block_size: int, dtype: torch.dtype, **given: bool) -> None:
    """Launch decode steps, prompts and logits; ``given`` is of :func:`_steps`."""
    for batch_invariant in (True, False):
        how = {"batch_invariant": batch_invariant, **given}
        llama, embed = _steps(shape, block_size, dtype, ROWS, **how)
        for rows in ROWS:
            hiddens = llama.forward(_prompt(rows, shape, block_size), llama.new_pool(4))
            embed.text_logits(hiddens.expand(rows, -1).contiguous())


def _steps(
    shape: LlamaShape,
    block_size: int,
    dtype: torch.dtype,
    rows: tuple[int, ...],
    *,
    batch_invariant: bool,
    adapted: bool = False,
    int8_cache: bool = False,
    int8_weights: bool = False,
) -> tuple[Llama[TritonOperations], Embed]:
    """Launch the engine's decode steps with each number of rows, all with adapters or none."""
    embed = _embed(shape, dtype)
    adapters = [_adapter(shape)] if adapted else ()
    cpu = torch.device("cpu")
    operations = TritonOperations(
        shape,
        embed,
        cpu,
        batch_invariant=batch_invariant,
        adapters=adapters,
        int8_cache=int8_cache,
        int8_weights=int8_weights,
    )
    final_norm = torch.zeros(shape.hidden_size, dtype=dtype)
    llama = Llama([_layer(shape, dtype)], final_norm, operations, block_size)
    pool = llama.new_pool(4)
    steps = DecodeSteps(
        llama,
        embed,
        pool,
        EagerCapturer(),
        max_rows=max(rows),
        max_positions=shape.max_position_embeddings,
    )
    for count in rows:
        steps.compute(count, adapted=adapted)
    TextAttention(operations, pool, 1, dtype).prepare(steps._attention_metadata(1))
    return llama, embed


def _adapter(shape: LlamaShape) -> Adapter:
    """Return an adapter of 16 ranks on all projections of the first layer."""
    sizes = projections(shape).items()
    return Adapter(
        "some",
        {
            (0, name): LowRank(torch.zeros(16, inputs), torch.zeros(outputs, 16))
            for name, (outputs, inputs) in sizes
        },
    )


def _draws() -> None:
    """Launch draws outside of captured steps, of codes and of text ids."""
    for rows in (1, 3):
        for num_codebooks, vocabulary in ((CODEBOOKS, CODES), (1, TEXT_IDS)):
            sampling = SamplingParams.from_params(
                InferCodeParams(temperature=[1.0] * num_codebooks), num_codebooks
            )
            window = np.zeros((0, num_codebooks), dtype=np.int32)
            draw = SamplingRow(sampling, DrawKey(1, Pass.CODE), 0, window, vocabulary - 1)
            TritonSampler()(torch.zeros(rows, num_codebooks, vocabulary), [draw] * rows)


ONE_LAUNCH = LaunchShapes(sizes=(1,), chunks=(2,))


def launch_audio_decoder(dtype: torch.dtype, shapes: LaunchShapes = ONE_LAUNCH) -> None:
    """Launch the layers of the published Decoder and vocoder, in all of these shapes."""
    mel_decoder, vocoder = MelDecoder(ConvNetConfig(), MelConfig().n_mels), Vocoder(VocosConfig())
    operations = kernel_operations()
    decoder = CudaStreamingDecoder(
        mel_decoder,
        cuda_layers(vocoder_layers(vocoder), operations, dtype),
        operations,
        EagerCapturer(),
        dtype=dtype,
        shapes=shapes,
    )
    decoder.warm_up(shapes.sizes)


def _products(dtype: torch.dtype) -> None:
    """Launch the products that a step of one row does not need."""
    for rows, own in ((64, dtype), (128, dtype), (1, torch.float32)):
        x, weight = torch.zeros(rows, 768, dtype=own), torch.zeros(2304, 768, dtype=own)
        product(x, weight, norm=(torch.zeros(768, dtype=own), 1e-6))


def _embed(shape: LlamaShape, dtype: torch.dtype) -> Embed:
    with torch.device("meta"):
        embed = Embed(EmbedConfig(shape.hidden_size, CODES, TEXT_IDS, CODEBOOKS)).to(dtype)
    embed = embed.to_empty(device="cpu").requires_grad_(False)
    for name in ("head_text", "head_code"):
        multiply = partial(product, weight=getattr(embed, name).weight, out_dtype=torch.float32)
        setattr(embed, name, MatrixLinear(multiply))
    return embed


def _layer(shape: LlamaShape, dtype: torch.dtype) -> LayerWeights:
    hidden, inner = shape.hidden_size, shape.intermediate_size
    mixed = shape.num_attention_heads * shape.head_dim
    stored = 2 * shape.num_key_value_heads * shape.head_dim
    sizes = {
        "qkv": (mixed + stored, hidden),
        "out": (hidden, mixed),
        "gate": (inner, hidden),
        "up": (inner, hidden),
        "down": (hidden, inner),
        "attention_norm": (hidden,),
        "mlp_norm": (hidden,),
    }
    return LayerWeights(**{name: torch.zeros(size, dtype=dtype) for name, size in sizes.items()})


def _prompt(rows: int, shape: LlamaShape, block_size: int) -> InputBatch:
    def whole(*size: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.zeros(size, dtype=np.int32)

    return InputBatch(
        kinds=np.zeros(rows, dtype=np.uint8),
        ids=whole(rows, CODEBOOKS),
        vectors=np.zeros((1, shape.hidden_size), dtype=np.float32),
        positions=np.arange(rows, dtype=np.int32),
        tables=whole(1, -(-rows // block_size)),
        table_of=whole(rows),
        draws=whole(1),
    )


LAUNCHES = {"little": launch_little, "published": launch_published, "sizes": launch_sizes}


def never_launched(compiled: list[Compiled]) -> Iterator[str]:
    """Yield the kernels of the package that no launch compiled.

    Of its JIT functions, kernels take arguments, return nothing, and are called by no other.
    """
    known = {found.kernel for found in compiled}
    modules = [
        import_module(f"{kernels.__name__}.{each.name}") for each in iter_modules(kernels.__path__)
    ]
    functions = [f for each in modules for f in vars(each).values() if isinstance(f, JITFunction)]
    called = {name for function in functions for name in function.fn.__code__.co_names}
    for value in functions:
        takes, gives = value.arg_names, value.fn.__annotations__["return"]
        name = f"{value.module.rpartition('.')[2]}.{value.fn.__name__}"
        if takes and gives == "None" and value.fn.__name__ not in called and name not in known:
            yield name


def main(capability: str, dtype: str, launches: str, out: str) -> None:
    """Write the compiled kernels, and the names of the missing ones, as JSON to ``out``.

    Args:
        launches: a key of ``LAUNCHES``.
    """
    compiler = Compiler(int(capability))
    compiler.install()
    with torch.inference_mode():
        LAUNCHES[launches](getattr(torch, dtype))
    told = {
        "triton": triton.__version__,
        "compiled": [asdict(found) for found in compiler.compiled],
        "missing": sorted(never_launched(compiler.compiled)),
    }
    Path(out).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
