"""The metrics of the server, by their own names and by vLLM's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ..support.serving_tools import running_server


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running_server() as server, httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"model": "tts-1", "input": "Hello there.", "response_format": "pcm", **fields}
    return client.post("/v1/audio/speech", json=body)


def figures(client: httpx.Client) -> dict[str, float]:
    """Return the sum of the samples of each name."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0) + sample.value
    return sums


def test_metrics(client: httpx.Client) -> None:
    before = figures(client)
    ask(client)
    ask(client, voice="nobody")
    ask(client, speed=9)
    after = figures(client)
    assert after["chattts_requests_total"] == before["chattts_requests_total"] + 1
    assert after["chattts_refused_total"] == before.get("chattts_refused_total", 0) + 2
    assert after["chattts_audio_seconds_total"] > before["chattts_audio_seconds_total"]
    assert after["chattts_running"] == 0
    for name in ("queue", "time_to_first_audio", "latency"):
        counted = f"chattts_{name}_seconds_count"
        assert after[counted] == before[counted] + 1, name
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert after[f"vllm:{name}"] == 0


@pytest.mark.slow
def test_the_shape_of_the_cache_is_told_as_vllm_tells_it(client: httpx.Client) -> None:
    text = client.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    (sample,) = families["vllm:cache_config_info"].samples
    told = figures(client)
    assert sample.value == 1
    assert sample.labels == {
        "block_size": f"{told['chattts_kv_block_positions']:.0f}",
        "num_gpu_blocks": f"{told['chattts_kv_blocks']:.0f}",
    }
    assert told["chattts_kv_block_positions"] > 1
