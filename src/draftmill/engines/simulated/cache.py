"""The prefix cache of a simulated server: blocks of ids by the hash of all ids up to their end."""

import hashlib
from array import array
from collections import OrderedDict

BLOCK = 64


class PrefixCache:
    """Holds only what the pool has free beside the running sequences, and gives it up at any time, the least recently
    used first. Running sequences share nothing: a hit saves prefill, not memory."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    @property
    def tokens(self) -> int:
        return len(self._blocks) * BLOCK

    def hit(self, ids: list[int]) -> int:
        """How many of the first ids are there; never all, since the last one has to be computed for its logits."""
        found = 0
        for key in _chain(ids):
            if key not in self._blocks:
                break
            self._blocks.move_to_end(key)
            found += BLOCK
        return min(found, len(ids) - 1)

    def keep(self, ids: list[int]) -> None:
        """Take in a sequence that has ended. Its end goes first when room is needed."""
        for key in reversed(_chain(ids)):
            self._blocks[key] = None
            self._blocks.move_to_end(key)

    def shrink(self, tokens: int) -> None:
        """Give up what is above so many tokens."""
        while self.tokens > tokens:
            self._blocks.popitem(last=False)


def _chain(ids: list[int]) -> list[bytes]:
    digest = hashlib.blake2b(digest_size=16)
    keys = []
    for end in range(BLOCK, len(ids) + 1, BLOCK):
        digest.update(array("I", ids[end - BLOCK : end]).tobytes())
        keys.append(digest.digest())
    return keys
