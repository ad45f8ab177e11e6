"""Time the cost of batch invariance, in matrix products and in a step of the torch path.

    python -m benchmarks.cpu.products --threads 2 --json out.json

README.md explains each figure.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear
from tqdm import tqdm

import ChatTTS
from ChatTTS.config import Config
from ChatTTS.model.devices.placement import choose_placement
from ChatTTS.model.embed import RowKind, load_embed
from ChatTTS.model.kernels.cpu.build import BuildError
from ChatTTS.model.kernels.cpu.library import Team
from ChatTTS.model.llama.config import read_llama_shape
from ChatTTS.model.llama.shard import Shard
from ChatTTS.model.llama.weights import LlamaFile
from ChatTTS.model.velocity.backends.cpu.packing import PackedLinear
from ChatTTS.model.velocity.backends.torch.linear import MatrixMaker, TiledMatrix, WholeMatrix
from ChatTTS.model.velocity.backends.torch.operations import TorchOperations
from ChatTTS.model.velocity.backends.torch.tiles import tiled
from ChatTTS.model.velocity.configs import CacheConfig
from ChatTTS.model.velocity.input_batch import InputBatch
from ChatTTS.model.velocity.layers import Llama
from ChatTTS.model.velocity.model_loader import matrix_maker, torch_attention

from ..common.command import check_at_least_one, new_parser, origin, write_json
from ..common.random_checkpoint import add_size_arguments, config_from, temporary_checkpoint
from .machine_limits import apply, best

Layer = Callable[[Tensor], Any]

# The methods whose results for a row do not depend on the other rows of the batch.
_INVARIANT = ("kernels", "torch in tiles")
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_SETTINGS = (
    "layers",
    "hidden",
    "intermediate",
    "matrices",
    "length",
    "threads",
    "rounds",
    "passes",
)


# ---------------------------------------------------------------- products


def measure_products(args: argparse.Namespace, name: str) -> list[dict[str, Any]]:
    """Time products of the shape of the Llama's MLP, with ``args.matrices`` different matrices.

    Returns:
        For each number of rows the seconds of a matrix by method (medians of the rounds), and
        ``price``: those of an invariant method divided by those of the fastest other method.
    """
    dtype = _DTYPES[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(args.seed)
        weights = [torch.randn(args.intermediate, args.hidden) for _ in range(args.matrices)]
        most = torch.randn(max(args.product_rows), args.hidden)
    fixed = _kernels(weights, name, args.threads) | _torch_ways(weights, dtype)
    results = []
    for count in args.product_rows:
        rows = most[:count].contiguous()
        ways = fixed | _onednn(weights, dtype, count)
        work = {
            way: partial(apply, layers, rows if way == "kernels" else rows.to(dtype))
            for way, layers in ways.items()
        }
        seconds = _by_turns(work, args.rounds, args.passes, f"{name}, {count} rows")
        each = {way: median(own) / args.matrices for way, own in seconds.items()}
        others = min(s for way, s in each.items() if way not in _INVARIANT)
        results.append(
            {
                "rows": count,
                "seconds": each,
                "price": {way: each[way] / others for way in _INVARIANT if way in each},
                "rounds": seconds,
            }
        )
    return results


def _kernels(weights: list[Tensor], kind: str, threads: int) -> dict[str, list[Layer]]:
    """Return the kernels if they can be compiled; they take rows in float32."""
    try:
        team = Team(threads)
    except BuildError as error:
        print(f"no kernels: {error}", file=sys.stderr)
        return {}
    return {"kernels": [PackedLinear(team, weight, kind) for weight in weights]}


def _torch_ways(weights: list[Tensor], dtype: torch.dtype) -> dict[str, list[Layer]]:
    """Return torch's product, whole and in tiles; both take rows in ``dtype``."""
    own = [weight.to(dtype) for weight in weights]
    return {
        "torch": [partial(linear, weight=weight) for weight in own],
        "torch in tiles": [partial(tiled, weight=weight) for weight in own],
    }


def _onednn(weights: list[Tensor], dtype: torch.dtype, rows: int) -> dict[str, list[Layer]]:
    """Return oneDNN with weights packed for ``rows`` rows, if this torch offers it."""
    try:
        pack = torch.ops.mkldnn._reorder_linear_weight
        layers: list[Layer] = [_Packed(pack(weight.to(dtype), rows)) for weight in weights]
        layers[0](torch.zeros(rows, weights[0].shape[1], dtype=dtype))
    except (AttributeError, RuntimeError):  # these private names are not in every torch
        return {}
    return {"oneDNN": layers}


class _Packed:
    """A oneDNN product without bias."""

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight

    def __call__(self, rows: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._weight, None, "none", [], "")
        return out


# ---------------------------------------------------------------- steps of the torch path


def measure_steps(args: argparse.Namespace, folder: Path, name: str) -> list[dict[str, Any]]:
    """Time a step of the torch path by the kinds of matrices that it can have.

    Returns:
        For each number of rows the seconds by method (medians of the rounds), and ``price``:
        those of the matrices that the engine takes divided by those of torch's own operator.
    """
    config = config_from(args)
    results = []
    makers: dict[str, MatrixMaker | None] = {
        "taken": None,
        "tiles": TiledMatrix,
        "plain": WholeMatrix,
    }
    llamas = {way: _llama(folder, config, name, maker) for way, maker in makers.items()}
    pool = llamas["plain"].new_pool(max(args.step_rows) * _blocks(args.length)).zero_()
    for count in args.step_rows:
        batch = _batch(config, count, args.length)
        work = {way: partial(llama.forward, batch, pool) for way, llama in llamas.items()}
        seconds = _by_turns(work, args.rounds, args.passes, f"step in {name}, {count} rows")
        each = {way: median(own) for way, own in seconds.items()}
        price = each["taken"] / each["plain"]
        results.append({"rows": count, "seconds": each, "price": price, "rounds": seconds})
    return results


def _llama(
    folder: Path, config: Config, name: str, maker: MatrixMaker | None
) -> Llama[TorchOperations]:
    """Load the Llama on torch; its matrices are by default those that the engine takes."""
    asset = folder / "asset"
    placement = choose_placement("cpu", name)
    dtype, device = placement.dtype, placement.device
    shape = read_llama_shape(asset / "gpt" / "config.json", config.gpt)
    file = LlamaFile(asset / "gpt" / "model.safetensors", shape)
    shard = Shard(shape)
    operations = TorchOperations(
        shape,
        load_embed(asset / "Embed.safetensors", config.embed, placement),
        torch_attention(shard, CacheConfig.block_size, device),
        maker or matrix_maker(shard, (), dtype, device, batch_invariant=True),
    )
    return Llama.load(file, dtype, operations, CacheConfig.block_size)


def _blocks(length: int) -> int:
    return -(-length // CacheConfig.block_size)


def _batch(config: Config, rows: int, length: int) -> InputBatch:
    """Return a batch with one frame of each of ``rows`` sequences, at position ``length - 1``."""
    blocks = _blocks(length)
    return InputBatch(
        kinds=np.full(rows, RowKind.CODE, dtype=np.uint8),
        ids=np.zeros((rows, config.gpt.num_vq), dtype=np.int32),
        vectors=np.empty((0, config.gpt.hidden_size), dtype=np.float32),
        positions=np.full(rows, length - 1, dtype=np.int32),
        tables=np.arange(rows * blocks, dtype=np.int32).reshape(rows, blocks),
        table_of=np.arange(rows, dtype=np.int32),
        draws=np.arange(rows, dtype=np.int32),
    )


# ---------------------------------------------------------------- both


def _by_turns(
    work: Mapping[str, Callable[[], Any]], rounds: int, passes: int, what: str
) -> dict[str, list[float]]:
    """Return the seconds of each method in each round; a round is the best of ``passes``."""
    seconds: dict[str, list[float]] = {way: [] for way in work}
    for _ in tqdm(range(rounds), desc=what, leave=False):
        for way, act in work.items():
            seconds[way].append(best(passes, act))
    return seconds


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Time products and then steps, in every dtype."""
    torch.set_num_threads(args.threads)
    products = {name: measure_products(args, name) for name in args.dtypes}
    with temporary_checkpoint(config_from(args), args.seed) as folder:
        steps = {name: measure_steps(args, folder, name) for name in args.dtypes}
    return {
        **origin(),
        "versions": {
            "package": f"chattts-velocity {ChatTTS.__version__}",
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "settings": {name: getattr(args, name) for name in _SETTINGS},
        "products": products,
        "steps": steps,
    }


def table(report: dict[str, Any]) -> str:
    """Return the report as plain text."""
    machine = report["machine"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}",
        ", ".join(f"{name} {value}" for name, value in report["versions"].items()),
        ", ".join(f"{name} {value}" for name, value in report["settings"].items()),
    ]
    for what, unit, scale in (("products", "us", 1e6), ("steps", "ms", 1e3)):
        lines += ["", f"{what}: {unit} each, and the price of invariance"]
        for name, results in report[what].items():
            for result in results:
                cells = (f"{way} {scale * s:.1f}" for way, s in result["seconds"].items())
                prices = result["price"]
                if isinstance(prices, dict):
                    price = ", ".join(f"{way} {value:.2f}" for way, value in prices.items())
                else:
                    price = f"{prices:.2f}"
                lines.append(f"{name:<8} {result['rows']:>4} rows  {'  '.join(cells)}: {price}")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = new_parser("cpu.products", __doc__)
    add_size_arguments(parser)
    parser.add_argument("--dtypes", nargs="+", choices=list(_DTYPES), default=list(_DTYPES))
    parser.add_argument("--product-rows", type=int, nargs="+", default=[1, 8, 16, 128])
    parser.add_argument("--step-rows", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--matrices", type=int, default=40, help="that a product goes through")
    parser.add_argument("--length", type=int, default=225, help="positions of a step's sequences")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds of every way, by turns")
    parser.add_argument("--passes", type=int, default=3, help="in a round; the best counts")
    parser.add_argument("--json", type=Path, help="write the whole report here")
    args = parser.parse_args()
    names = ("matrices", "length", "threads", "rounds", "passes", "product_rows", "step_rows")
    check_at_least_one(parser, args, *names)
    if args.length > args.positions:
        parser.error(f"--length exceeds the model's {args.positions} positions")
    return args


def main() -> None:
    args = parse()
    report = measure(args)
    print(table(report))
    write_json(report, args.json)


if __name__ == "__main__":
    main()
