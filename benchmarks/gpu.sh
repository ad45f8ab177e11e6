#!/usr/bin/env bash
# Check the CUDA code on a GPU and time it, within 10 minutes and without a network.
#
#     benchmarks/gpu.sh [FOLDER_OF_WHEELS] [ARGUMENTS OF python -m benchmarks.gpu]
#
# Missing packages whose wheels lie in the folder are installed into a temporary folder; installed
# packages are not changed. The JSON goes to ${OUT:-benchmarks/results}.
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

# Install one wheel at a time, so that a wheel for another machine does not stop the others.
install() {  # target, wheel
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir \
        --disable-pip-version-check --find-links "$wheels" --target "$1" "$2" ||
        { echo "not installed: $2" >&2; return 1; }
}

# The name of a wheel begins with the distribution's name and a dash.
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
            # Kept apart, because the published package and ours are both imported as ChatTTS.
            chattts) install "$work/peer" "$wheel" &&
                export CHATTTS_PEER_SITE=$work/peer || true ;;
            torch | triton | nvidia_* | chattts_velocity) ;;
            *) is_installed "$name" || install "$work/site" "$wheel" || true ;;
        esac
    done
    export PYTHONPATH=$work/site${PYTHONPATH:+:$PYTHONPATH}
fi

# The module is taken from this checkout, and not from another one that the caller may stand in.
export PYTHONUNBUFFERED=1 PYTHONSAFEPATH=1
export PYTHONPATH=${here%/*}${PYTHONPATH:+:$PYTHONPATH}
"$python" -m benchmarks.gpu --seconds $((585 - SECONDS)) --out "${OUT:-$here/results}" "$@"
