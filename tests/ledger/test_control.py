import os
from pathlib import Path

import pytest

from draftmill.errors import RecipeError
from draftmill.ledger.control import ControlFile
from draftmill.recipe import Control


def test_a_change_is_news_once(tmp_path: Path) -> None:
    file = ControlFile(tmp_path / "control.yaml")
    assert file.read() == Control() and file.news() is None
    ControlFile(file.path).write(Control(pause=True))
    assert file.news() == Control(pause=True) and file.news() is None
    file.path.unlink()
    assert file.news() == Control()


def test_a_fault_is_told_once_and_what_held_before_stays_known(tmp_path: Path) -> None:
    file = ControlFile(tmp_path / "control.yaml")
    file.write(Control(budgets={"chat": 5}))
    assert file.read().budgets == {"chat": 5}
    file.path.write_text("budgets: 5\n")
    os.utime(file.path, (1, 1))
    with pytest.raises(RecipeError):
        file.news()
    assert file.news() is None and file.last.budgets == {"chat": 5}
