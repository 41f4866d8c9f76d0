"""The simulated server as an engine of this process: the Engine protocol on the running loop's clock."""

import asyncio

import msgspec

from draftmill.engines import faults
from draftmill.engines.check import check_request
from draftmill.engines.protocol import Identity, Load, OnIds, Reply, Request, Scored
from draftmill.engines.simulated.host import Gone, Host, Refused
from draftmill.engines.simulated.sequence import Outcome, Sequence
from draftmill.errors import EngineError, PromptFault, TransportFault
from draftmill.records import Finish

_TELL_SECONDS = 1.0  # between two tellings of an answer's beginning


class SimulatedEngine:
    """Fails as the client of a real SGLang server would: the same statuses and words, classified in the same place."""

    def __init__(self, host: Host, name: str = "simulated") -> None:
        self.host = host
        self.name = name
        self._aborted: set[str] = set()

    async def identify(self) -> Identity:
        self._check()
        spec = self.host.spec
        return Identity(
            kind="simulated",
            name=self.name,
            version=spec.version,
            model=spec.model,
            weights=spec.weights,
            vocab_size=self.host.server.answers.vocab_size,
            context=spec.max_prompt + 4,
            max_prompt=spec.max_prompt - 1,
            slots=spec.max_running,
            kv_tokens=spec.kv_tokens,
            kv_dtype=spec.kv_dtype,
        )

    async def generate(self, request: Request, on_ids: OnIds | None = None) -> Reply:
        if reason := check_request(request):
            raise PromptFault(reason)
        telling = asyncio.create_task(self._tell(request.tag, on_ids)) if on_ids else None
        try:
            sequence = await self.host.generate(request.tag, list(request.prompt_ids), request.limit, request.seed)
        except (Refused, Gone) as error:
            raise self._fault(error) from None
        finally:
            ours = request.tag in self._aborted
            self._aborted.discard(request.tag)
            if telling:
                telling.cancel()
        if sequence.outcome is Outcome.ABORTED:
            if ours:
                ids = sequence.ids()
                return Reply(ids, len(request.prompt_ids), len(ids), Finish.ABORT)
            raise faults.of_abort("sglang", self.name, None, "Aborted")
        if sequence.outcome is Outcome.LENGTH and sequence.generated < request.limit:
            raise faults.of_limit(self.name, request, sequence.generated)
        return _reply(sequence)

    async def abort(self, tag: str) -> bool:
        if self.host.find(tag) is None:
            return False
        self._aborted.add(tag)
        try:
            self.host.abort(tag)
        except Gone as error:
            raise self._fault(error) from None
        return True

    async def _tell(self, tag: str, on_ids: OnIds) -> None:
        """What a stream would bring, now and then."""
        while True:
            await asyncio.sleep(_TELL_SECONDS)
            found = self.host.find(tag)
            if found is not None and (ids := self.host.partial(found)):
                on_ids(ids)

    async def load(self) -> Load:
        try:
            return self.host.load()
        except (Refused, Gone) as error:
            raise self._fault(error) from None

    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        self._check()
        return Scored([log_probability(token) for token in ids[start:]])  # no distribution stands behind them

    async def tokenize(self, text: str) -> list[int] | None:
        return None

    async def own_stops(self, candidates: list[int]) -> list[int]:
        return []

    async def close(self) -> None:
        """The host belongs to whoever made it, and may serve another run."""

    def _check(self) -> None:
        try:
            self.host.answer_call()
        except (Refused, Gone) as error:
            raise self._fault(error) from None

    def _fault(self, error: Refused | Gone) -> EngineError:
        if isinstance(error, Gone):
            return TransportFault(f"{self.name}: the server closed the connection without an answer")
        return faults.of_status("sglang", self.name, error.status, msgspec.json.encode(error.body))


def log_probability(token: int) -> float:
    """A made-up value that differs between ids."""
    return -0.25 - (token % 13) / 8


def _reply(sequence: Sequence) -> Reply:
    ids = sequence.ids()
    stopped = sequence.outcome is Outcome.STOP
    return Reply(
        output_ids=ids,
        prompt_tokens=len(sequence.prompt_ids),
        completion_tokens=len(ids),
        finish=Finish.STOP if stopped else Finish.LENGTH,
        matched_stop=ids[-1] if stopped else None,
        cached_tokens=sequence.cached,
    )
