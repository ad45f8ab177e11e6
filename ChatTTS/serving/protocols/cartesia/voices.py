"""``/voices``: the list of voices in Cartesia's form."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...http.bodies import whole_number
from ...speech.service import SpeechService
from ...speech.voices import VoiceInfo

_PAGE, _MAX_PAGE = 10, 100
_CREATED = "1970-01-01T00:00:00Z"  # clients parse it; the true date is not known


def voice_routes(service: SpeechService) -> list[Route]:
    """Return the routes of the voices."""

    async def listed(request: Request) -> Response:
        query = request.query_params
        found = await service.in_thread(service.voices.list)
        search = query.get("q", "").lower()
        found = [info for info in found if search in info.id.lower()]
        names = [info.id for info in found]
        after, before = query.get("starting_after"), query.get("ending_before")
        asked = whole_number(query.get("limit"))
        size = _PAGE if asked is None else min(max(asked, 1), _MAX_PAGE)
        if before in names:
            end = names.index(before)
            begin = max(0, end - size)
            has_more = begin > 0
        else:
            begin = names.index(after) + 1 if after in names else 0
            end = begin + size
            has_more = end < len(found)
        page = [_voice(info) for info in found[begin:end]]
        return JSONResponse({"data": page, "has_more": has_more})

    async def one(request: Request) -> Response:
        name = request.path_params["voice"]
        listed = partial(service.voices.listed, name, address="/voices", param="id")
        return JSONResponse(_voice(await service.in_thread(listed)))

    return [Route("/voices", listed), Route("/voices/{voice}", one)]


def _voice(info: VoiceInfo) -> dict[str, Any]:
    language = info.language or "en"
    return {
        "id": info.id,
        "name": info.id,
        "description": "",
        "tagline": "",
        "language": language,
        "locales": [{"locale": language, "is_native": True}],
        "access": "public",
        "visibility": "all",
        "is_public": True,
        "is_owner": info.uploaded,
        "created_at": _CREATED,
    }
