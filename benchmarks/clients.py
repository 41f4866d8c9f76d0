"""The clients that the cost benchmarks compare, each run in a process of its own: ``measured`` starts one.

CPU is user + system time of that process from before its first request to after its last byte is on the disk. The bare
loops read the same file of prompts, send the bytes that draftmill sends, encoded as fast, and write the raw replies to a
file.

Usage: clients.py NAME URL COUNT AT_ONCE [WARM]; prints one line of JSON.
       clients.py large URL FOLDER CHECKPOINT AT_ONCE SECONDS
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import loopback
import msgspec
import uvloop

from draftmill.engines.http import Http
from draftmill.engines.protocol import Engine, Identity
from draftmill.engines.sglang import SGLang
from draftmill.engines.vllm import VLLM
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

LIMIT = 20_000
VOCABULARY = 50_000


class Job(NamedTuple):
    """``count`` prompts to the server at ``url``, ``at_once`` in flight; files go to ``folder``. The first ``warm``
    answers are not measured."""

    url: str
    count: int
    at_once: int
    folder: Path
    warm: int = 0


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
    files, fixed = DatasetFolder(job.folder / "bench"), parameters(stream)
    write_prompts(files, job.count)
    clock.start()
    read = msgspec.json.Decoder(_Ids).decode
    with files.prompts.open("rb") as prompts, (job.folder / "raw.jsonl").open("ab") as out:
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


async def bare_stream(job: Job, clock: Clock) -> None:
    await bare(job, clock, stream=True)


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
        load_log=Appender(job.folder / "load.jsonl"),
    )
    return loop, stream, seat


def tell(kind: str, subject: str, message: str) -> None:
    print(kind, subject, message, file=sys.stderr)


def _draftmill(kind: str, checkpoint: float | None) -> "Client":
    async def warm(stream: Stream, job: Job, clock: Clock) -> None:
        while stream.completed < job.warm:
            await asyncio.sleep(0.01)
        clock.start()

    async def run(job: Job, clock: Clock) -> None:
        files = DatasetFolder(job.folder / "bench")
        write_prompts(files, job.count)
        clock.start()
        http = Http(kind, job.url)
        engine = SGLang(http) if kind == "sglang" else VLLM(http, "m")
        loop, stream, seat = mill(job, engine, files, checkpoint)
        warming = asyncio.create_task(warm(stream, job, clock)) if job.warm else None
        ending = await loop.run()
        assert warming is None or warming.done()
        assert ending is Ending.DONE and stream.completed == job.count, (ending, loop.error)
        await seat.close()

    return run


Client = Callable[[Job, Clock], Coroutine[Any, Any, None]]
CLIENTS: dict[str, Client] = {
    "bare aiohttp": bare,
    "draftmill": _draftmill("sglang", None),  # one reply a call, as the others read it
    "draftmill, streamed": _draftmill("sglang", 1.0),  # as a run does it unless told otherwise
    "draftmill, vllm": _draftmill("vllm", None),
    "draftmill, vllm streamed": _draftmill("vllm", 1.0),
    "bare aiohttp, streamed": bare_stream,
}


def run(name: str, job: Job) -> Cost:
    """Run one client in this process."""
    clock = Clock()
    uvloop.run(CLIENTS[name](job, clock))
    return clock.cost()


def measured(name: str, url: str, count: int, at_once: int, warm: int = 0) -> Cost:
    """What one client takes, in a process of its own."""
    return Cost(**_process(name, url, count, at_once, warm))


def _process(*arguments: object) -> dict[str, float]:
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


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


def hold(url: str, folder: Path, checkpoint: float | None, at_once: int, seconds: float) -> dict[str, float]:
    """What a process holds that runs a large dataset for a while; seconds and MiB."""
    began = time.perf_counter()
    job = Job(url, 0, at_once, folder)
    said: dict[str, float] = {}
    most = 0

    async def run() -> None:
        nonlocal most
        loop, stream, seat = mill(job, SGLang(Http("sglang", url)), DatasetFolder(folder / "bench"), checkpoint)
        said["opened_s"], said["opened_mib"] = time.perf_counter() - began, peak()
        running, clock = asyncio.create_task(loop.run()), Clock()
        while time.perf_counter() - began < seconds + said["opened_s"] and not running.done():
            most = max(most, loop.at_engines(0))
            await asyncio.sleep(0.2)
        said["answers"], said["cores"] = stream.completed, clock.cost().cpu / clock.cost().wall
        loop.stop(Ending.INTERRUPTED)
        loop.stop(Ending.INTERRUPTED)
        assert await running is Ending.INTERRUPTED, loop.error
        await seat.close()

    uvloop.run(run())
    return said | {"most_in_flight": most, "peak_mib": peak()}


def held(url: str, folder: Path, checkpoint: float | None, at_once: int, seconds: float) -> dict[str, float]:
    """``hold`` in a process of its own."""
    return _process("large", url, folder, checkpoint or 0, at_once, seconds)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["large", url, folder, checkpoint, at_once, seconds]:
            print(json.dumps(hold(url, Path(folder), float(checkpoint) or None, int(at_once), float(seconds))))
        case [name, url, count, at_once, warm]:
            with tempfile.TemporaryDirectory() as place:
                job = Job(url, int(count), int(at_once), Path(place), int(warm))
                print(json.dumps(run(name, job)._asdict()))
