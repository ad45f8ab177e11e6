"""The tables of figures in the documents, made from the results of the benchmarks.

``python -m benchmarks.figures`` writes them between ``<!-- figures: NAME -->`` and ``<!-- end -->``
in the documents; a test compares them, so that a document never says another run's figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENTS = ("README.md", "README.zh-CN.md", "docs/performance.md")

_TABLE = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PEER = "ChatTTS 0.2.5"
_SIDES = {
    "bfloat16": "velocity bfloat16",
    "float32": "velocity float32",
    "int8": "velocity int8",
    "peer": _PEER,
}


_WAYS = ("generate", "infer")


def with_figures(document: str) -> str:
    """Return the text of a document with its tables made anew.

    Raises:
        KeyError: it names a table that does not exist.
    """

    def filled(match: re.Match[str]) -> str:
        return f"{match[1]}{_TABLES[match[2]]()}\n{match[3]}"

    return _TABLE.sub(filled, document)


def _results(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = ([f" {cell} " if cell else " " for cell in line] for line in lines)
    return "\n".join(f"|{'|'.join(line)}|" for line in cells)


def _velocity() -> str:
    """Return the steps and times of generation on a CPU, beside the published package."""
    rows = []
    for result in _results("velocity-cpu")["results"]:
        for side, name in _SIDES.items():
            own = result["medians"][side]
            ratios = result["ratios"].get(side)  # of each round, so near the ratios of the medians
            step = own["step_ms"]
            rows.append(
                [
                    str(result["streams"]),
                    name,
                    f"{step:.0f}" if step >= 100 else f"{step:.1f}",
                    f"{own['generate_frames_per_s']:.0f}",
                    f"{own['infer_s']:.1f}",
                    *(f"{ratios[way]['median']:.1f}" if ratios else "" for way in _WAYS),
                    f"{step / result['limits'][side]['step_ms']:.2f}",
                ]
            )
    head = ["streams", "", "step, ms", "frames/s, all", "`infer`, s"]
    return _table([*head, "times faster: generation", "`infer`", "step over limit"], rows)


def _streaming() -> str:
    """Return the times to the first sound of streams, and the pauses of a player."""
    rows = []
    for result in _results("streaming-cpu")["results"]:
        for way, own in result["summary"].items():
            name = _PEER if way == "peer" else re.sub(r"^(\w+) ", r"\1, ", way)
            pauses = str(own["underruns"])
            if own["underruns"]:
                pauses += f", {own['silent_s']:.1f}"
            figures = (own[key] for key in ("first_s", "rtf", "offline_rtf"))
            rows.append([str(result["streams"]), name, *(f"{f:.2f}" for f in figures), pauses])
    head = ["streams", "", "first sound, s", "real-time factor", "offline", "pauses, silent s"]
    return _table(head, rows)


def _starts() -> str:
    """Return the times of the starts of commands."""
    found = _results("starts-cpu")["summary"]
    rows = [
        [f"`{name}`", *(f"{own[key]:.2f}" for key in ("median_wall_s", "median_cpu_s"))]
        for name, own in found.items()
    ]
    return _table(["", "seconds to its end", "seconds of the processors"], rows)


def _speeds() -> dict[str, str]:
    """Return the figures of the READMEs by name."""
    texts = {r["streams"]: r["medians"] for r in _results("velocity-cpu")["results"]}
    streams = {r["streams"]: r["summary"] for r in _results("streaming-cpu")["results"]}[1]
    gpu = _results("gpu-nvidia-h100-80gb-hbm3")["parts"]
    found = {
        f"{side}_{count}": f"{texts[count][side]['infer_s']:.1f}"
        for side in _SIDES
        for count in (1, 16)
    }
    return found | {
        "exact": f"{streams['bfloat16 exact']['first_s']:.2f}",
        "early": f"{streams['bfloat16 low latency']['first_s']:.2f}",
        "peer_first": f"{streams['peer']['first_s']:.2f}",
        "gpu_float32": f"{gpu['steps float32']['streams']['1']['step_ms']['median']:.2f}",
        "gpu_bfloat16": f"{gpu['engine bfloat16']['streams']['1']['step_ms']['median']:.2f}",
        "gpu_peer": f"{gpu['peer']['streams']['1']['path_ms']['median']:.1f}",
    }


def _readme() -> str:
    s = _speeds()
    return _table(
        ["", "this package", f"`{_PEER.replace(' ', '` ')}"],
        [
            [
                "one text, 7.5 s of speech, on two CPU cores",
                f"**{s['int8_1']} s** in int8, **{s['bfloat16_1']} s** in bfloat16, "
                f"**{s['float32_1']} s** in float32",
                f"{s['peer_1']} s",
            ],
            [
                "16 such texts together, on the same cores",
                f"**{s['int8_16']} s** in int8, **{s['bfloat16_16']} s** in bfloat16, "
                f"**{s['float32_16']} s** in float32",
                f"{s['peer_16']} s",
            ],
            [
                "first sound of a stream, on two CPU cores, in bfloat16",
                f"**{s['exact']} s**, or **{s['early']} s** with low latency",
                f"{s['peer_first']} s, in float32",
            ],
            [
                "one step of the language model on an H100",
                f"**{s['gpu_float32']} ms** in float32, **{s['gpu_bfloat16']} ms** in bfloat16",
                f"{s['gpu_peer']} ms in float32",
            ],
        ],
    )


def _readme_zh() -> str:
    s = _speeds()
    return _table(
        ["", "本项目", f"`{_PEER.replace(' ', '` ')}"],
        [
            [
                "一段文字，7.5 秒语音，两个 CPU 核心",
                f"int8 **{s['int8_1']} 秒**，bfloat16 **{s['bfloat16_1']} 秒**，"
                f"float32 **{s['float32_1']} 秒**",
                f"{s['peer_1']} 秒",
            ],
            [
                "16 段这样的文字同时合成，同样的核心",
                f"int8 **{s['int8_16']} 秒**，bfloat16 **{s['bfloat16_16']} 秒**，"
                f"float32 **{s['float32_16']} 秒**",
                f"{s['peer_16']} 秒",
            ],
            [
                "流式输出的第一段声音，两个 CPU 核心，bfloat16",
                f"**{s['exact']} 秒**，低延迟时 **{s['early']} 秒**",
                f"{s['peer_first']} 秒（float32）",
            ],
            [
                "语言模型的一步，H100",
                f"float32 **{s['gpu_float32']} 毫秒**，bfloat16 **{s['gpu_bfloat16']} 毫秒**",
                f"{s['gpu_peer']} 毫秒（float32）",
            ],
        ],
    )


_TABLES: dict[str, Callable[[], str]] = {
    "readme": _readme,
    "readme_zh": _readme_zh,
    "velocity": _velocity,
    "streaming": _streaming,
    "starts": _starts,
}


def main() -> None:
    """Write the tables into the documents."""
    for name in DOCUMENTS:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        path.write_text(with_figures(text), encoding="utf-8")


if __name__ == "__main__":
    main()
