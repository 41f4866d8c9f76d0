"""A run's control file: read at the start, looked at again while the run is on, written by whoever steers it."""

from pathlib import Path

from draftmill.errors import UsageFault
from draftmill.journal.files import replacing
from draftmill.journal.folder import RunFolder
from draftmill.ledger.settings import read_settings
from draftmill.recipe import Control, Recipe, Wish, check_control, read_control


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


def steer(
    folder: RunFolder,
    *,
    pause: bool | None = None,
    concurrency: str | None = None,
    budget: str | None = None,
    engines: dict[str, Wish] | None = None,
    clear: bool = False,
) -> tuple[Control, Recipe]:
    """Lay wishes over what a run's control file says, and write it where that changes anything.

    ``concurrency`` and ``budget`` are as typed: ``64`` for every lane (dataset), or ``short=150,long=auto``. Returns
    what stands there now, and the recipe under it. Raises UsageFault where no run has begun or an engine is taken out
    that is none of its, RecipeError for what does not fit it; then nothing is written.
    """
    settings = read_settings(folder)
    if settings is None:
        raise UsageFault(f"{folder.path}: holds no run", "give the folder that `draftmill run` named")
    recipe = Recipe.model_validate(settings.recipe)
    file = ControlFile(folder.control)
    before = Control() if clear else file.read()
    data = before.model_dump() | ({} if pause is None else {"pause": pause})
    data["concurrency"] = before.concurrency | _by_name(concurrency, list(recipe.lanes))
    data["budgets"] = before.budgets | _by_name(budget, [dataset.name for dataset in recipe.datasets])
    data["engines"] = before.engines_with(engines or {})
    now = check_control(data, "control")
    after = now.over(recipe)
    for url in [url for url, wish in (engines or {}).items() if wish is False]:
        if not before.knows(url, recipe):
            there = ", ".join(spec.url or "embedded" for spec in before.over(recipe).engines)
            raise UsageFault(f"--no-engine {url}: the run has no such engine; it has {there or 'none'}")
    if now != before or clear:
        file.write(now)
    return now, after


def as_number(text: str) -> int | str:
    """A typed value as a control file has it."""
    return int(text) if text.strip().isdecimal() else text.strip()


def _by_name(text: str | None, names: list[str]) -> dict[str, object]:
    """``64`` for all, or ``short=150,long=32``."""
    parts = [] if text is None else [part.strip().rpartition("=") for part in text.split(",")]
    given = [(name.strip(), as_number(value)) for name, _, value in parts]
    return {name: value for target, value in given for name in ([target] if target else names)}
