"""The answers of a simulated model: drawn by hashing the prompt's ids, so that every row can be checked.

An answer is ``BEGIN, variant, three digits of its hash, ids of a fixed table from a hashed place on, STOP``. The
variant stands in the answer, so a prompt that ends in a part of an answer says by itself which answer it continues:
no server has to remember, and one that takes over from another continues the same answer.
"""

import hashlib
import math
import random
from array import array
from enum import Enum
from functools import cache
from statistics import NormalDist

import msgspec

BEGIN, STOP, FIRST = 3, 2, 16  # where an answer begins, its end of sequence, and the first id of its content
_HEAD = 5  # ids before those of the table
_TABLE = 1 << 16
_inverse = NormalDist().inv_cdf


class Lengths(msgspec.Struct, frozen=True):
    """A log-normal of this mean, before any limit cuts it; ``sigma`` 0 gives every answer the mean's length."""

    mean: float
    sigma: float = 0.9

    def at(self, quantile: float) -> int:
        """The length, at least 1, at a quantile between 0 and 1."""
        middle = math.log(self.mean) - self.sigma**2 / 2
        return max(1, round(math.exp(middle + self.sigma * _inverse(quantile))))


class Draw(Enum):
    """What gives a prompt another answer."""

    NEVER = "the same answer whoever asks"
    SEED = "the request's seed, or its tag where it has none"
    ALWAYS = "every request"


class Answer(msgspec.Struct, frozen=True):
    """The whole answer to one prompt. ``done`` of its ``length`` ids stand in the prompt already."""

    key: bytes
    variant: int
    length: int
    vocab_size: int
    done: int = 0

    def ids(self, start: int, end: int) -> list[int]:
        """The ids from ``start`` to before ``end``, counted from the answer's own begin."""
        key, size = self.key, self.vocab_size - FIRST
        head = [BEGIN, FIRST + self.variant, *(FIRST + int.from_bytes(key[i : i + 4]) % size for i in (0, 4, 8))]
        place = int.from_bytes(key[12:16]) % _TABLE - _HEAD
        last = self.length - 1
        body = _table(self.vocab_size, -(-(end + _TABLE) // _TABLE))
        ids = head[start:end] + body[place + max(start, _HEAD) : place + max(end, _HEAD)]
        if start <= last < end:
            ids = [*ids[: last - start], STOP]
        return ids


class Answers(msgspec.Struct, frozen=True):
    """A model: how long its answers are and what stands in them.

    ``by_first`` gives the prompts that begin with an id lengths of their own (a dataset's). ``salt`` makes two runs
    of ``Draw.ALWAYS`` differ.
    """

    lengths: Lengths = Lengths(200.0)
    by_first: dict[int, Lengths] = {}
    draw: Draw = Draw.NEVER
    salt: int = 0
    vocab_size: int = 1000

    def of(self, prompt_ids: list[int], seed: int | None = None, tag: str = "", count: int = 0) -> Answer:
        """The answer to a prompt, or the rest of the one that the prompt ends in. ``count`` numbers the requests."""
        chance: object = 0
        if self.draw is Draw.SEED:
            chance = tag if seed is None else seed
        elif self.draw is Draw.ALWAYS:
            chance = count
        variant = self._variant(chance)
        if BEGIN in prompt_ids:
            start = len(prompt_ids) - 1 - prompt_ids[::-1].index(BEGIN)
            part = prompt_ids[start:]
            own = part[1] - FIRST if len(part) > 1 else variant
            if start and 0 <= own < self.vocab_size - FIRST:
                whole = self._whole(prompt_ids[:start], own)
                if len(part) == 1:  # the variant is drawn now, and what has begun is no answer of one id
                    whole = msgspec.structs.replace(whole, length=max(2, whole.length))
                if len(part) < whole.length and whole.ids(0, len(part)) == part:
                    return msgspec.structs.replace(whole, done=len(part))
        return self._whole(prompt_ids, variant)

    def check(self, prompt_ids: list[int], output_ids: list[int]) -> str | None:
        """Why this is neither an answer to the prompt nor the first part of one; None where it is.

        A draw cannot be told from another one, and what is shorter than six ids hardly tells its prompt.
        """
        variant = output_ids[1] - FIRST if len(output_ids) > 1 and self.draw is not Draw.NEVER else 0
        if variant < 0 and output_ids[1] != STOP:
            return f"the id at 1 is {output_ids[1]}, which names no variant"
        whole = self._whole(prompt_ids, max(0, variant))
        if len(output_ids) == 1:
            return None if output_ids[0] in (BEGIN, STOP) else f"it begins with {output_ids[0]}"
        if len(output_ids) == 2 and output_ids[1] == STOP:  # too short to name its variant
            return None if output_ids[0] == BEGIN else f"it begins with {output_ids[0]}"
        if len(output_ids) > whole.length:
            return f"it has {len(output_ids)} ids, the answer has {whole.length}"
        wanted = whole.ids(0, len(output_ids))
        wrong = next((i for i, (a, b) in enumerate(zip(output_ids, wanted, strict=True)) if a != b), None)
        return None if wrong is None else f"the id at {wrong} is {output_ids[wrong]}, not {wanted[wrong]}"

    def _variant(self, chance: object) -> int:
        if self.draw is Draw.NEVER:
            return 0
        return _number(f"{self.salt}/{chance}".encode()) % (self.vocab_size - FIRST)

    def _whole(self, prompt_ids: list[int], variant: int) -> Answer:
        lengths = self.by_first.get(prompt_ids[0], self.lengths)
        key = hashlib.blake2b(array("I", [variant, *prompt_ids]).tobytes(), digest_size=24).digest()
        quantile = (int.from_bytes(key[16:]) + 0.5) / 2**64
        return Answer(key[:16], variant, lengths.at(min(quantile, 1 - 1e-16)), self.vocab_size)


def _number(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


@cache
def _table(vocab_size: int, times: int) -> list[int]:
    """Content ids, the same in every process, so often over that an answer can start anywhere in the first."""
    if times > 1:
        return _table(vocab_size, 1) * times
    return random.Random(0).choices(range(FIRST, vocab_size), k=_TABLE)  # noqa: S311 no secret
