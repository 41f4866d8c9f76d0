"""The clients that the cost benchmarks compare, each run in a process of its own: ``measured`` starts one.

CPU is user + system time of that process from before its first request to after its last byte is on the disk. The
bare loop reads the same file of prompts, sends the bytes that draftmill sends, encoded as fast, and writes the raw
replies to a file.

Usage: clients.py NAME JOB, a name of CLIENTS and a Job as JSON; prints what it took, as JSON.
       clients.py hold JOB SECONDS
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import loopback
import msgspec
import numpy  # noqa: F401  # a run has it from its tokenizer
import uvloop

from draftmill.engines.http import Http
from draftmill.engines.protocol import Engine, Identity
from draftmill.engines.sglang import SGLang
from draftmill.engines.vllm import VLLM
from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.writer import Appender
from draftmill.ledger.order import conversation_id
from draftmill.ledger.standing import load_standing
from draftmill.mill.loop import Ending, Limits, Loop
from draftmill.mill.seat import Seat
from draftmill.mill.stream import Stream
from draftmill.recipe import Dataset, EngineSpec, Lane, Sampling
from draftmill.records import Prompt

LIMIT = 20_000
VOCABULARY = 50_000


class Job(NamedTuple):
    """``count`` prompts to the server at ``url``, ``at_once`` in flight, files in ``folder``. The first ``warm``
    answers are not measured. ``checkpoint``: seconds between two beginnings, where answers are streamed."""

    url: str
    count: int
    at_once: int
    warm: int = 0
    checkpoint: float = 1.0
    folder: str = ""


class Cost(NamedTuple):
    """What a client took: CPU and wall seconds, and the most MiB that it held."""

    cpu: float
    wall: float
    mib: float


class Clock:
    """CPU and wall seconds since ``start``."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def cost(self) -> Cost:
        return Cost(time.process_time() - self._cpu, time.perf_counter() - self._wall, peak())


def peak() -> float:
    """MiB of this process at most. Where the system tells it: a child's ``ru_maxrss`` begins at its parent's."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")]
    return found[0] if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# the bare loops


def parameters(stream: bool) -> dict[str, Any]:
    """What draftmill sends beside the prompt and its tag."""
    sampling = {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "max_new_tokens": LIMIT,
        "min_new_tokens": 0,
        "n": 1,
        "stop": None,
        "stop_token_ids": [loopback.STOP],
        "ignore_eos": False,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": True,
        "no_stop_trim": True,
    }
    return {"sampling_params": sampling | ({"stream_interval": 16} if stream else {}), "stream": stream}


class _Ids(msgspec.Struct):
    id: str
    prompt_ids: list[int]


async def bare(job: Job, clock: Clock, stream: bool = False) -> None:
    files, fixed = DatasetFolder(Path(job.folder, "bench")), parameters(stream)
    write_prompts(files, job.count)
    clock.start()
    read = msgspec.json.Decoder(_Ids).decode
    raw = Path(job.folder, "raw.jsonl")
    with files.prompts.open("rb") as prompts, raw.open("ab") as out:  # noqa: ASYNC230
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), read_bufsize=2**20) as http:

            async def work() -> None:
                for line in prompts:
                    prompt = read(line)
                    body = fixed | {"input_ids": prompt.prompt_ids, "rid": prompt.id}
                    async with http.post(job.url + "/generate", data=msgspec.json.encode(body)) as reply:
                        if not stream:
                            out.write(await reply.read() + b"\n")
                            continue
                        last = b""
                        async for line in reply.content:
                            if line.startswith(b"data: {"):
                                last = line
                        out.write(last)

            await asyncio.gather(*(work() for _ in range(job.at_once)))


# draftmill: its own loop, journal and standing


def write_prompts(files: DatasetFolder, count: int) -> None:
    files.path.mkdir()
    with files.prompts.open("wb") as out:
        for n in range(count):
            line = Prompt(conversation_id("b", b"%d" % n, 0), n, "short", [], loopback.prompt(n))
            out.write(encode(line) + b"\n")


def mill(job: Job, engine: Engine, files: DatasetFolder, checkpoint: float | None) -> tuple[Loop, Stream, Seat]:
    """The loop of a run over the prompts that lie in ``files``, with one engine."""
    dataset = Dataset(name=files.path.name, source="x")
    stream = Stream(dataset, files, load_standing(files), sampling=Sampling(), limit=LIMIT)
    seat = Seat(engine, EngineSpec(url=job.url, concurrency=job.at_once), Identity(engine.name, job.url), tell)
    loop = Loop(
        [stream],
        [seat],
        {"short": Lane(max_new_tokens=LIMIT)},
        stop_ids=(loopback.STOP,),
        vocab_size=VOCABULARY,
        limits=Limits(checkpoint=checkpoint),
        tell=tell,
        load_log=Appender(Path(job.folder, "load.jsonl")),
    )
    return loop, stream, seat


def tell(kind: str, subject: str, message: str) -> None:
    print(kind, subject, message, file=sys.stderr)


async def draftmill(job: Job, clock: Clock, kind: str = "sglang", streamed: bool = False) -> None:
    files = DatasetFolder(Path(job.folder, "bench"))
    write_prompts(files, job.count)
    http = Http(kind, job.url)
    engine = SGLang(http) if kind == "sglang" else VLLM(http, "m")
    loop, stream, seat = mill(job, engine, files, job.checkpoint if streamed else None)
    clock.start()  # bench_resume says what opening costs
    running = asyncio.create_task(loop.run())
    if job.warm:
        while stream.completed < job.warm and not running.done():  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)
        clock.start()
    ending = await running
    assert ending is Ending.DONE and stream.completed == job.count, (ending, loop.error)
    await seat.close()


Client = Callable[[Job, Clock], Coroutine[Any, Any, None]]
CLIENTS: dict[str, Client] = {
    "bare aiohttp": bare,
    "bare, streamed": partial(bare, stream=True),
    "draftmill": draftmill,  # one reply a call, as the others read it
    "draftmill, streamed": partial(draftmill, streamed=True),  # as a run does it unless told otherwise
    "vLLM": partial(draftmill, kind="vllm"),
    "vLLM, streamed": partial(draftmill, kind="vllm", streamed=True),
}


def measured(name: str, url: str, count: int, at_once: int, warm: int = 0, checkpoint: float = 1.0) -> Cost:
    """What one client takes, in a process of its own. The answers behind the first ``warm`` ones are counted."""
    with tempfile.TemporaryDirectory() as folder:
        return Cost(**_process(name, json.dumps(Job(url, count, at_once, warm, checkpoint, folder))))


def _process(*arguments: str) -> dict[str, float]:
    command = [sys.executable, __file__, *arguments]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


# a large dataset


def write_many(files: DatasetFolder, count: int) -> None:
    """As ``write_prompts``, in a tenth of the time."""
    some = [encode(loopback.prompt(number)) for number in range(97)]
    files.path.mkdir()
    with files.prompts.open("wb") as out:
        for n in range(count):
            id = conversation_id("b", b"%d" % n, 0).encode()
            line = b'{"id":"%s","position":%d,"lane":"short","messages":[],"prompt_ids":%s}\n'
            out.write(line % (id, n, some[n % len(some)]))


async def hold(job: Job, seconds: float) -> dict[str, float]:
    """What this process holds while it runs a large dataset for a while; seconds and MiB. Without ``checkpoint``
    answers are not streamed."""
    began, most = time.perf_counter(), 0
    engine, files = SGLang(Http("sglang", job.url)), DatasetFolder(Path(job.folder, "bench"))
    loop, stream, seat = mill(job, engine, files, job.checkpoint or None)
    opened, opened_mib = time.perf_counter() - began, peak()
    running, clock = asyncio.create_task(loop.run()), Clock()
    while (cost := clock.cost()).wall < seconds and not running.done():
        most = max(most, loop.at_engines(0))
        await asyncio.sleep(0.2)
    answers = stream.completed
    loop.stop(Ending.INTERRUPTED)
    await asyncio.sleep(0.1)
    loop.stop(Ending.INTERRUPTED)  # what is in flight gets no time either
    assert await running is Ending.INTERRUPTED, loop.error
    await seat.close()
    said = {"opened": opened, "opened_mib": opened_mib, "answers": answers, "most": most}
    return said | {"cores": cost.cpu / cost.wall, "mib": cost.mib}


def held(job: Job, seconds: float) -> dict[str, float]:
    """``hold`` in a process of its own."""
    return _process("hold", json.dumps(job), str(seconds))


if __name__ == "__main__":
    name, job = sys.argv[1], Job(*json.loads(sys.argv[2]))
    if name == "hold":
        print(json.dumps(uvloop.run(hold(job, float(sys.argv[3])))))
    else:
        clock = Clock()
        uvloop.run(CLIENTS[name](job, clock))
        print(json.dumps(clock.cost()._asdict()))
