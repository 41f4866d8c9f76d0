import pytest

from draftmill.recipe import THRESHOLDS, check_thresholds
from draftmill.verify.checks import CHECKS, passes


def test_every_check_has_a_threshold_under_its_name() -> None:
    assert list(CHECKS) == list(THRESHOLDS)


@pytest.mark.parametrize(
    ("found", "looked", "threshold", "passing"),
    [
        (0, 0, 0, True),
        (1, 100, 0, False),
        (1, 100, 0.01, True),
        (2, 100, 0.01, False),
        (3, 9, 3, True),
        (4, 9, 3, False),
    ],
)
def test_a_threshold_is_a_share_below_one_and_else_a_number(
    found: int, looked: int, threshold: float, passing: bool
) -> None:
    assert passes(found, looked, threshold) is passing


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lop": 0.1}, "no check 'lop'; did you mean loop?"),
        ({"loop": -1}, "loop: -1 should be a share"),
        ({"loop": True}, "loop: True should be"),
    ],
)
def test_what_is_no_threshold_is_refused(given: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_thresholds(given)
