"""The page in a headless Chromium, before a stand-in for the server that its tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # optional packages are imported by the fixtures alone
    from playwright.sync_api import Browser, BrowserContext, Page

    from ...support.page_stand_in import StandIn


# Not for the session: while Playwright runs, no other test of the process can start an event loop.
@pytest.fixture(scope="package")
def running() -> Iterator[StandIn]:
    from ...support.page_browser import running_stand_in

    with running_stand_in() as stand_in:
        yield stand_in


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    from ...support.page_browser import CHROMIUM, chromium

    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with chromium() as browser:
        yield browser


@pytest.fixture
def server(running: StandIn) -> StandIn:
    running.reset()
    return running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    from ...support.page_browser import new_context

    with new_context(browser) as context:
        yield context


@pytest.fixture
def page(server: StandIn, context: BrowserContext) -> Iterator[Page]:
    from ...support.page_browser import opened_page

    with opened_page(server, context) as page:
        yield page
