#!/usr/bin/env bash
# Check the CUDA code on a GPU and time it, within 8 minutes and without a network.
#
#     benchmarks/gpu.sh [FOLDER_OF_WHEELS] [ARGUMENTS OF gpu.py]
#
# What is missing and lies in the folder as a wheel is installed into a temporary folder; nothing
# that is installed is changed. The JSON goes to ${OUT:-benchmarks/results}.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wheels=
if [[ $# -gt 0 && $1 != -* ]]; then
    wheels=$1
    shift
    [[ -d $wheels ]] || { echo "there is no folder $wheels" >&2; exit 2; }
fi

# One at a time, so that a wheel for another machine does not keep the others out.
install() {  # target, wheel
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir \
        --disable-pip-version-check --find-links "$wheels" --target "$1" "$2" ||
        { echo "not installed: $2" >&2; return 1; }
}

# A wheel is named after its distribution, whose version follows a dash.
is_installed() {
    "$python" -c 'import importlib.metadata, sys; importlib.metadata.version(sys.argv[1])' \
        "$1" >/dev/null 2>&1
}

if [[ -n $wheels ]]; then
    for wheel in "$wheels"/*.whl; do
        [[ -e $wheel ]] || continue
        name=$(basename "$wheel")
        name=${name%%-*}
        case ${name,,} in
            # The published package is imported by the same name as ours: it is kept apart.
            chattts) install "$work/peer" "$wheel" &&
                export CHATTTS_PEER_SITE=$work/peer || true ;;
            torch | triton | nvidia_* | chattts_velocity) ;;
            *) is_installed "$name" || install "$work/site" "$wheel" || true ;;
        esac
    done
    export PYTHONPATH=$work/site${PYTHONPATH:+:$PYTHONPATH}
fi

export PYTHONUNBUFFERED=1
"$python" "$here/gpu.py" --seconds $((465 - SECONDS)) --out "${OUT:-$here/results}" "$@"
