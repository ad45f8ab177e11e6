"""A server in a process of its own that tells the longest gap of its event loop.

It prints the address of the server as JSON, and for each line of standard input, as JSON too, the
longest gap in seconds and the imported modules since the line before. A client in the same process
would hold Python's lock, and import modules, itself.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from ChatTTS.serving.observe.loop_lag import quick_turns, watch_loop
from ChatTTS.utils.garbage import unwatched

from .server_tools import whole_server


def main() -> None:
    with (
        whole_server(brief=False, **json.loads(sys.argv[1])) as server,
        unwatched(),
        quick_turns(),
    ):
        longest = 0.0

        def note(lag: float) -> None:
            nonlocal longest
            longest = max(longest, lag)

        async def watch() -> asyncio.Task[None]:
            return asyncio.create_task(watch_loop(note))

        task = server.run(watch())
        told: dict[str, Any] = {"url": server.url, "grpc": server.grpc_address}
        print(json.dumps(told | {"wyoming": server.wyoming_port}), flush=True)
        modules = {*sys.modules}
        for _ in sys.stdin:
            imported = sorted({*sys.modules} - modules)
            print(json.dumps({"gap": longest, "imported": imported}), flush=True)
            longest = 0.0
            modules.update(imported)
        server.call(task.cancel)


if __name__ == "__main__":
    main()
