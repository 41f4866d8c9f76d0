import pytest

from draftmill.mill import loop as loops
from draftmill.mill import seat as seats
from draftmill.mill import work


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of a real run, a hundred times shorter."""
    monkeypatch.setattr(work, "_FIRST_DELAY", 0.005)
    monkeypatch.setattr(loops, "_OTHER_SEAT_SECONDS", 0.001)
    monkeypatch.setattr(seats, "_PROBE_EVERY", (0.002, 0.01, 0.02))
    monkeypatch.setattr(seats, "_REFUSAL_PAUSE", 0.01)
