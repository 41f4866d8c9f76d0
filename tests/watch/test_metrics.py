"""The same figures for Prometheus, scraped over HTTP."""

import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from draftmill.errors import UsageFault
from draftmill.journal.folder import RunFolder
from draftmill.watch.metrics import Server, serve
from draftmill.watch.stats import RunWatch
from tests.watch.folders import NOW, append, begin, completion, done, event, failure, load


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = begin(tmp_path, {"name": "d", "budget": 100}, {"name": "e"})
    append(made.events, event(NOW - 100, "milling"))
    for step in range(10):
        append(made.load, done(NOW - 100 + 10 * step, d=(step, 0, 50 * step, 0), e=(0, 0, 0, 0)))
        append(made.load, load(NOW - 100 + 10 * step, kv_used=9, kv_total=10, queued=4, generation_rate=7.5))
    append(made.dataset("d").journal, completion(0, 20), completion(1, 30, finish_reason="length"), b"what\n")
    append(made.dataset("d").errors, failure(2))
    return made


@pytest.fixture
def server(folder: RunFolder) -> Iterator[Server]:
    made = serve(RunWatch(folder.path, now=lambda: NOW), 0)
    yield made
    made.close()


def scraped(server: Server) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as reply:
        text = reply.read().decode()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def test_scraped(server: Server, folder: RunFolder) -> None:
    found = scraped(server)
    assert found["draftmill_run_phase", "running"] == 1 and found["draftmill_run_phase", "paused"] == 0
    assert found["draftmill_prompts", "d", "counting"] == 2 and found["draftmill_prompts", "d", "owed"] == 7
    assert found["draftmill_prompts", "d", "errors"] == 1 and found["draftmill_prompts", "e", "owed"] == 10
    assert found["draftmill_generated_tokens_total", "d"] == 50 and found["draftmill_budget_tokens", "d"] == 100
    assert found["draftmill_answers_total", "d", "length"] == 1 and found["draftmill_errors_total", "d", "prompt"] == 1
    assert found["draftmill_tokens_per_second", "d", "start"] == 5
    assert found["draftmill_engine_kv_use", "http://e"] == 0.9 and found["draftmill_engine_up", "http://e"] == 1
    assert found["draftmill_lines_not_understood", "d/raw_responses.jsonl"] == 1
    findings = [key for key in found if key[0] == "draftmill_finding"]
    assert sorted(verdict for key in findings for verdict in key if verdict in ("KV-bound", "not understood")) == [
        "KV-bound",
        "not understood",
    ]
    assert ("draftmill_budget_tokens", "e") not in found, "what is not known is left out, not zero"
    append(folder.dataset("d").journal, completion(3, 5))
    assert scraped(server)["draftmill_generated_tokens_total", "d"] == 55


def test_nobody_outside_is_answered(server: Server) -> None:
    for address in {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}:
        if not str(address).startswith("127."):
            with pytest.raises(OSError):
                socket.create_connection((str(address), server.port), timeout=2)


def test_a_port_that_is_taken(server: Server, folder: RunFolder) -> None:
    with pytest.raises(UsageFault, match="cannot be listened on"):
        serve(RunWatch(folder.path), server.port)
