"""The origin policy: which web pages may use the server."""

from __future__ import annotations

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from ChatTTS.serving.errors import ForeignPageError
from ChatTTS.serving.http.origins import OriginPolicy
from ChatTTS.serving.settings import Settings

from ..support.server_tools import whole_server

OWN, FOREIGN = "https://own.example", "https://evil.example"
BROWSER = {"user-agent": "Mozilla/5.0 (X11; Linux) Firefox/153", "accept-language": "en"}


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LocalHost"]
)
def test_the_server_knows_its_names(host: str) -> None:
    OriginPolicy(Settings()).check_name({"host": host})
    OriginPolicy(Settings(host="127.0.1.1")).check_name({"host": "127.0.1.1:8000"})


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example:8000"}, {"host": "127.0.0.1.evil"}, {"host": "[::1"}, {}],
)
def test_a_foreign_host_name_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ForeignPageError, match="--name"):
        OriginPolicy(Settings()).check_name(headers)
    with pytest.raises(ForeignPageError):
        OriginPolicy(Settings(host="127.0.1.1")).check_name(headers)


@pytest.mark.parametrize(
    "settings",
    [Settings(names=("evil.example",)), Settings(api_keys=("k",)), Settings(host="0.0.0.0")],
)
def test_programs_may_use_any_host_name_with_keys_or_on_a_network(settings: Settings) -> None:
    OriginPolicy(settings).check_name({"host": "evil.example"})


@pytest.mark.parametrize("own", [{"sec-fetch-site": "same-origin"}, {"origin": FOREIGN}, BROWSER])
def test_a_page_cannot_rebind_its_name_to_a_server_on_a_network(own: dict[str, str]) -> None:
    network = OriginPolicy(Settings(host="0.0.0.0", names=("speech.example",)))
    with pytest.raises(ForeignPageError, match="--name"):
        network.check_name({"host": "evil.example:8000", **own})
    for name in ("192.168.1.5:8000", "[fd00::1]:8000", "nas:8000", "nas.local", "speech.example"):
        network.check_name({"host": name, **own})


FOREIGN_PAGES = [
    {"sec-fetch-site": "cross-site", "origin": FOREIGN},
    {"sec-fetch-site": "same-site", "origin": "http://localhost:3000"},  # a sibling host or port
    {"sec-fetch-site": "same-site"},  # <audio src>
    {"origin": FOREIGN},  # no site is sent to addresses without TLS
    {"origin": "null"},
    {"origin": "http://localhost:9"},
    {"origin": "http://[x"},
    {"referer": f"{FOREIGN}/page", **BROWSER},  # <audio src>
    BROWSER,  # likewise, with referrerpolicy="no-referrer"
]
OWN_REQUESTS = [
    {},  # a program
    {"user-agent": "Mozilla/5.0 (Windows NT) PowerShell/7.4"},
    {"accept-language": "*", "sec-fetch-mode": "cors", "user-agent": "node"},
    {"sec-fetch-site": "same-origin", "origin": "http://localhost:8000", **BROWSER},
    {"sec-fetch-site": "none", **BROWSER},  # typed by the user
    {"origin": "http://localhost:8000", **BROWSER},
    {"referer": "http://localhost:8000/", **BROWSER},
    {"sec-fetch-site": "cross-site", "origin": OWN},
    {"sec-fetch-site": "cross-site", "referer": f"{OWN}/page"},
]


@pytest.mark.parametrize("headers", FOREIGN_PAGES)
def test_pages_of_other_hosts_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ForeignPageError, match="origin"):
        OriginPolicy(Settings(cors_origins=(OWN,))).check_page({"host": "localhost:8000"} | headers)
    OriginPolicy(Settings(cors_origins=("*",))).check_page({"host": "localhost:8000"} | headers)


@pytest.mark.parametrize("headers", OWN_REQUESTS)
def test_own_pages_and_programs_are_not(headers: dict[str, str]) -> None:
    OriginPolicy(Settings(cors_origins=(OWN,))).check_page({"host": "localhost:8000"} | headers)


KEYED = ("/tts?text=a", "/v1/audio/speech", "/v1/audio/voices", "/v1/audio/scripts", "/v1/speak",
         "/v1/text-to-speech/a", "/tts/bytes", "/v1/realtime/synthesis_sessions")  # fmt: skip


def test_every_route_and_socket_has_this_rule() -> None:
    with whole_server() as server, httpx.Client(base_url=server.url) as client:
        for method in ("GET", "POST", "DELETE"):
            for path in KEYED:
                for headers in FOREIGN_PAGES:
                    answer = client.request(method, path, headers=headers)
                    assert answer.status_code == 403, (method, path, headers, answer.text)
        for path in ("/v1/audio/speech/stream", "/v1/realtime", "/v1/speak"):
            for headers in FOREIGN_PAGES:
                with pytest.raises(InvalidStatus) as refused:
                    connect(f"ws://{server.address}{path}", additional_headers=headers,
                            user_agent_header=None)  # fmt: skip
                assert refused.value.response.status_code == 403, (path, headers)
