"""Python's collector of cycles, made rare while the mill runs.

It looks at every element of every list that it visits, and a call holds lists of thousands of ids: at its usual pace it
is a fifth of what a call costs. What was there at the start (templates, tokenizers, modules) is not visited at all.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG = 20_000  # objects: a few hundred calls, should all of them end in cycles


@contextmanager
def rare_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
