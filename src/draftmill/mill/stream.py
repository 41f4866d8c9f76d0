"""One dataset as a stream of owed prompts, in order, held back where its budget is already forecast to be reached."""

from collections import Counter
from collections.abc import Iterator

from draftmill.journal.folder import DatasetFolder
from draftmill.journal.prompts import PromptHead, read_heads
from draftmill.journal.writer import Appender
from draftmill.ledger.standing import Standing
from draftmill.recipe import Dataset, Sampling

_ENOUGH = 16  # answers after which their mean is the forecast of an unknown one; before, its token limit is


class Stream:
    """A dataset under way: its files, its standing, and the next prompt to send.

    A position may be sent while the forecast of all positions before it lies below the budget: those answered with
    their tokens, those under way with the mean so far.
    """

    def __init__(
        self,
        dataset: Dataset,
        folder: DatasetFolder,
        standing: Standing,
        sampling: Sampling,
        limit: int,
        first: int | None = None,
    ) -> None:
        self.name = dataset.name
        self.lane = dataset.lane
        self.folder = folder
        self.standing = standing
        self.sampling = sampling
        self.limit = limit
        self.end = min(standing.needed, first or standing.needed)
        self.resumed = standing.tally()
        self.journal = Appender(folder.journal)
        self.errors = Appender(folder.errors)
        self.suspects: Appender | None = None
        self.completed = 0
        self.failed = 0
        self.tokens = 0
        self.finishes: Counter[str] = Counter()
        self.in_flight = 0
        self._known = 0  # tokens of the answered positions before the pointer
        self._heads: Iterator[PromptHead] = read_heads(folder.prompts)
        self._ahead: PromptHead | None = None

    def ready(self) -> bool:
        """Whether there is an owed prompt that may be sent now."""
        if self._ahead is None:
            self._ahead = self._advance()
        return self._ahead is not None and self._forecast() < (self.standing.budget or float("inf"))

    def next(self) -> PromptHead | None:
        """The next owed prompt, or None: for now (its budget may be reached by what is under way) or for good."""
        if not self.ready():
            return None
        prompt, self._ahead = self._ahead, None
        self.in_flight += 1
        return prompt

    def answered(self, tokens: int, finish: str) -> None:
        """An answer of a prompt that ``next`` gave is durable."""
        self.in_flight -= 1
        self.completed += 1
        self.tokens += tokens
        self._known += tokens
        self.finishes[finish] += 1

    def gave_up(self) -> None:
        """A prompt that ``next`` gave has become an error row."""
        self.in_flight -= 1
        self.failed += 1

    def suspect(self) -> Appender:
        """The file for replies that are set aside, made when the first one comes."""
        if self.suspects is None:
            self.suspects = Appender(self.folder.suspects)
        return self.suspects

    def close(self) -> None:
        for file in (self.journal, self.errors, self.suspects):
            if file is not None:
                file.close()

    def _advance(self) -> PromptHead | None:
        for prompt in self._heads:
            if prompt.position >= self.end:
                break
            if self.standing.is_owed(prompt.position):
                return prompt
            self._known += self.standing.tokens(prompt.position)
        self._heads = iter(())
        return None

    def _forecast(self) -> float:
        """Expected tokens of all positions before the pointer."""
        answers = self.completed + self.resumed.counting + self.resumed.surplus
        tokens = self.tokens + self.resumed.counting_tokens
        mean = tokens / answers if answers >= _ENOUGH else self.limit
        return self._known + self.in_flight * mean
