import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.watch.lengths import Histogram


@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=200), st.sampled_from([0.1, 0.5, 0.9, 0.99]))
def test_quantiles_are_within_a_bucket(lengths: list[int], share: float) -> None:
    one, many = Histogram(), Histogram()
    many.add_all(np.array(lengths, dtype=np.uint32))
    for length in lengths:
        one.add(length)
    assert one.figures() == many.figures()
    true = sorted(lengths)[max(0, int(np.ceil(share * len(lengths) - 1e-9)) - 1)]
    assert one.quantile(share) == pytest.approx(true, rel=1 / 64, abs=1)
    assert (one.count, one.total, one.longest) == (len(lengths), sum(lengths), max(lengths))


def test_bins_hold_everything() -> None:
    histogram = Histogram()
    histogram.add_all(np.arange(1, 3000))
    bins = histogram.bins(20)
    assert len(bins) <= 20 and sum(n for _, _, n in bins) == 2999
    assert all(low < high for low, high, _ in bins)
    assert Histogram().bins() == [] and Histogram().figures() is None
