"""One dataset as a stream of owed prompts, in order, held back where its budget is already forecast to be reached."""

from collections import Counter
from collections.abc import Callable

import msgspec

from draftmill.errors import RenderError, StorageError
from draftmill.journal.files import SYSTEM, Files
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.prompts import Heads, PromptHead
from draftmill.journal.reader import beginning_at, completion_at
from draftmill.journal.sent import SentMark
from draftmill.journal.writer import Appender
from draftmill.ledger.standing import NOTHING, Said, Standing
from draftmill.mill import clock
from draftmill.mill.dialogue import Dialogue, Talk, replay
from draftmill.mill.flights import Flights
from draftmill.mill.forecast import Forecast
from draftmill.mill.growth import Growth
from draftmill.mill.mixing import Owed
from draftmill.mill.work import Work
from draftmill.recipe import Dataset, Sampling
from draftmill.records import Completion, Finish

_LONG = 0.1  # a long answer is one of the longest tenth


class Stream:
    """A dataset under way: its files, its standing, and the next prompt to send.

    A position may be sent while the forecast of all positions before it lies below the budget: those answered with
    their tokens, those under way with what is expected of an answer that is already so long. ``tokens`` are those
    generated in this start, ``counted`` those of them (and of their prompts) that the budget counts. With a
    ``dialogue`` each prompt may be the first turn of a conversation, of ``most_turns`` at most: that is one position,
    whose turns' tokens count together. ``unmarked``: earlier starts have sent, and how far they did is lost.
    """

    def __init__(
        self,
        dataset: Dataset,
        folder: DatasetFolder,
        standing: Standing,
        sampling: Sampling,
        limit: int,
        first: int | None = None,
        long_limit: int | None = None,
        dialogue: Dialogue | None = None,
        most_turns: int = 1,
        now: Callable[[], float] = clock.now,
        files: Files = SYSTEM,
    ) -> None:
        self.name = dataset.name
        self._dataset = dataset
        self.folder = folder
        self.standing = standing
        self.sampling = sampling
        self._limits = limit, limit if long_limit is None else long_limit
        self.end = min(standing.needed, first or standing.needed)
        self.resumed = standing.tally()
        self._files = files
        self.journal = Appender(folder.journal, files)
        self.errors = Appender(folder.errors, files)
        self.suspects: Appender | None = None
        self.completed = 0
        self.answers = 0
        self.failed = 0
        self.tokens = 0
        self.counted = 0
        self.finishes: Counter[str] = Counter()
        self.dialogue = dialogue
        self._said: dict[int, Said] = {}  # the finished turns of conversations under way
        self.forecast = Forecast(max(self._limits) * most_turns)
        self.continues = not penalised(sampling)
        self._mark = SentMark(folder.sent)
        self._sent_before = max(standing.highest, min(self._mark.before, standing.positions))
        self._flights = Flights(self.forecast, now)
        self._taken = 0  # prompts that ``next`` gave, and their tokens
        self._taken_tokens = 0
        self._unsent = self._unsent_at_start = standing.owed_before(self.end)
        self.unmarked = bool(self._unsent) and standing.highest > 0 and not self._mark.known
        self._known = 0  # what the answered positions before the pointer hold of the budget
        self._heads = Heads(folder.prompts, standing.prompt_offsets)
        self._pointer = 0
        self._ahead: PromptHead | None = None
        if standing.budget is not None:
            self._look_back()

    def set_budget(self, budget: int | None) -> None:
        """Another budget from now on: a higher one goes on, a lower one only moves the cut."""
        unknown, self.standing.budget = self.standing.budget is None, budget
        self.resumed = self.standing.tally()
        if unknown and budget is not None:
            self._look_back()

    def _look_back(self) -> None:
        """Let the forecast know the lengths of earlier starts, which only a budget asks for."""
        for tokens, cut in self.standing.lengths():
            self.forecast.add(tokens, cut)
        self.forecast.refresh(())

    @property
    def in_flight(self) -> int:
        """How many prompts that ``next`` gave are not settled yet, those included that wait to be sent again."""
        return len(self._flights)

    def outlook(self) -> tuple[int, float]:
        """Tokens that are there of the answers under way, as far as servers tell; and all that are still to come."""
        there = self._flights.heard()
        return there, self.owed().left + max(0.0, self._flights.answers() - there)

    @property
    def lane(self) -> str:
        """The lane of the prompt that is next."""
        return self._dataset.lane if self._ahead is None else self.lane_of(self._ahead)

    def lane_of(self, prompt: PromptHead) -> str:
        return self._dataset.lane_of(len(prompt.prompt_ids))

    def limit_of(self, prompt: PromptHead) -> int:
        """The most tokens of its answer, by its lane."""
        short, long = self._limits
        return short if self.lane_of(prompt) == self._dataset.lane else long

    def ready(self) -> bool:
        """Whether there is an owed prompt that may be sent now."""
        if self._ahead is None:
            self._ahead = self._advance()
        return self._ahead is not None and not self._reached()

    def grows(self, growth: Growth, prompt: PromptHead, waits: bool) -> None:
        """Add one of its prompts in flight to what grows at a server."""
        there = 0 if waits else self._flights.there(prompt.position)
        # the earlier turns of a conversation stand in its prompt, and in what is there of it
        growth.add(self.forecast, len(prompt.prompt_ids) - self._before(prompt.position), there, waits=waits)

    def may_grow(self, growth: Growth) -> None:
        """Add what it would send next. Call ``ready`` first."""
        self._flights.refresh()
        if self._ahead is not None:
            mean = (self._taken_tokens + len(self._ahead.prompt_ids)) / (self._taken + 1)
            growth.newcomer(self.forecast, mean)

    def next(self) -> PromptHead | None:
        """The next owed prompt, or None: for now (its budget may be reached by what is under way) or for good."""
        if not self.ready():
            return None
        prompt, self._ahead = self._ahead, None
        if prompt is not None:
            self._taken += 1
            self._taken_tokens += len(prompt.prompt_ids)
            self._unsent -= 1
            self._flights.take(prompt.position, self.standing.worth(len(prompt.prompt_ids), 0))
        return prompt

    def owed(self) -> Owed:
        """What it still has to send, by its budget or by its prompts, whichever is less. Cheap and rough."""
        under_way, mean = self._flights.roughly(), self.forecast.mean()
        left, whole = self._unsent * mean, self._unsent_at_start * mean
        budget = self.standing.budget
        if budget is not None:
            owed_at_start = budget - self.resumed.counting_tokens
            by_budget = max(0.0, owed_at_start - self.counted - under_way)
            if by_budget < left:
                left, whole = by_budget, owed_at_start
        return Owed(left, whole, self.forecast.longer_than(_LONG))

    def work(self, index: int, prompt: PromptHead) -> Work:
        """A prompt of this dataset, the ``index``-th, with what the journal holds of its answer: its conversation's
        next turn."""
        said = self.standing.said(prompt.position)
        talk = None
        if said.offsets:
            talk, prompt = self._resumed(prompt, said)
        offsets = self.standing.beginning(prompt.position)
        if not (offsets and self.continues):
            # prompts are sent in order: one below a journaled or marked position was sent, and maybe drawn, before
            sent = prompt.position < self._sent_before and prompt.position not in self.standing.unsent
            redrawn = prompt.turn > 0 or sent
            return Work(index, prompt, redrawn=redrawn, talk=talk)
        with self.folder.journal.open("rb") as file:
            begun = beginning_at(file, offsets)
        self.partial(prompt.position, len(begun))
        return Work(index, prompt, begun=begun, written=len(begun), talk=talk)

    def talk(self, work: Work) -> Talk:
        """The conversation that a prompt belongs to, at its turn."""
        if work.talk is None:
            work.talk = Talk.of(self._heads.turns_at(work.prompt.position))
        return work.talk

    def answered_before(self) -> PromptHead | None:
        """A prompt that earlier starts have answered."""
        position = next((p for p in range(self.end) if self.standing.is_done(p)), None)
        if position is None:
            return None
        heads = Heads(self.folder.prompts, self.standing.prompt_offsets)
        try:
            return heads.at(position)
        finally:
            heads.close()

    def sent(self, position: int, limit: int) -> None:
        """A prompt that ``next`` gave was handed to an engine just now, under this token limit. Its call must not begin
        before ``mark_sent``."""
        self._mark.reach(position)
        self._flights.sent(position, limit + self._before(position))

    def mark_sent(self) -> None:
        """Let the next start know how far this one has sent."""
        self._mark.write()

    def partial(self, position: int, tokens: int) -> None:
        """Its answer has exactly so many tokens just now, whether it runs or will be sent again to be continued."""
        self._flights.partial(position, tokens + self._before(position))

    def waits(self, position: int) -> None:
        """Its call has failed; it will be sent again. Unless ``partial`` says otherwise, from the beginning."""
        self._flights.waits(position)

    def answered(self, completion: Completion) -> None:
        """An answer of a prompt that ``next`` gave, or of a later turn of it, is durable."""
        position, tokens = completion.position, completion.completion_tokens
        worth = self.standing.worth(completion.prompt_tokens, tokens)
        self.answers += 1
        self.tokens += tokens
        self.counted += worth
        self.finishes[completion.finish_reason.value] += 1
        said = self._said.pop(position, NOTHING)
        said = Said(said.offsets, said.tokens + tokens, said.counted + worth)
        if completion.more:
            self._said[position] = said
            self.partial(position, 0)
            self.waits(position)
        else:
            self._settle(position, said, completion.finish_reason is Finish.LENGTH and not completion.ended)

    def gave_up(self, position: int) -> None:
        """A prompt that ``next`` gave has become an error row; the earlier turns of its conversation stand."""
        if said := self._said.pop(position, None):
            self._settle(position, said, False)
        else:
            self._flights.landed(position, None)
            self.failed += 1

    def _settle(self, position: int, said: Said, cut: bool) -> None:
        self._flights.landed(position, said.tokens)
        self.forecast.add(said.tokens, cut)
        self.completed += 1
        self._known += said.counted

    def _before(self, position: int) -> int:
        """Tokens of the turns that a conversation has already."""
        return self._said.get(position, NOTHING).tokens

    def _resumed(self, prompt: PromptHead, said: Said) -> tuple[Talk, PromptHead]:
        """A conversation that an earlier start left between two turns, or in one: it, and the prompt of its turn."""
        if self.dialogue is None:
            raise StorageError(f"{self.folder.journal}: has turns of position {prompt.position}, which has but one")
        talk = Talk.of(self._heads.turns_at(prompt.position))
        with self.folder.journal.open("rb") as file:
            replay(self.dialogue, talk, [completion_at(file, at) for at in said.offsets], list(prompt.prompt_ids))
        self._said[prompt.position] = said
        return talk, self.turn_of(prompt, talk)

    def turn_of(self, prompt: PromptHead, talk: Talk) -> PromptHead:
        """The prompt of the turn that a conversation is at; one that the template refuses has a fault and no ids."""
        assert self.dialogue
        try:
            ids, fault = self.dialogue.prompt(talk), ""
        except RenderError as error:
            ids, fault = [], error.message
        return msgspec.structs.replace(prompt, turn=talk.turn, prompt_ids=ids, fault=fault)

    def suspect(self) -> Appender:
        """The file for replies that are set aside, made when the first one comes."""
        if self.suspects is None:
            self.suspects = Appender(self.folder.suspects, self._files)
        return self.suspects

    def close(self) -> None:
        self._heads.close()
        self._mark.close()
        for file in (self.journal, self.errors, self.suspects):
            if file is not None:
                file.close()

    def _advance(self) -> PromptHead | None:
        while self._pointer < self.end:
            position = self._pointer
            self._pointer += 1
            if self.standing.is_owed(position):
                return self._heads.at(position)
            self._known += self.standing.counted(position)
        return None

    def _reached(self) -> bool:
        """Whether the positions before the pointer are expected to reach the budget. Far from it that costs nothing."""
        budget = self.standing.budget
        if budget is None or self._known + self._flights.most() < budget:
            return False
        return self._known + self._flights.expected() >= budget


def penalised(sampling: Sampling) -> bool:
    """Whether a penalty looks at generated ids: a continuation, which sends them as prompt, would sample otherwise."""
    return bool(sampling.presence_penalty or sampling.frequency_penalty or sampling.repetition_penalty != 1.0)
