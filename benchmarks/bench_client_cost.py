"""What one answer costs the client: CPU a request, draftmill next to a bare aiohttp loop and an httpx2 client.

A server on the loopback interface answers every ``/generate`` at once (500 ids in, 1,000 out), so that all the time is
the client's. draftmill does everything that it does in a run: checks, journal with sync, standing. The bare loop sends
the same bytes, encoded as fast, and writes the raw reply to a file. Each client runs in a process of its own; CPU is
user + system time.

Usage: bench_client_cost.py [REQUESTS]
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop
from aiohttp import web

PROMPT, ANSWER = 500, 1000
AT_ONCE = (64, 512, 2000, 4000)
ROUNDS = 3  # in turn; the least CPU of each counts, since whatever else the machine does only adds to it
SLOW, SLOW_AT_MOST = "httpx2", 512
STOP = 2


PARAMS = {  # what draftmill sends beside the prompt and its tag
    "sampling_params": {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "max_new_tokens": ANSWER + 1,
        "min_new_tokens": 0,
        "n": 1,
        "stop": None,
        "stop_token_ids": [STOP],
        "ignore_eos": False,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": True,
        "no_stop_trim": True,
    },
    "stream": False,
}


def prompt(number: int) -> list[int]:
    return [10 + (number * 7 + i) % 40_000 for i in range(PROMPT)]


# the server


async def serve() -> None:
    ids = [10 + i % 40_000 for i in range(ANSWER - 1)] + [STOP]
    meta = {
        "id": "x",
        "finish_reason": {"type": "stop", "matched": STOP},
        "prompt_tokens": PROMPT,
        "completion_tokens": ANSWER,
        "cached_tokens": 0,
    }
    body = json.dumps({"text": "", "output_ids": ids, "meta_info": meta}).encode()

    async def generate(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/generate", generate)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


# the clients: each sends `count` prompts, `at_once` in flight


async def bare(url: str, count: int, at_once: int, folder: Path) -> None:
    numbers = iter(range(count))
    with (folder / "raw.jsonl").open("ab") as out:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

            async def work() -> None:
                for number in numbers:
                    data = msgspec.json.encode(PARAMS | {"input_ids": prompt(number), "rid": str(number)})
                    async with http.post(url + "/generate", data=data) as reply:
                        out.write(await reply.read() + b"\n")

            await asyncio.gather(*(work() for _ in range(at_once)))


async def httpx2(url: str, count: int, at_once: int, folder: Path) -> None:
    import httpx2 as httpx

    numbers = iter(range(count))
    params = {"max_new_tokens": ANSWER, "temperature": 1.0, "stop_token_ids": [STOP]}
    limits = httpx.Limits(max_connections=None)
    with (folder / "raw.jsonl").open("ab") as out:
        async with httpx.AsyncClient(limits=limits, timeout=None) as http:

            async def work() -> None:
                for number in numbers:
                    reply = await http.post(
                        url + "/generate", json={"input_ids": prompt(number), "sampling_params": params}
                    )
                    out.write(json.dumps(reply.json()["output_ids"]).encode() + b"\n")

            await asyncio.gather(*(work() for _ in range(at_once)))


async def draftmill(url: str, count: int, at_once: int, folder: Path) -> None:
    from draftmill.engines.http import Http
    from draftmill.engines.protocol import Identity
    from draftmill.engines.sglang import SGLang
    from draftmill.journal.folder import DatasetFolder
    from draftmill.journal.reader import encode
    from draftmill.journal.writer import Appender
    from draftmill.ledger.order import conversation_id
    from draftmill.ledger.standing import load_standing
    from draftmill.mill.loop import Ending, Limits, Loop
    from draftmill.mill.seat import Seat
    from draftmill.mill.stream import Stream
    from draftmill.recipe import Dataset, EngineSpec, Lane, Sampling
    from draftmill.records import Prompt

    files = DatasetFolder(folder / "bench")
    files.path.mkdir()
    with files.prompts.open("wb") as out:
        for n in range(count):
            out.write(encode(Prompt(conversation_id("b", b"%d" % n, 0), n, "short", [], prompt(n))) + b"\n")
    started = resource.getrusage(resource.RUSAGE_SELF)
    stream = Stream(
        Dataset(name="bench", source="x"), files, load_standing(files), sampling=Sampling(), limit=ANSWER + 1
    )
    engine = SGLang(Http("sglang", url))
    seat = Seat(engine, EngineSpec(url=url, concurrency=at_once), Identity("sglang", url), lambda *_: None)
    loop = Loop(
        [stream],
        [seat],
        {"short": Lane(max_new_tokens=ANSWER + 1)},
        stop_ids=(STOP,),
        vocab_size=50_000,
        limits=Limits(checkpoint=None),  # no streaming: one reply a call, as the others read it
        tell=lambda *_: None,
        load_log=Appender(folder / "load.jsonl"),
    )
    assert await loop.run() is Ending.DONE and stream.completed == count
    await seat.close()
    global _before
    _before = started


CLIENTS: dict[str, Any] = {"bare aiohttp": bare, "draftmill": draftmill, "httpx2": httpx2}
_before: resource.struct_rusage | None = None


def client(name: str, url: str, count: int, at_once: int) -> None:
    """Run one client and print its CPU and wall seconds and its memory."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(CLIENTS[name](url, count, at_once, Path(folder)))
    before, after = _before or before, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"cpu": cpu, "wall": time.perf_counter() - began, "mib": after.ru_maxrss / 1024}))


def measured(name: str, url: str, count: int, at_once: int) -> tuple[float, float, float]:
    """CPU milliseconds a request, requests a second and MiB of one client in a process of its own."""
    command = [sys.executable, __file__, name, url, str(count), str(at_once)]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return 1000 * said["cpu"] / count, count / said["wall"], said["mib"]


def main(count: int) -> None:
    with subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        try:
            print(f"{'at once':>8}  {'client':<14}{'CPU ms a request':>18}{'of bare':>9}{'requests/s':>12}{'MiB':>6}")
            for at_once in AT_ONCE:
                least = {name: measured(name, url, count, at_once) for name in CLIENTS if name != SLOW}
                for _ in range(ROUNDS - 1):
                    for name in least:
                        least[name] = min(least[name], measured(name, url, count, at_once))
                if at_once <= SLOW_AT_MOST:
                    least[SLOW] = measured(SLOW, url, min(count, 2 * SLOW_AT_MOST), at_once)
                for name, (cost, rate, mib) in least.items():
                    ratio = cost / least["bare aiohttp"][0]
                    print(f"{at_once:>8}  {name:<14}{cost:>18.2f}{ratio:>8.1f}x{rate:>12.0f}{mib:>6.0f}", flush=True)
        finally:
            server.terminate()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            uvloop.run(serve())
        case [name, url, count, at_once]:
            client(name, url, int(count), int(at_once))
        case arguments:
            main(int(arguments[0]) if arguments else 4000)
