"""A whole run against a real SGLang or vLLM server; ``scripts/engines/test_engines.sh`` starts it.

A proxy between the two keeps the server's own replies, so that the journal can be held against them id for id.
"""

import asyncio
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiohttp import web

from tests.cli.command import command, draftmill, environment, questions, read_jsonl, write_jsonl, write_recipe

pytestmark = pytest.mark.engine

EOS = 2
URLS = ("DRAFTMILL_VLLM_URL", "DRAFTMILL_SGLANG_URL")


class Proxy(NamedTuple):
    url: str
    server: str
    replies: list[tuple[list[int], list[int]]]  # prompt ids sent, output ids of the raw reply


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Forwards everything to the server and keeps the generations."""
    server = next(os.environ[name] for name in URLS if name in os.environ)
    replies: list[tuple[list[int], list[int]]] = []
    ready, port = threading.Event(), [0]

    async def forward(request: web.Request) -> web.Response:
        body = await request.read()
        headers = {"Content-Type": request.content_type}
        async with aiohttp.request(request.method, f"{server}{request.path_qs}", data=body, headers=headers) as reply:
            said = await reply.read()
        if request.method == "POST" and request.path in ("/generate", "/v1/completions"):
            sent = json.loads(body)
            if not sent.keys() & {"return_logprob", "prompt_logprobs"}:  # else the engine is only heard
                replies.append(_ids(sent, json.loads(said)))
        return web.Response(status=reply.status, body=said, content_type=reply.content_type)

    async def serve() -> None:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port[0] = runner.addresses[0][1]
        ready.set()

    loop = asyncio.new_event_loop()
    threading.Thread(target=lambda: (loop.create_task(serve()), loop.run_forever()), daemon=True).start()
    assert ready.wait(10)
    yield Proxy(f"http://127.0.0.1:{port[0]}", server, replies)
    loop.call_soon_threadsafe(loop.stop)


def _ids(sent: dict[str, Any], said: dict[str, Any]) -> tuple[list[int], list[int]]:
    if "input_ids" in sent:
        return sent["input_ids"], said["output_ids"]
    return sent["prompt"], said["choices"][0]["token_ids"]


def test_the_journal_holds_the_ids_of_the_servers_own_replies(tmp_path: Path, small_model: Path, proxy: Proxy) -> None:
    write_jsonl(tmp_path / "chat.jsonl", questions(16))
    recipe = write_recipe(
        tmp_path / "recipe.yaml",
        model=str(small_model),
        engines=[proxy.url],
        checkpoint_partials="off",
        sampling={"temperature": 0.7, "top_p": 0.9},
        lanes={"short": {"max_new_tokens": 40, "concurrency": 8}},
        datasets=[{"name": "chat", "source": "chat.jsonl"}],
    )
    done = draftmill("run", recipe, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "the engine's own ids equal ours on 13 texts" in done.stderr
    prompts = {p["id"]: p["prompt_ids"] for p in read_jsonl(tmp_path / "run" / "chat" / "prompts.jsonl")}
    journal = read_jsonl(tmp_path / "run" / "chat" / "raw_responses.jsonl")
    assert len(journal) == 16
    journaled = sorted((prompts[line["id"]], line["output_ids"]) for line in journal)
    assert journaled == sorted(proxy.replies)
    ended = [line for line in journal if line["finish_reason"] == "stop"]
    assert ended and all(line["output_ids"][-1] == EOS for line in ended)
    rows = read_jsonl(tmp_path / "run" / "chat" / "tokenized_data.jsonl")
    assert sorted(r["input_ids"] for r in rows) == sorted(p + o for p, o in journaled)


def test_a_killed_run_continues_its_unfinished_answers(tmp_path: Path, tokenizer_folder: Path, proxy: Proxy) -> None:
    stories = [{"prompt": f"Tell a very long story about {thing}."} for thing in ("a glacier", "tea", "moss", "fog")]
    write_jsonl(tmp_path / "s.jsonl", stories)
    recipe = write_recipe(
        tmp_path / "recipe.yaml",
        model=str(tokenizer_folder),
        engines=[proxy.server],
        lanes={"short": {"max_new_tokens": 100}},
        checkpoint_partials="500ms",
        datasets=[{"name": "s", "source": "s.jsonl"}],
    )
    journal = tmp_path / "run" / "s" / "raw_responses.jsonl"
    with subprocess.Popen(command("run", recipe, "--out", tmp_path / "run"), env=environment()) as run:
        while run.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") >= 4):
            time.sleep(0.02)
        run.kill()
    pieces = {}
    for line in read_jsonl(journal):
        if line.get("partial"):
            pieces[line["id"]] = pieces.get(line["id"], []) + line["output_ids"]
    done = draftmill("run", recipe, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    whole = {line["id"]: line for line in read_jsonl(journal) if not line.get("partial")}
    assert len(whole) == 4
    continued = [line for line in whole.values() if line.get("continued")]
    assert continued and "continued" in done.stdout
    for line in continued:
        known = pieces[line["id"]]
        assert line["output_ids"][: len(known)] == known and line["continued"] >= len(known)
    assert len(read_jsonl(tmp_path / "run" / "s" / "tokenized_data.jsonl")) == 4
