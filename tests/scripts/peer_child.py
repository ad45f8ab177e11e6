"""One script of the published repository, on this package, without a network and a download.

A child of ``peer_scripts``: ``python peer_child.py run SCRIPT ARGUMENT...`` runs a script as Python
does, ``python peer_child.py serve SCRIPT PORT`` the FastAPI application in it.
"""

from __future__ import annotations

import importlib.util
import runpy
import shutil
import socket
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ChatTTS.checkpoints import assets


def keep_off_the_network() -> None:
    """Let sockets reach this machine alone."""
    connect = socket.socket.connect

    def connect_nearby(self: socket.socket, address: Any) -> None:
        inet = self.family in (socket.AF_INET, socket.AF_INET6)
        if inet and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"the script tried to connect to {address[0]}")
        connect(self, address)

    socket.socket.connect = connect_nearby  # type: ignore[assignment,method-assign]


def take_the_bundled_voice() -> None:
    """Replace the download of the published checkpoint by the bundled voice."""
    locate = assets.locate

    def found(
        source: str = "local", custom_path: Any = None, force_redownload: bool = False
    ) -> Any:
        if source == "custom":
            return locate(source, custom_path)
        return locate("bundled")

    assets.locate = found


# ------------------------------------------------- packages that the scripts import beside ChatTTS


def unchanged(text: str, **_: Any) -> str:
    return text


class TextPackage:
    """A normalizer that leaves every text as it is."""

    def __init__(self, **_: Any) -> None:
        self.normalize = unchanged


class Speaker:
    """An audio output that plays nothing."""

    def __init__(self, **_: Any) -> None:
        self.heard = 0

    def get_device_count(self) -> int:
        return 1

    def open(self, **_: Any) -> Speaker:
        return self

    def write(self, data: bytes) -> None:
        self.heard += len(data)

    def stop_stream(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        print(f"heard {self.heard} bytes")


def as_it_is(**_: Any) -> Callable[[Any], Any]:
    return lambda function: function


# Packages that are not installed are replaced by these few names.
STAND_INS: dict[str, dict[str, Any]] = {
    "numba": {"jit": as_it_is},
    "pydub": {},
    "pydub.utils": {"which": shutil.which},
    "pyaudio": {"PyAudio": Speaker, "paInt16": 8},
    "nemo_text_processing": {},
    "nemo_text_processing.text_normalization": {},
    "nemo_text_processing.text_normalization.normalize": {"Normalizer": TextPackage},
    "tn": {},
    "tn.chinese": {},
    "tn.chinese.normalizer": {"Normalizer": TextPackage},
}


def stand_in_for_packages() -> None:
    missing = {top for top in STAND_INS if "." not in top and not importlib.util.find_spec(top)}
    for name, values in STAND_INS.items():
        if name.partition(".")[0] in missing:
            module = types.ModuleType(name)
            vars(module).update(values, __path__=[])
            sys.modules[name] = module


def main() -> None:
    how, script, *arguments = sys.argv[1:]
    keep_off_the_network()
    take_the_bundled_voice()
    stand_in_for_packages()
    sys.path[0] = str(Path(script).resolve().parent)
    sys.argv = [script, *arguments]
    if how == "run":
        runpy.run_path(script, run_name="__main__")
        return
    import uvicorn

    app = runpy.run_path(script, run_name="application")["app"]
    uvicorn.run(app, host="127.0.0.1", port=int(arguments[0]), log_level="warning")


main()
