"""A run's control file: read at the start, looked at again while the run is on, written by whoever steers it."""

from pathlib import Path

from draftmill.journal.files import replacing
from draftmill.recipe import Control, read_control


class ControlFile:
    """``last`` is what stood in it when it was last read and understood."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = Control()
        self._seen: tuple[int, int, int] | None = None

    def read(self) -> Control:
        """What stands in it now. Raises RecipeError for what is wrong with it; ``last`` then stays what it was."""
        self._seen = self._stamp()
        self.last = read_control(self.path)
        return self.last

    def news(self) -> Control | None:
        """The same where the file has changed since it was read, else None."""
        return None if self._stamp() == self._seen else self.read()

    def write(self, control: Control) -> None:
        """Let a run follow this; the file changes at once and whole. Comments that a person wrote in it are lost."""
        with replacing(self.path) as temporary:
            temporary.write_text(control.text(), encoding="utf-8")
        self.last = control

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size
