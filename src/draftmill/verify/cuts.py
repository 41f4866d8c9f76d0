"""Words cut otherwise than the tokenizer cuts them: a model now and then spells one so, a text tokenized again never
does. The engine's own distributions say how often it should have happened."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from draftmill.render.tokenizer import Tokenizer
from draftmill.verify.replay import Heard

_BEFORE = 4  # ids whose text decides how the next is cut
_MOST = 20_000  # positions that are looked at: some 10 µs for each id that may stand there
_LIKELY = np.log(1e-4)  # below that an id adds nothing


class OddCuts(NamedTuple):
    """How many there are among the listed ids, how many should be, and how many that left room for one."""

    seen: int
    due: float


def odd_cuts(group: Sequence[Heard], tokenizer: Tokenizer) -> OddCuts:
    """Count ids that, behind those before them, are not how their text is cut; and what the engine gave such ids.

    Whatever is a function of the ids before and the next one is drawn as the distribution says: this one is 1 where the
    text of the last ids and the next would be cut into other ids. White space at the end is left out, since how it is
    cut depends on what follows, and so is a text that breaks off within a character.
    """
    places, windows = [], []
    positions = 0
    for n, heard in enumerate(group):
        answer, drawn = heard.asked.answer, heard.drawn
        for at in range(1, len(drawn)):
            if drawn.chosen_N[at] < 0 or positions >= _MOST:
                continue
            positions += 1
            before = answer[max(0, at - _BEFORE) : at]
            for rank in np.flatnonzero(drawn.logs_NK[at] > _LIKELY).tolist():
                places.append((n, at, rank))
                windows.append([*before, int(drawn.ids_NK[at, rank])])
    texts = tokenizer.inner.batch_decode(windows, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    odd = {
        place
        for place, window, text, again in zip(places, windows, texts, tokenizer.encode(texts), strict=True)
        if again != window and "\ufffd" not in text and not text[-1:].isspace()
    }
    due: dict[tuple[int, int], float] = {}
    for n, at, rank in odd:
        due[n, at] = due.get((n, at), 0.0) + float(np.exp(group[n].drawn.logs_NK[at, rank]))
    open_ = {place: chance for place, chance in due.items() if chance < 0.9}  # else it was cut oddly before
    seen = sum((n, at, int(group[n].drawn.chosen_N[at])) in odd for n, at in open_)
    return OddCuts(seen, sum(open_.values()))
