import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.verify.answers import loop

TEXT = list(range(100, 160))


@pytest.mark.parametrize(
    ("ids", "period"),
    [
        (TEXT, 0),
        (TEXT + [7] * 16, 1),
        (TEXT + [7] * 8, 0),
        (TEXT + [1, 2, 3] * 6, 3),
        (TEXT + [1, 2, 3] * 6 + [1, 2], 3),
        (TEXT + list(range(50)) * 4, 50),
        (TEXT + list(range(50)) * 3, 0),
        (TEXT + list(range(80)) * 5, 0),
        ([1, 2] * 20 + TEXT, 0),
        ([], 0),
    ],
)
def test_a_loop_is_an_n_gram_repeated_to_the_end(ids: list[int], period: int) -> None:
    assert loop(np.array(ids, np.uint32)) == period


@given(st.lists(st.integers(0, 3), max_size=120))
def test_what_is_called_a_loop_repeats_four_times(ids: list[int]) -> None:
    period = loop(np.array(ids, np.uint32))
    if period:
        assert len(ids) >= max(16, 4 * period)
        end = ids[-max(16, 4 * period) :]
        assert all(a == b for a, b in zip(end, end[period:], strict=False))
