"""Call the tools of `chattts mcp` by the official client, as programs with language models do.

pip install mcp
python examples/api/mcp_client.py "Good morning." --out morning.mp3

chattts mcp --http
python examples/api/mcp_client.py "Good morning." --url http://127.0.0.1:8765/mcp

Without --url it starts `chattts mcp` itself, and talks to it over its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp_types import AudioContent, TextContent


async def run(args: argparse.Namespace) -> bool:
    """Return whether all went well."""
    own = StdioServerParameters(command=args.command, args=["mcp"])
    async with Client(args.url or own) as client:
        if args.tools:
            for tool in (await client.list_tools()).tools:
                print(f"{tool.name}: {tool.description}")
            return True
        wishes = {"voice": args.voice, "seed": args.seed}
        given = {name: value for name, value in wishes.items() if value is not None}
        answer = await client.call_tool("speak", {"text": args.text, **given})
        for part in answer.content:
            if isinstance(part, TextContent):  # an error, or what a tool tells beside its result
                print(part.text)
            elif isinstance(part, AudioContent):
                sound = base64.b64decode(part.data)
                Path(args.out).write_bytes(sound)
                print(f"{args.out}: {len(sound)} bytes of {part.mime_type}")
        return not answer.is_error


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Speak with the tools that a server offers.")
    parser.add_argument("text", nargs="?", default="Good morning.")
    parser.add_argument("--url", help="of a server with --http, such as http://127.0.0.1:8765/mcp")
    parser.add_argument(
        "--command", default="chattts", help="that is started (default %(default)s)"
    )
    parser.add_argument("--out", default="mcp.mp3", help="an .mp3 file")
    parser.add_argument("--voice", help="a name of the tool list_voices")
    parser.add_argument("--seed", type=int, help="the same seed, the same sound")
    parser.add_argument("--tools", action="store_true", help="list the tools, and speak nothing")
    if not asyncio.run(run(parser.parse_args(argv))):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
