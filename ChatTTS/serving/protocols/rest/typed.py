"""``GET /tts`` in the address line of a browser, where the browser does not say who asks.

To an address without TLS other than this machine's, browsers send the same headers for an address
that the user typed and for one that a foreign page opened. So nothing is spoken at once: a page
shows the text, and its button asks again. That request names the page as its referrer, which no
foreign page can.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import ForeignPageError
from ...http.origins import OriginPolicy

_PATH = "/tts"
_LONGEST = 2000  # characters of a value that are shown
_HEADERS = {
    # Nothing may load or frame it: a foreign page could otherwise lead the user's click.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # the button's request must name this page
    "Cache-Control": "no-store",
}
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Speak this text?</title>
<style>
:root {{ color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }}
body {{ max-width: 40rem; margin: 3rem auto; padding: 0 1rem }}
blockquote {{ margin: 1rem 0; padding-left: 1rem; border-left: 3px solid; overflow-wrap: anywhere }}
button {{ font: inherit; padding: .5rem 1.5rem }}
</style>
<main>
<h1>Speak this text?</h1>
<blockquote>{text}</blockquote>
<form action="{path}">{fields}<button>Speak</button></form>
<p>Your browser does not say whether you opened this address or a page of another host did, since
the address is neither https nor this machine. So the server asks.</p>
<p><a href="/">The server's page</a> speaks texts, too. Programs, such as curl, are not asked.</p>
</main>
</html>
"""


class TypedAddressMiddleware:
    """ASGI layer that answers such requests with the page.

    Args:
        app: the next layer.
        origins: tells them from those of pages and programs.
    """

    def __init__(self, app: ASGIApp, origins: OriginPolicy) -> None:
        self._app, self._origins = app, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        is_speech = scope["type"] == "http" and scope["path"] == _PATH and scope["method"] == "GET"
        if is_speech and self._asks(headers := Headers(scope=scope)):
            self._origins.check_name(headers)
            scope["state"]["refusal"] = ForeignPageError("the user must confirm this address")
            query = QueryParams(scope["query_string"])
            page = _page(query)
            await Response(page, 403, _HEADERS, "text/html")(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _asks(self, headers: Mapping[str, str]) -> bool:
        """Return whether a browser opens a page, and does not say on whose behalf."""
        return self._origins.is_silent_browser(headers) and "text/html" in headers.get("accept", "")


def _page(query: Mapping[str, str]) -> str:
    fields = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
        for name, value in query.items()
    )
    text = query.get("text", "")
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return _PAGE.format(path=_PATH, text=escape(shown), fields=fields)
