"""One server: started, waited for, read, and started again or given up when it dies."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from enum import Enum

from msgspec.structs import replace

from draftmill.capacity.launch import HERE, Launch, invocation
from draftmill.capacity.started import Started
from draftmill.engines.protocol import Identity
from draftmill.errors import EngineError, ServerError, SetupFault
from draftmill.journal.folder import ServeFolder
from draftmill.machine import groups, kernel
from draftmill.machine.gpus import Gpu, gpus, holders
from draftmill.recipe import EngineSpec
from draftmill.serve import gpu_memory, remedy, startup
from draftmill.serve.child import Child
from draftmill.serve.log import StartLog
from draftmill.serve.pulse import until_stuck
from draftmill.serve.readiness import first_token
from draftmill.serve.reason import Death, Reason, failed, why
from draftmill.serve.remedy import Again, Past

_LOOK = 0.3  # seconds between two tries of a server that starts
_SILENT = 30.0  # seconds without a word after which a log that told of a failure is believed
_REFUSED = 60.0  # seconds for which a server that starts may refuse us as if we were set up wrongly

Tell = Callable[[str, str, str], None]


class State(Enum):
    """Where a server of ours stands."""

    STARTING = "starting"
    READY = "ready"
    DOWN = "down"  # it died, and another one follows
    GONE = "gone"  # it died, and none follows; ``error`` says why
    ENDED = "ended"  # by us


class Replica:
    """Keeps one server of ``launch`` alive. ``keep`` does it all and returns when it is stopped or given up.

    ``tell(kind, subject, message)`` hears what happens; ``started`` gets what each start turned out to hold, to be
    compared with ``predicted`` tokens. ``default`` is the fraction that it takes when it is given none. ``stall``: the
    seconds after which a server is taken for stuck: without a word in its log while it starts, without a sign of work
    later.
    """

    def __init__(
        self,
        launch: Launch,
        number: int,
        folder: ServeFolder,
        spec: EngineSpec,
        tell: Tell,
        started: Callable[[Started], None],
        *,
        predicted: int | None,
        default: float | None,
        stall: float,
    ) -> None:
        self.name = f"server {number}"
        self.url = launch.url(number)
        self.state = State.STARTING
        self.error: ServerError | None = None
        self.settled = asyncio.Event()  # it is ready for the first time, or never will be
        self._launch = launch
        self._number = number
        self._log_path = folder.log(number)
        self._spec = spec
        self._tell = tell
        self._started = started
        self._predicted = predicted
        self._default = default
        self._stall = stall
        self._past = Past()
        self._stopping = asyncio.Event()

    @property
    def launch(self) -> Launch:
        """As it runs now, with what was lowered since it was planned."""
        return self._launch

    def stop(self) -> None:
        """End it; ``keep`` returns once nothing of it is left."""
        self._stopping.set()

    async def keep(self) -> None:
        """Start it again and again. Raises nothing but what is a fault of ours."""
        try:
            while not self._stopping.is_set():
                before = gpus() if self._launch.on_gpu else []
                death, served = await self._once(before)
                if death is None:
                    break
                if not await self._go_on(death, served, before):
                    return
            self.state = State.ENDED
        finally:
            self.settled.set()

    async def _once(self, before: list[Gpu]) -> tuple[Death | None, float | None]:
        """One life. Returns why it died (None: we ended it), and for how many seconds it had been ready."""
        self.state = State.STARTING
        if holder := _listener(self._launch.port(self._number)):
            return Death(Reason.PORT, holder), None
        for held in gpu_memory.taken(before, self._gpus(), holders() if before else []):
            self._tell("held", self.name, held)
        log, began, kills = StartLog(self._log_path), time.monotonic(), groups.kills()
        try:
            child = await Child.start(invocation(self._launch, self._number), self._log_path)
        except ServerError as error:
            return Death(Reason.COMMAND, error.message), None
        self._tell("starting", self.name, f"process {child.pid} at {self.url}, log {self._log_path}")
        ready: float | None = None
        hung: Death | None = None
        try:
            identity, hung = await self._begin(child, log)
            if identity is not None:
                ready = time.monotonic()
                self._read(identity, log, ready - began)
                hung = await self._hangs(child)
        finally:
            over = await child.stop()
        served = None if ready is None else time.monotonic() - ready
        if over.left:
            self._tell("left", self.name, f"processes {', '.join(map(str, over.left))} could not be ended")
        if self._stopping.is_set():
            self._tell("ended", self.name, "by us; nothing of it is left" if not over.left else "by us")
            return None, served
        if hung:
            return hung, served
        said = kernel.killed(began)
        if (more := groups.kills() - kills) > 0:
            said.append(f"the control group's memory limit was reached: {more} killed (oom_kill)")
        return why(over.code, log.tail(), said, served=ready is not None), served

    async def _begin(self, child: Child, log: StartLog) -> tuple[Identity | None, Death | None]:
        """Wait for the first token. Returns what the server is, or None where it died or shall end; and why there is no
        point in waiting any longer for one that lives."""
        heard, size, refused = time.monotonic(), log.size(), None
        last = ""
        while not (child.over.done() or self._stopping.is_set()):
            trial = asyncio.create_task(first_token(self._spec))
            await _first(child.over, self._stopping.wait(), trial)
            if not trial.done():
                trial.cancel()
            results = await asyncio.gather(trial, return_exceptions=True)
            match results[0]:
                case Identity() as identity if not child.over.done():
                    return identity, None
                case SetupFault() as fault:
                    refused = refused or time.monotonic()
                    last = fault.message
                case EngineError() as fault:
                    refused, last = None, fault.message
                case TimeoutError():
                    last = "it gave no token"
                case Exception() as error:
                    raise error
            now = time.monotonic()
            if log.size() != size:
                heard, size = now, log.size()
            if refused and now - refused > _REFUSED:
                return None, Death(Reason.STUCK, f"it answers, and refuses a first token: {last}")
            if now - heard > self._stall:
                said = f"nothing new in its log for {self._stall:.0f} s, and no token: {last}"
                return None, Death(Reason.STUCK, said)
            if now - heard > _SILENT and (hopeless := failed(log.tail())):
                return None, hopeless
            await _first(child.over, self._stopping.wait(), asyncio.sleep(_LOOK))
        return None, None

    async def _hangs(self, child: Child) -> Death | None:
        """While it serves: why it is taken for stuck, or None where it has died or shall end."""
        watch = asyncio.create_task(until_stuck(self._spec, self._stall))
        await _first(child.over, self._stopping.wait(), watch)
        if not watch.done():
            watch.cancel()
        (said,) = await asyncio.gather(watch, return_exceptions=True)
        if child.over.done() or self._stopping.is_set():
            return None
        if isinstance(said, BaseException):
            raise said
        return Death(Reason.STUCK, said)

    def _read(self, identity: Identity, log: StartLog, seconds: float) -> None:
        """It is ready: say what it holds, and how far off the plan was."""
        self.state = State.READY
        self._tell("ready", self.name, f"generates, {seconds:.0f} s after its start, at {self.url}")
        said = startup.read(log.beginning())
        tokens = said.tokens or identity.kv_tokens
        if tokens is None and identity.slots and identity.context:
            tokens = identity.slots * identity.context
        if tokens:
            launch = self._launch
            found = Started(
                time="",
                kind=launch.kind,
                model=launch.model,
                tp=launch.tp,
                pp=launch.pp,
                kv=launch.kv,
                fraction=launch.fraction or identity.mem_fraction,
                kv_space=launch.kv_space,
                tokens=tokens,
                predicted=self._predicted,
                free=said.free,
                left=said.left,
            )
            self._started(found)
            self._tell("KV cache", self.name, _compared(found))
        else:
            self._tell("KV cache", self.name, "neither its log nor the server says how many tokens it holds")
        self.settled.set()

    async def _go_on(self, death: Death, served: float | None, before: list[Gpu]) -> bool:
        """After a death: whether another start follows, when all that must be waited for is over."""
        self.state = State.DOWN
        memory = death.reason in (Reason.GPU_MEMORY, Reason.HOST_MEMORY)
        self._past = self._past.after(served=served, memory=memory)
        self._tell("died", self.name, f"{death.reason.value}: {death.evidence}")
        for held in await gpu_memory.freed(before, self._gpus()) if before else []:
            self._tell("held", self.name, f"{held}; draftmill ends nothing that it did not start")
        step = remedy.after(death, self._launch, self._past, default=self._default)
        if not isinstance(step, Again):
            self.state = State.GONE
            self.error = ServerError(f"{self.name}: {death.reason.value}: {death.evidence}", step.advice)
            self._tell("given up", self.name, step.advice)
            return False
        if step.backed_off:
            self._predicted = None  # of what was planned, not of this
        how = f"with {step.backed_off}" if step.backed_off else "as it was"
        self._tell("again", self.name, f"in {step.pause:g} s, {how}")
        self._launch = step.launch
        await _first(self._stopping.wait(), asyncio.sleep(step.pause))
        return True

    def _gpus(self) -> list[int]:
        """The GPUs' numbers, where they are named by numbers."""
        return [int(gpu) for gpu in self._launch.gpus(self._number) if gpu.isdigit()]


async def _first(*waited: Awaitable[object]) -> None:
    """Until the first of these is done. Coroutines among them are ended then; tasks are left to whoever made them."""
    own = [asyncio.ensure_future(each) for each in waited if not isinstance(each, asyncio.Future)]
    others = [each for each in waited if isinstance(each, asyncio.Future)]
    try:
        await asyncio.wait([*own, *others], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)


def _compared(found: Started) -> str:
    off = found.off()
    if off is None:
        return f"{found.tokens:,} tokens"
    exact = "just as planned" if round(off, 4) == 0 else f"the plan said {found.predicted:,}, {off:+.1%}"
    return f"{found.tokens:,} tokens: {exact}"


def _listener(port: int) -> str:
    """Who has the port already, in words; "" where it is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: what is left of a dead one
        try:
            probe.bind((HERE, port))
        except OSError as error:
            return f"port {port} of {HERE}: {error.strerror or error}"
    return ""


def free_port() -> int:
    """A port that nobody listens at just now."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind((HERE, 0))
        return int(probe.getsockname()[1])


def on_port(launch: Launch, *ports: int) -> Launch:
    """The same launch at other ports."""
    return replace(launch, ports=ports)
