"""The lists that ElevenLabs' clients ask for: voices, models and the user."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ....languages import language_name
from ...http.bodies import whole_number
from ...speech.service import SpeechService
from ...speech.voices import VoiceInfo

_MODEL = "chattts"
_PAGE, _MAX_PAGE = 10, 100
# Of a voice that requests do not change. Only the tempo has a meaning here.
_SETTINGS = {
    "stability": 0.5,
    "similarity_boost": 0.75,
    "style": 0.0,
    "use_speaker_boost": True,
    "speed": 1.0,
}


def catalogue_routes(service: SpeechService) -> list[Route]:
    """Return the routes of the lists."""

    async def voices(request: Request) -> Response:
        found = await service.in_thread(service.voices.list)
        return JSONResponse({"voices": [_voice(info) for info in found]})

    async def searched_voices(request: Request) -> Response:
        query = request.query_params
        found = await service.in_thread(service.voices.list)
        wanted = set(query.getlist("voice_ids"))
        if wanted:
            found = [info for info in found if info.id in wanted]
        search = query.get("search", "").lower()
        found = [info for info in found if search in info.id.lower()]
        asked = whole_number(query.get("page_size"))
        size = min(max(_PAGE if asked is None else asked, 1), _MAX_PAGE)
        first = whole_number(query.get("next_page_token")) or 0
        page, following = found[first : first + size], first + size
        has_more = following < len(found)
        return JSONResponse(
            {
                "voices": [_voice(info) for info in page],
                "has_more": has_more,
                "total_count": len(found),
                "next_page_token": str(following) if has_more else None,
            }
        )

    async def one_voice(request: Request) -> Response:
        name = request.path_params["voice"]
        listed = partial(service.voices.listed, name, address="/v1/voices", param="voice_id")
        return JSONResponse(_voice(await service.in_thread(listed)))

    async def settings(request: Request) -> Response:
        return JSONResponse(_SETTINGS)

    async def models(request: Request) -> Response:
        return JSONResponse([_model(service)])

    async def user(request: Request) -> Response:
        return JSONResponse(
            {
                "user_id": request.state.client,
                "workspace_id": "self-hosted",
                "seat_type": "workspace_member",
                "subscription": _subscription(service),
                "is_new_user": False,
                "can_use_delayed_payment_methods": False,
                "is_onboarding_completed": True,
                "is_onboarding_checklist_completed": True,
                "created_at": 0,
            }
        )

    async def subscription(request: Request) -> Response:
        return JSONResponse(_subscription(service))

    return [
        Route("/v1/voices", voices),
        Route("/v2/voices", searched_voices),
        Route("/v1/voices/settings/default", settings),
        Route("/v1/voices/{voice}", one_voice),
        Route("/v1/voices/{voice}/settings", settings),
        Route("/v1/models", models),
        Route("/v1/user", user),
        Route("/v1/user/subscription", subscription),
    ]


def _voice(info: VoiceInfo) -> dict[str, Any]:
    return {
        "voice_id": info.id,
        "name": info.id,
        "category": "cloned" if info.uploaded else "premade",
        "labels": {} if info.language is None else {"language": info.language},
        "description": None,
        "preview_url": None,
        "samples": [],
        "settings": _SETTINGS,
        "available_for_tiers": [],
        "high_quality_base_model_ids": [_MODEL],
    }


def _model(service: SpeechService) -> dict[str, Any]:
    own = service.model.config.defaults.language
    languages = service.model.languages if own is None else (own,)
    most = service.settings.limits.characters
    return {
        "model_id": _MODEL,
        "name": "ChatTTS",
        "description": "The model of this server, which takes any model_id.",
        "can_do_text_to_speech": True,
        "can_do_voice_conversion": False,
        "can_be_finetuned": False,
        "can_use_style": False,
        "can_use_speaker_boost": False,
        "serves_pro_voices": False,
        "token_cost_factor": 0.0,
        "requires_alpha_access": False,
        "max_characters_request_free_user": most,
        "max_characters_request_subscribed_user": most,
        "maximum_text_length_per_request": most,
        "languages": [{"language_id": code, "name": language_name(code)} for code in languages],
    }


def _subscription(service: SpeechService) -> dict[str, Any]:
    """Return a subscription without an account: nothing is counted, and nothing runs out."""
    limits = service.settings.limits
    return {
        "tier": "self-hosted",
        "status": "active",
        "character_count": 0,
        "character_limit": 2**31 - 1,
        "max_credit_limit_extension": 0,
        "can_extend_character_limit": False,
        "allowed_to_extend_character_limit": False,
        "current_overage": {"amount": "0", "currency": "usd"},
        "voice_slots_used": 0,
        "voice_limit": limits.voices,
        "voice_add_edit_counter": 0,
        "professional_voice_slots_used": 0,
        "professional_voice_slots_used_in_workspace": 0,
        "professional_voice_limit": 0,
        "can_extend_voice_limit": False,
        "can_use_instant_voice_cloning": False,
        "can_use_professional_voice_cloning": False,
        "open_invoices": [],
        "has_open_invoices": False,
    }
