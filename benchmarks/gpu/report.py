"""The report of ``benchmarks.gpu`` as text, and ratios between its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Found = Mapping[str, Any]
_MOST_KERNELS = 12


def table(report: Found) -> str:
    """Return the report as plain text."""
    lines = []
    for name, found in report["parts"].items():
        took = f" ({found['seconds']:.0f} s)" if "seconds" in found else ""
        lines += ["", f"== {name}{took}"]
        kind = name.partition(" ")[0]
        lines += _LINES.get(kind, _plain)(found)
        if "skipped" in found:
            lines.append(f"not done: {found['skipped']}")
        if "error" in found:
            lines.append(f"FAILED: {found['error']}")
            lines += [f"  | {line}" for line in found.get("log", "").splitlines()[-12:]]
    for what, ratio in report.get("ratios", {}).items():
        lines.append(f"{what}: {ratio:.1f}")
    return "\n".join(lines).lstrip("\n")


def ratios(report: Found) -> dict[str, float]:
    """Return how many times faster the engine is than each standard path, with one stream.

    A ratio divides the milliseconds of a whole step. It is left out unless both were measured.
    """
    parts = report["parts"]
    ours = _at(parts, "engine bfloat16", "streams", "1", "step_ms", "median")
    paths = {
        "the published package, float32": ("peer", "streams", "1"),
        "transformers' Llama with our heads, float32": (
            "standard float32",
            "streams",
            "transformers",
            "1",
        ),
        "transformers' Llama with our heads, bfloat16": (
            "standard bfloat16",
            "streams",
            "transformers",
            "1",
        ),
    }
    found = {}
    for name, place in paths.items():
        theirs = _at(parts, *place, "path_ms", "median")
        if ours and theirs:
            found[f"times faster than {name} (engine in bfloat16, one stream)"] = theirs / ours
    return found


def _at(found: Any, *place: str) -> Any:
    """Return the value at a path of keys, or ``None``."""
    for name in place:
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found


def _machine(found: Found) -> Iterator[str]:
    if "machine" not in found:
        return
    machine = found["machine"]
    yield f"{found['device']}, driver {found.get('driver', 'none')}, {machine['cpu']}"
    yield ", ".join(f"{name} {value}" for name, value in found["versions"].items())
    if "copy_gb_s" in found:
        yield f"a large copy reads and writes {found['copy_gb_s']:.0f} GB/s"


def _kernels(found: Found) -> Iterator[str]:
    checks = found.get("checks", [])
    yield f"{len(checks) - len(found.get('wrong', []))} of {len(checks)} checks are right"
    for check in checks:
        if check["name"] not in found["wrong"]:
            continue
        if "error" in check:
            yield f"  {check['name']}: error {check['error']:.2e}, allowed {check['allowed']:.0e}"
        else:
            yield f"  {check['name']}: {check['failed'].strip().splitlines()[-1]}"


def _bits(found: Found) -> Iterator[str]:
    wrong = found.get("wrong", [])
    yield f"{found.get('right', 0)} comparisons are right, {len(wrong)} are wrong"
    yield from (f"  {what}" for what in wrong)


def _expected(found: Found) -> Iterator[str]:
    for streams, own in found.get("streams", {}).items():
        yield (
            f"{streams:>4} streams: {own['ms']:.3f} ms a step, with fetches at least "
            f"{own['least_ms']:.3f}: {own['launches']} launches, "
            f"{own['instructions']} instructions one after another, {own['read_mb']:.0f} MB"
        )


def _codes(found: Found) -> Iterator[str]:
    for name, model in found.get("models", {}).items():
        yield (
            f"{name}: {model['requests']} requests, {model['frames']} frames, hiddens differ by "
            f"{model['hiddens']:.1e} (without invariance "
            f"{model['hiddens_not_batch_invariant']:.1e})"
        )
        for what, is_right in model["is_right"].items():
            yield f"  {'yes' if is_right else 'NO '}  {what}"


def _tests(found: Found) -> Iterator[str]:
    yield ", ".join(f"{count} {what}" for what, count in found.get("counts", {}).items())
    if found.get("missing"):
        missing = ", ".join(found["missing"])
        yield f"not installed: {missing}"
    yield from (f"  cannot be imported: {file}" for file in found.get("unread", []))
    yield from (f"  {line}" for line in found.get("failed", []))


def _steps(found: Found) -> Iterator[str]:
    if "record_s" in found:
        yield (
            f"loaded in {found['load_s']:.1f} s, {found['captures']} steps recorded in "
            f"{found['record_s']:.1f} s; a large copy: {found['copy_gb_s']:.0f} GB/s"
        )
    if "streams" in found:
        yield "streams  step ms expected    floor  share   frames/s  host us  reading us"
    for streams, own in found.get("streams", {}).items():
        yield (
            f"{streams:>7} {own['step_ms']['median']:8.3f} {_number(own.get('expected_ms')):>8} "
            f"{own['floor_ms']:8.3f} "
            f"{100 * own['share_of_limit']:4.0f} % {own['frames_per_s']:10.0f} "
            f"{own['host_us']['median']:8.1f} {own['read_us']:11.1f}"
            f"{'' if own['finite'] else '  NOT FINITE'}"
        )
    for rows, seconds in found.get("prompt_ms", {}).items():
        yield f"a prompt of {rows}: {seconds['median']:.2f} ms"
    apart = {
        streams: own["without_overlap_ms"]
        for streams, own in found.get("streams", {}).items()
        if "without_overlap_ms" in own
    }
    if apart:
        yield "launches without overlap: " + ", ".join(f"{n}: {ms:.3f}" for n, ms in apart.items())
    for streams, own in found.get("kernels", {}).items():
        yield f"{streams} streams: {own['launches']:.0f} kernels, busy {own['busy_us']:.0f} us"
        for kernel in own["each"][:_MOST_KERNELS]:
            yield f"  {kernel['us']:8.1f} us {kernel['calls']:6.1f} x  {kernel['name'][:70]}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _joins(found: Found) -> Iterator[str]:
    for streams, own in found.get("streams", {}).items():
        yield (
            f"{streams:>4} streams: the device waits {100 * own['waited']:.1f} % of the time (aim: "
            f"{100 * found['aim']:.0f} %), {own['joins_per_s']:.0f} joins a second, "
            f"{own['step_ms']:.3f} ms a step, {own['host_us']:.0f} us of the host"
        )


def _soak(found: Found) -> Iterator[str]:
    for name, own in found.get("ways", {}).items():
        yield (
            f"{found['requests']} requests {name}: {own['ids']} ids, {own['ended']} requests to "
            f"their end, {len(own['differ'])} are not as alone ({own['seconds']:.0f} s)"
        )


def _reload(found: Found) -> Iterator[str]:
    for own in found.get("rounds", []):
        memory = ", ".join(
            f"{name.removesuffix('_mib')} {own[name]:.0f} MiB"
            for name in ("host_mib", "allocated_mib", "taken_mib")
            if name in own
        )
        yield f"loaded in {own['load_s']:.2f} s, unloaded in {own['unload_s']:.2f} s; then {memory}"


def _text_steps(found: Found) -> Iterator[str]:
    for streams, own in found.get("streams", {}).items():
        yield (
            f"{streams:>4} streams: {own['step_ms']['median']:.3f} ms a step of text"
            f"{'' if own['finite'] else '  NOT FINITE'}"
        )


def _results(found: Found) -> Iterator[str]:
    for streams, own in found.get("streams", {}).items():
        cells = ", ".join(f"{name} {spread['median']:.3f}" for name, spread in own.items())
        yield f"{streams:>4} streams, ms a step by the place of its results: {cells}"


def _prefetch(found: Found) -> Iterator[str]:
    for streams, own in found.get("streams", {}).items():
        cells = "; ".join(f"{way}: {min(each):.3f}" for way, each in own.items() if each)
        yield f"{streams:>4} streams, ms a step by what is fetched, {cells}"
    for each in found.get("differ", ()):
        yield f"OTHER BITS: {each}"


def _sanitizer(found: Found) -> Iterator[str]:
    if "errors" in found:
        yield f"{'no summary' if found['errors'] is None else found['errors']} errors"
    yield from (f"  {line}" for line in found.get("kinds", []))


def _beside(found: Found) -> Iterator[str]:
    streams = {"nothing": found["alone"]} if "alone" in found else {}
    for name, own in (streams | found.get("beside", {})).items():
        yield (
            f"a stream beside {name}: silent {own['silent_ms']:.0f} ms, longest gap "
            f"{own['gap_ms']:.0f} ms, samples differ by {own['difference']:.1e}"
        )
        if "failed" in own:
            yield f"  {own['failed']}"


def _engine(found: Found) -> Iterator[str]:
    times = {
        "imports": "import_s",
        "loading": "load_s",
        "pools and recording": "cache_s",
        "first request": "first_request_s",
        "recording behind it": "behind_s",
    }
    yield ", ".join(f"{what} {found[key]:.2f} s" for what, key in times.items() if key in found)
    if "streams" in found:
        yield "streams   frames/s  step ms  first frame ms  host us"
    for streams, own in found.get("streams", {}).items():
        cells = {name: spread["median"] for name, spread in own.items()}
        yield (
            f"{streams:>7} {cells['frames_per_s']:10.0f} {cells['step_ms']:8.3f} "
            f"{cells['first_frame_ms']:15.2f} {cells['host_us']:8.1f}"
        )


def _products(found: Found) -> Iterator[str]:
    if "rows" in found:
        yield "us: kernel / library / bare product; all four of a layer"
    for rows, own in found.get("rows", {}).items():
        cells = [
            f"{name} {us['kernel']:.1f} / {us['library']:.1f} / {us['bare']:.1f}"
            for name, us in own["us"].items()
        ]
        layer = own["layer_us"]
        cells.append(f"layer {layer['kernel']:.1f} / {layer['library']:.1f}")
        yield f"{rows:>4} rows  " + "  ".join(cells)
    if "kernel_wins_up_to" in found:
        yield (
            f"the kernel is not slower up to {found['kernel_wins_up_to']} rows; SKINNY_ROWS is "
            f"{found['skinny_rows']}"
        )


def _adapters(found: Found) -> Iterator[str]:
    for what, is_right in found.get("is_right", {}).items():
        yield f"  {'yes' if is_right else 'NO '}  {what}"
    for streams, own in found.get("streams", {}).items():
        cells = ", ".join(f"{name} {ms['median']:.3f}" for name, ms in own.items())
        yield f"{streams:>4} streams, ms a step with adapters of rank {found['rank']}: {cells}"
    for name, own in found.get("prompt_ms", {}).items():
        cells = ", ".join(f"{rows}: {ms['median']:.2f}" for rows, ms in own.items())
        yield f"ms of a prompt, {name}: {cells}"


def _attention(found: Found) -> Iterator[str]:
    for streams, own in found.get("streams", {}).items():
        yield f"{streams:>4} streams: {own['us']:.1f} us a layer, {own['gb_s']:.0f} GB/s"


def _standard(found: Found) -> Iterator[str]:
    for name, results in found.get("streams", {}).items():
        for streams, own in results.items():
            cells = [f"{what} {spread['median']:.2f}" for what, spread in own.items()]
            yield f"{name}, {streams} streams: {', '.join(cells)}"


def _peer(found: Found) -> Iterator[str]:
    if "versions" in found:
        yield ", ".join(f"{name} {value}" for name, value in found["versions"].items())
    for streams, own in found.get("streams", {}).items():
        yield f"{streams} streams: {own['path_ms']['median']:.2f} ms a step"


def _sound(found: Found) -> Iterator[str]:
    for way, spread in found.get("first_sound_ms", {}).items():
        yield f"first sound, {way}: {spread['median']:.1f} ms ({spread['max']:.1f} at most)"
    for streams, own in found.get("streams", {}).items():
        yield f"{streams} texts: {own['infer_s']['median']:.2f} s, RTF {own['rtf']:.4f}"


def _plain(found: Found) -> Iterator[str]:
    yield from (f"{name}: {value}" for name, value in found.items() if name not in _SHOWN)


_SHOWN = ("seconds", "skipped", "error", "log")
# By the first word of a part's name.
_LINES: dict[str, Callable[[Found], Iterator[str]]] = {
    "machine": _machine,
    "kernels": _kernels,
    "codes": _codes,
    "tests": _tests,
    "steps": _steps,
    "engine": _engine,
    "first": _engine,
    "products": _products,
    "bits": _bits,
    "expected": _expected,
    "soak": _soak,
    "reload": _reload,
    "text": _text_steps,
    "results": _results,
    "prefetch": _prefetch,
    "memcheck": _sanitizer,
    "initcheck": _sanitizer,
    "joins": _joins,
    "beside": _beside,
    "attention": _attention,
    "adapters": _adapters,
    "standard": _standard,
    "peer": _peer,
    "sound": _sound,
}
