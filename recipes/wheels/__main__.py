"""Make wheels into ``dist``, or put this system's kernels into the checkout (``--here``)."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from ChatTTS.model.kernels.cpu import prebuilt

from .kernels import TARGETS, Target, compile_kernels
from .packing import pack, plain_wheel

ROOT = Path(__file__).parents[2]


def main() -> None:
    names = [target.system for target in TARGETS]
    parser = argparse.ArgumentParser(prog="python -m recipes.wheels", description=__doc__)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"{', '.join(names)}; or all")
    parser.add_argument("--here", action="store_true", help="put kernels into this checkout")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist", help="of the wheels")
    options = parser.parse_args()
    systems = [prebuilt.system()] if options.here else options.systems or names
    if unknown := set(systems) - set(names):
        parser.error(f"no kernels are made for {', '.join(sorted(unknown))}, only {names}")
    targets = [target for target in TARGETS if target.system in systems]
    with tempfile.TemporaryDirectory() as work:
        if options.here:
            shutil.rmtree(prebuilt.FOLDER, ignore_errors=True)
            shutil.copytree(_kernels(targets[0], Path(work)), prebuilt.FOLDER)
            return
        plain = plain_wheel(ROOT, Path(work))
        for target in targets:
            pack(plain, target, _kernels(target, Path(work)), options.output)


def _kernels(target: Target, work: Path) -> Path:
    folder = work / target.system
    for made in compile_kernels(target, folder):
        print(f"{target.system}: {made.name}, {made.stat().st_size / 1e6:.2f} MB", flush=True)
    return folder


if __name__ == "__main__":
    main()
