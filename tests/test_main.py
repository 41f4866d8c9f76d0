import sys

import pytest

from draftmill.__main__ import main


class Interrupted:
    """Finds no module: Ctrl-C comes while it looks for the command line's."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "draftmill.cli.app":
            raise KeyboardInterrupt


def test_a_ctrl_c_while_it_is_being_loaded_ends_as_a_later_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "draftmill.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
