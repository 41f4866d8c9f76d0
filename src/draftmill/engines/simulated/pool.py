"""The KV pool of a simulated server: what sequences hold of it, and the prefix cache in what is free."""

from draftmill.engines.simulated.cache import PrefixCache
from draftmill.engines.simulated.sequence import Sequence


class Pool:
    """``held`` of its ``tokens`` are in use. ``cached``: whether ended sequences stay in what is free."""

    def __init__(self, tokens: int, cached: bool) -> None:
        self.tokens = tokens
        self.held = 0
        self._cache = PrefixCache() if cached else None

    @property
    def free(self) -> int:
        return self.tokens - self.held

    def hit(self, sequence: Sequence) -> int:
        """How many tokens of a sequence's fill are in the prefix cache."""
        return self._cache.hit(sequence.prompt_ids + sequence.ids()) if self._cache else 0

    def take(self, tokens: int) -> None:
        self.held += tokens
        if self._cache:
            self._cache.shrink(self.free)

    def release(self, sequence: Sequence, keep: bool) -> None:
        """Give back all that a sequence holds; ``keep`` leaves its ids in the prefix cache."""
        if keep and self._cache and sequence.held:
            self._cache.keep((sequence.prompt_ids + sequence.ids())[: sequence.held])
        self.held -= sequence.held
        sequence.held = 0
